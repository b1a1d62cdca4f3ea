//! The length of an interval as a duration, so that both can be compared.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

const NANOSECONDS_PER_DAY: i128 = 86_400_000_000_000;

/// Returns the length of an interval as a duration. A day has 24 hours.
///
/// DataFusion compares the fields of intervals one after another, and treats a duration as an
/// interval without days: 48 hours would be less than `INTERVAL '1 day'`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct IntervalLength {
    name: &'static str,
    unit: TimeUnit,
    signature: Signature,
}

impl IntervalLength {
    /// The name of the function for each unit.
    const NAMES: [(&str, TimeUnit); 4] = [
        ("tet_interval_seconds", TimeUnit::Second),
        ("tet_interval_milliseconds", TimeUnit::Millisecond),
        ("tet_interval_microseconds", TimeUnit::Microsecond),
        ("tet_interval_nanoseconds", TimeUnit::Nanosecond),
    ];

    /// Creates the function that returns durations of this unit.
    pub fn new(unit: TimeUnit) -> Self {
        let name = match unit {
            TimeUnit::Second => Self::NAMES[0].0,
            TimeUnit::Millisecond => Self::NAMES[1].0,
            TimeUnit::Microsecond => Self::NAMES[2].0,
            TimeUnit::Nanosecond => Self::NAMES[3].0,
        };
        Self {
            name,
            unit,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }

    /// Returns the function of this name.
    #[cfg(feature = "proto")]
    pub fn of_name(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.into_iter();
        let (_, unit) = names.find(|(known, _)| *known == name)?;
        Some(Self::new(unit))
    }

    /// Returns the length of an interval in the unit of the function.
    ///
    /// # Errors
    /// Fails if the interval has months, if its length is not a multiple of the unit, or if it does not fit in an `i64`.
    pub fn ticks(&self, interval: IntervalMonthDayNano) -> Result<i64> {
        let (size, unit) = match self.unit {
            TimeUnit::Second => (1_000_000_000, "seconds"),
            TimeUnit::Millisecond => (1_000_000, "milliseconds"),
            TimeUnit::Microsecond => (1_000, "microseconds"),
            TimeUnit::Nanosecond => (1, "nanoseconds"),
        };
        let refused = |expected: &str| {
            let interval: ArrayRef = Arc::new(arrow::array::IntervalMonthDayNanoArray::from(vec![
                interval,
            ]));
            let text = arrow::util::display::array_value_to_string(&interval, 0);
            exec_datafusion_err!(
                "cannot compare a duration with the interval {}, expected {expected}",
                text.unwrap_or_default()
            )
        };
        if interval.months != 0 {
            return Err(refused(
                "an interval without months and years, which vary in length",
            ));
        }
        let length =
            i128::from(interval.days) * NANOSECONDS_PER_DAY + i128::from(interval.nanoseconds);
        if length % size != 0 {
            return Err(refused(&format!("a whole number of {unit}")));
        }
        let ticks = i64::try_from(length / size);
        ticks.map_err(|_| refused(&format!("at most 2^63 - 1 {unit}")))
    }
}

impl ScalarUDFImpl for IntervalLength {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The function is not visible in the names of columns.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [interval] = take_function_args(self.name(), args)?;
        Ok(interval.schema_name().to_string())
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Interval(_)] => Ok(vec![DataType::Interval(IntervalUnit::MonthDayNano)]),
            _ => plan_err!("{} takes an interval", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Duration(self.unit))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [argument] = take_function_args(self.name(), &args.args)?;
        let is_scalar = matches!(argument, ColumnarValue::Scalar(_));
        let intervals = argument.to_array(1)?;
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let ticks = intervals
            .iter()
            .map(|interval| interval.map(|interval| self.ticks(interval)).transpose());
        let ticks: Int64Array = ticks.collect::<Result<_>>()?;
        let lengths = cast(&ticks, &DataType::Duration(self.unit))?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?),
            false => ColumnarValue::Array(lengths),
        })
    }
}
