//! The product of an interval or a duration and a number, which the operator `*` of
//! [`enable_arrays`](crate::enable_arrays) calls.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The length of a month whose fraction becomes days, as in PostgreSQL.
const DAYS_PER_MONTH: f64 = 30.0;
const NANOSECONDS_PER_DAY: f64 = 86_400e9;
/// Products with a fraction are rounded to this unit, as in PostgreSQL.
const NANOSECONDS_PER_MICROSECOND: f64 = 1e3;
/// 2^63, the smallest positive `f64` that does not fit in an `i64`.
const BEYOND: f64 = 9_223_372_036_854_775_808.0;

/// Returns the product of an interval or a duration and a number, given in any order.
///
/// The months, days and nanoseconds of an interval are multiplied one by one. A double may leave
/// fractions: a fraction of a month becomes days of a month of 30 days, and a fraction of a day
/// becomes time, rounded to microseconds. Products out of range are errors.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct IntervalProduct {
    signature: Signature,
}

impl IntervalProduct {
    /// The name of the function.
    pub const NAME: &str = "tet_interval_product";

    /// Creates the function.
    pub fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }

    /// Returns `true` if the function multiplies values of these types.
    pub fn accepts(left: &DataType, right: &DataType) -> bool {
        let is_factor = |data_type: &DataType| data_type.is_numeric() || data_type.is_null();
        is_span(left) && is_factor(right) || is_factor(left) && is_span(right)
    }
}

impl Default for IntervalProduct {
    fn default() -> Self {
        Self::new()
    }
}

impl ScalarUDFImpl for IntervalProduct {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [left, right] => format!("{left} * {right}"),
            _ => self.name().to_string(),
        })
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [left, right] => format!("{} * {}", left.schema_name(), right.schema_name()),
            _ => self.name().to_string(),
        })
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = take_function_args(self.name(), types)?;
        if !Self::accepts(left, right) {
            return plan_err!("cannot multiply {left} and {right}");
        }
        let coerced = |data_type: &DataType| match data_type {
            DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::Duration(unit) => DataType::Duration(*unit),
            other if other.is_integer() || other.is_null() => DataType::Int64,
            _ => DataType::Float64,
        };
        Ok(vec![coerced(left), coerced(right)])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = take_function_args(self.name(), types)?;
        Ok(if is_span(left) { left } else { right }.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone());
        let data_type = self.return_type(&types.collect::<Vec<_>>())?;
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), data_type, is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_array = |argument: &ColumnarValue| matches!(argument, ColumnarValue::Array(_));
        let are_scalars = !args.args.iter().any(is_array);
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = take_function_args(self.name(), arrays)?;
        let products = match is_span(left.data_type()) {
            true => products(&left, &right)?,
            false => products(&right, &left)?,
        };
        Ok(match are_scalars {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&products, 0)?),
            false => ColumnarValue::Array(products),
        })
    }
}

fn is_span(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
}

/// Multiplies intervals or durations with as many numbers, of type `Int64` or `Float64`.
fn products(spans: &ArrayRef, factors: &ArrayRef) -> Result<ArrayRef> {
    let is_integer = factors.data_type() == &DataType::Int64;
    let factor = |row: usize| {
        factors.is_valid(row).then(|| match is_integer {
            true => Factor::Integer(factors.as_primitive::<Int64Type>().value(row)),
            false => Factor::Double(factors.as_primitive::<Float64Type>().value(row)),
        })
    };
    if let Some(intervals) = spans.as_primitive_opt::<IntervalMonthDayNanoType>() {
        let products = intervals.iter().enumerate().map(|(row, interval)| {
            let (Some(interval), Some(factor)) = (interval, factor(row)) else {
                return Ok(None);
            };
            match factor.of_interval(interval) {
                Some(product) => Ok(Some(product)),
                None => Err(out_of_range(spans, row, factor)),
            }
        });
        let products: IntervalMonthDayNanoArray = products.collect::<Result<_>>()?;
        return Ok(Arc::new(products));
    }
    let ticks = cast(spans, &DataType::Int64)?;
    let ticks = ticks.as_primitive::<Int64Type>().iter().enumerate();
    let products = ticks.map(|(row, ticks)| {
        let (Some(ticks), Some(factor)) = (ticks, factor(row)) else {
            return Ok(None);
        };
        match factor.of_ticks(ticks) {
            Some(product) => Ok(Some(product)),
            None => Err(out_of_range(spans, row, factor)),
        }
    });
    let products: arrow::array::Int64Array = products.collect::<Result<_>>()?;
    Ok(cast(&products, spans.data_type())?)
}

