//! The fields of times: `year(time)`, `month(time)`, `season(time)` and others.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

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
pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
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

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        coerced(self.name, types)
    }

    fn simplify(&self, arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let mut all = vec![lit(self.field)];
        all.extend(arguments);
        Ok(ExprSimplifyResult::Simplified(date_part().call(all)))
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

/// Coerces text to timestamps and keeps the types of times and dates.
fn coerced(name: &str, types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [time] if time.is_temporal() => Ok(vec![time.clone()]),
        [DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null] => {
            Ok(vec![DataType::Timestamp(TimeUnit::Nanosecond, None)])
        }
        [other] => plan_err!("{name}(time): found {other}, expected a timestamp or a date"),
        _ => plan_err!("{name}(time) takes one argument"),
    }
}

fn field_of(field: &str, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
    if arguments.args.len() != 1 {
        return exec_err!("{field} takes one argument");
    }
    let name = ColumnarValue::Scalar(ScalarValue::from(field));
    arguments.args.insert(0, name);
    let name = Field::new("field", DataType::Utf8, false);
    arguments.arg_fields.insert(0, Arc::new(name));
    arguments.return_field = Arc::new(Field::new(field, DataType::Int32, true));
    date_part().invoke_with_args(arguments)
}
