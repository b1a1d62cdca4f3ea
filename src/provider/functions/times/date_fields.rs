//! The fields of times: `year(time)`, `month(time)`, `season(time)` and others.
//!
//! Times may be text. Fields that do not depend on the calendar are read from the text itself, so
//! that day 30 of a February in a calendar of 360 days is 30.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};

use crate::provider::functions::times::duration_parts::{DatePart, DurationPart};
use crate::provider::functions::times::text_dates;

/// The functions, each with the field of `date_part` that it returns.
const FIELDS: [(&str, &str); 9] = [
    ("year", "year"),
    ("quarter", "quarter"),
    ("month", "month"),
    ("week", "week"),
    ("day", "day"),
    ("dayofyear", "doy"),
    ("hour", "hour"),
    ("minute", "minute"),
    ("second", "second"),
];

/// Returns all functions of this module.
pub(in crate::provider::functions) fn all() -> impl Iterator<Item = ScalarUDF> {
    let fields = FIELDS.map(|(name, field)| DateField::new(name, field).into());
    fields.into_iter().chain([Season::new().into()])
}

/// A field of a time as an integer: `month(time)` is `date_part('month', time)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DateField {
    name: &'static str,
    field: &'static str,
    signature: Signature,
}

impl DateField {
    fn new(name: &'static str, field: &'static str) -> Self {
        Self {
            name,
            field,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for DateField {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let part = types.first();
        let part = part.and_then(|data_type| DurationPart::of_name(self.field, data_type));
        Ok(part.map_or(DataType::Int32, DurationPart::data_type))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        coerced(self.name, types)
    }

    fn simplify(
        &self,
        arguments: Vec<Expr>,
        context: &SimplifyContext,
    ) -> Result<ExprSimplifyResult> {
        let mut types = arguments
            .iter()
            .map(|argument| argument.get_type(context.schema()));
        if types.any(|data_type| data_type.is_ok_and(|data_type| data_type.is_string())) {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        let mut all = vec![lit(self.field)];
        all.extend(arguments);
        let part = ScalarUDF::from(DatePart::new());
        Ok(ExprSimplifyResult::Simplified(part.call(all)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        field_of(self.field, arguments)
    }
}

/// The meteorological season of a time, as in xarray's `time.dt.season`: `DJF`, `MAM`, `JJA` or
/// `SON`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Season {
    signature: Signature,
}

impl Season {
    fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Season {
    fn name(&self) -> &str {
        "season"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        coerced("season", types)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let months = field_of("month", arguments)?;
        let is_scalar = matches!(months, ColumnarValue::Scalar(_));
        let months = months.into_array(1)?;
        let months = months.as_primitive::<Int32Type>().iter();
        let seasons: ArrayRef = Arc::new(StringArray::from_iter(months.map(|month| {
            Some(match month? {
                12 | 1 | 2 => "DJF",
                3..=5 => "MAM",
                6..=8 => "JJA",
                _ => "SON",
            })
        })));
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&seasons, 0)?),
            false => ColumnarValue::Array(seasons),
        })
    }
}

/// Keeps the types of times, dates and text.
fn coerced(name: &str, types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [time] if time.is_temporal() => Ok(vec![time.clone()]),
        [text] if text.is_string() => Ok(vec![DataType::Utf8]),
        [DataType::Null] => Ok(vec![DataType::Timestamp(TimeUnit::Nanosecond, None)]),
        [other] => plan_err!("{name}(time): found {other}, expected a timestamp or a date"),
        _ => plan_err!("{name}(time) takes one argument"),
    }
}

fn field_of(field: &str, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
    if arguments.args.len() != 1 {
        return exec_err!("{field} takes one argument");
    }
    if let Some(argument) = arguments.args.first_mut()
        && argument.data_type().is_string()
    {
        let is_scalar = matches!(argument, ColumnarValue::Scalar(_));
        let texts = argument.to_array(1)?;
        if let Some(fields) = text_dates::fields(field, &texts)? {
            return Ok(match is_scalar {
                true => ColumnarValue::Scalar(ScalarValue::try_from_array(&fields, 0)?),
                false => ColumnarValue::Array(Arc::new(fields)),
            });
        }
        let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
        *argument = argument.cast_to(&time, None)?;
        arguments.arg_fields = vec![Arc::new(Field::new("time", time, true))];
    }
    let name = ColumnarValue::Scalar(ScalarValue::from(field));
    arguments.args.insert(0, name);
    let name = Field::new("field", DataType::Utf8, false);
    arguments.arg_fields.insert(0, Arc::new(name));
    arguments.return_field = Arc::new(Field::new(field, DataType::Int32, true));
    DatePart::new().invoke_with_args(arguments)
}