fn out_of_range(
    spans: &ArrayRef,
    row: usize,
    factor: Factor,
) -> datafusion::error::DataFusionError {
    let span = arrow::util::display::array_value_to_string(spans, row).unwrap_or_default();
    let factor = match factor {
        Factor::Integer(factor) => factor.to_string(),
        Factor::Double(factor) => factor.to_string(),
    };
    exec_datafusion_err!("cannot multiply {span} by {factor}: the product is out of range")
}

#[derive(Debug, Clone, Copy)]
enum Factor {
    Integer(i64),
    Double(f64),
}

impl Factor {
    /// Multiplies an interval. Returns `None` if the product is out of range.
    fn of_interval(self, interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
        let IntervalMonthDayNano {
            months,
            days,
            nanoseconds,
        } = interval;
        match self {
            Self::Integer(factor) => {
                let product =
                    |field: i32| i32::try_from(i64::from(field).checked_mul(factor)?).ok();
                Some(IntervalMonthDayNano::new(
                    product(months)?,
                    product(days)?,
                    nanoseconds.checked_mul(factor)?,
                ))
            }
            Self::Double(factor) => {
                let months = f64::from(months) * factor;
                let days = f64::from(days) * factor;
                let days_of_months = months.fract() * DAYS_PER_MONTH;
                let rest = days.fract() + days_of_months.fract();
                let whole_days = days.trunc() + days_of_months.trunc() + rest.trunc();
                let mut time = rounded(
                    rest.fract() * NANOSECONDS_PER_DAY,
                    NANOSECONDS_PER_MICROSECOND,
                );
                // A fraction that is almost a day is a day.
                let carried = (time / NANOSECONDS_PER_DAY).trunc();
                let whole_days = whole_days + carried;
                time -= carried * NANOSECONDS_PER_DAY;
                let nanoseconds = rounded(
                    nanoseconds as f64 * factor + time,
                    NANOSECONDS_PER_MICROSECOND,
                );
                Some(IntervalMonthDayNano::new(
                    narrow(months)?,
                    narrow(whole_days)?,
                    whole(nanoseconds)?,
                ))
            }
        }
    }

    /// Multiplies a duration. Returns `None` if the product is out of range.
    fn of_ticks(self, ticks: i64) -> Option<i64> {
        match self {
            Self::Integer(factor) => ticks.checked_mul(factor),
            Self::Double(factor) => whole((ticks as f64 * factor).round()),
        }
    }
}

fn rounded(number: f64, unit: f64) -> f64 {
    (number / unit).round() * unit
}

fn narrow(number: f64) -> Option<i32> {
    i32::try_from(whole(number.trunc())?).ok()
}

/// Converts a whole number. Returns `None` if it is out of range or NaN.
fn whole(number: f64) -> Option<i64> {
    (-BEYOND..BEYOND).contains(&number).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn interval(months: i32, days: i32, nanoseconds: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano::new(months, days, nanoseconds)
    }

    #[test]
    fn integers_multiply_each_field() {
        let one = interval(1, -2, 3);
        let product = Factor::Integer(-5).of_interval(one);
        assert_eq!(product, Some(interval(-5, 10, -15)));
        for (one, factor) in [
            (interval(1, 0, 0), i64::from(i32::MAX) + 1),
            (interval(0, 2, 0), i64::MAX),
            (interval(0, 0, 2), i64::MAX),
        ] {
            assert_eq!(Factor::Integer(factor).of_interval(one), None);
        }
        assert_eq!(Factor::Integer(-1).of_ticks(i64::MIN), None);
    }

    /// The expected values are PostgreSQL's.
    #[test]
    fn fractions_go_to_smaller_fields() {
        for (one, factor, expected) in [
            (interval(0, 0, HOUR), 6.0, interval(0, 0, 6 * HOUR)),
            (interval(0, 1, 0), 0.5, interval(0, 0, 12 * HOUR)),
            (interval(1, 0, 0), 0.5, interval(0, 15, 0)),
            (interval(1, 0, 0), 1.25, interval(1, 7, 12 * HOUR)),
            (interval(1, 1, 0), -0.5, interval(0, -15, -12 * HOUR)),
            (interval(12, 0, 0), 1.5, interval(18, 0, 0)),
            (interval(1, 1, 0), 1.75, interval(1, 24, 6 * HOUR)),
        ] {
            let product = Factor::Double(factor).of_interval(one);
            assert_eq!(product, Some(expected), "{one:?} * {factor}");
        }
        for factor in [f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(Factor::Double(factor).of_interval(interval(0, 1, 0)), None);
            assert_eq!(Factor::Double(factor).of_ticks(1), None);
        }
    }
}
