//! `date_part` and `extract` of durations.
//!
//! A part of a duration is its whole length: the epoch of 1.5 minutes is 90.0, the second is 90 and the millisecond
//! is 90000. DataFusion 55 computes all parts from seconds and nanoseconds of 32 bits. Beyond them, it returns null or
//! wrong numbers.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int32Array, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::cast_utils::IntervalUnit;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, TimeUnit};
use datafusion::common::utils::take_function_args;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_datafusion_err};
use datafusion::functions::datetime;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
};

use crate::provider::functions::forwarding::forward_to_inner;

/// DataFusion's `date_part`, with own parts of durations.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DatePart {
    /// DataFusion's function.
    inner: Arc<ScalarUDF>,
}

impl DatePart {
    /// Creates the function.
    pub fn new() -> Self {
        Self {
            inner: datetime::date_part(),
        }
    }
}

impl Default for DatePart {
    fn default() -> Self {
        Self::new()
    }
}

impl ScalarUDFImpl for DatePart {
    forward_to_inner!();

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        if let ([Some(name), _], [_, value]) = (arguments.scalar_arguments, arguments.arg_fields)
            && let Some(part) = DurationPart::of(name, value.data_type())
        {
            let field = Field::new(self.name(), part.data_type(), value.is_nullable());
            return Ok(Arc::new(field));
        }
        self.inner.return_field_from_args(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [name, durations] = take_function_args(self.name(), &arguments.args)?;
        let part = match name {
            ColumnarValue::Scalar(name) => DurationPart::of(name, &durations.data_type()),
            ColumnarValue::Array(_) => None,
        };
        let Some(part) = part else {
            return self.inner.invoke_with_args(arguments);
        };
        let parts = part.of_durations(&durations.to_array(1)?)?;
        Ok(match durations {
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&parts, 0)?)
            }
            ColumnarValue::Array(_) => ColumnarValue::Array(parts),
        })
    }

    fn preimage(
        &self,
        arguments: &[Expr],
        literal: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        self.inner.inner().preimage(arguments, literal, info)
    }
}

/// A part of the durations of one unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct DurationPart {
    kind: Kind,
    /// The unit of the durations.
    unit: TimeUnit,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// The length in seconds, with their fractions.
    Epoch,
    /// The number of whole units of this many nanoseconds.
    Units(i128),
}

const SECOND: i128 = 1_000_000_000;
const HOUR: i128 = 3_600 * SECOND;

impl DurationPart {
    /// Returns the part of this name. `None` if the values are no durations, or if durations have no such part, as
    /// a year.
    fn of(name: &ScalarValue, data_type: &DataType) -> Option<Self> {
        Self::of_name(name.try_as_str()??, data_type)
    }

    /// Returns the part of this name, as [`of`](Self::of) does.
    pub fn of_name(name: &str, data_type: &DataType) -> Option<Self> {
        let DataType::Duration(unit) = data_type else {
            return None;
        };
        // `extract('hour' FROM duration)` keeps the quotes.
        let name = name.trim_matches(['\'', '"']);
        let kind = match IntervalUnit::from_str(name) {
            Ok(IntervalUnit::Week) => Kind::Units(7 * 24 * HOUR),
            Ok(IntervalUnit::Day) => Kind::Units(24 * HOUR),
            Ok(IntervalUnit::Hour) => Kind::Units(HOUR),
            Ok(IntervalUnit::Minute) => Kind::Units(60 * SECOND),
            Ok(IntervalUnit::Second) => Kind::Units(SECOND),
            Ok(IntervalUnit::Millisecond) => Kind::Units(1_000_000),
            Ok(IntervalUnit::Microsecond) => Kind::Units(1_000),
            Ok(IntervalUnit::Nanosecond) => Kind::Units(1),
            Err(_) if name.eq_ignore_ascii_case("epoch") => Kind::Epoch,
            _ => return None,
        };
        Some(Self { kind, unit: *unit })
    }

    /// Returns the type of the part. Minutes of 32 bits would reach only 4083 years.
    pub fn data_type(self) -> DataType {
        match self.kind {
            Kind::Epoch => DataType::Float64,
            Kind::Units(size) if size >= HOUR => DataType::Int32,
            Kind::Units(_) => DataType::Int64,
        }
    }

    fn of_durations(self, durations: &ArrayRef) -> Result<ArrayRef> {
        let ticks = cast(durations, &DataType::Int64)?;
        let ticks = ticks.as_primitive::<Int64Type>();
        let (tick, unit) = match self.unit {
            TimeUnit::Second => (SECOND, "seconds"),
            TimeUnit::Millisecond => (1_000_000, "milliseconds"),
            TimeUnit::Microsecond => (1_000, "microseconds"),
            TimeUnit::Nanosecond => (1, "nanoseconds"),
        };
        let size = match self.kind {
            Kind::Units(size) => size,
            Kind::Epoch => {
                let per_second = (SECOND / tick) as f64;
                let seconds: Float64Array = ticks.unary(|ticks| ticks as f64 / per_second);
                return Ok(Arc::new(seconds));
            }
        };
        let whole = |ticks: i64| i128::from(ticks) * tick / size;
        let refused = |ticks: i64| -> DataFusionError {
            exec_datafusion_err!(
                "date_part: {ticks} {unit} have {} units of the part, which does not fit in {}",
                whole(ticks),
                self.data_type()
            )
        };
        Ok(match self.data_type() {
            DataType::Int32 => {
                let part = |ticks| i32::try_from(whole(ticks)).map_err(|_| refused(ticks));
                let parts = ticks.iter().map(|ticks| ticks.map(part).transpose());
                Arc::new(parts.collect::<Result<Int32Array>>()?)
            }
            _ => {
                let part = |ticks| i64::try_from(whole(ticks)).map_err(|_| refused(ticks));
                let parts = ticks.iter().map(|ticks| ticks.map(part).transpose());
                Arc::new(parts.collect::<Result<Int64Array>>()?)
            }
        })
    }
}
