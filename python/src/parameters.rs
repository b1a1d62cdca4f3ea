//! Python values as query parameters.

use std::collections::HashMap;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, Result, ScalarValue, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDelta, PyDict, PyFloat, PyInt, PyString};

use crate::errors::exception;

/// Converts a list or tuple of values for `$1`, `$2`, or a dict of values for `$name`.
///
/// # Errors
/// Returns a `TypeError` for a value without a SQL type.
pub fn parameters(values: &Bound<'_, PyAny>) -> PyResult<ParamValues> {
    if let Ok(named) = values.cast::<PyDict>() {
        let named = named.iter().map(|(name, value)| {
            let name: String = name.extract()?;
            Ok((name, scalar(&value)?))
        });
        return Ok(ParamValues::Map(
            named.collect::<PyResult<HashMap<_, _>>>()?,
        ));
    }
    if values.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(
            "params is a str, expected a list of values or a dict of values by name",
        ));
    }
    let listed = values.try_iter()?.map(|value| scalar(&value?));
    Ok(ParamValues::List(listed.collect::<PyResult<_>>()?))
}

/// Returns a statement with its placeholders `?` numbered, as `$1`, `$2` and so on.
pub fn numbered(sql: String) -> String {
    if !sql.contains('?') {
        return sql;
    }
    let dialect = GenericDialect {};
    let tokens = Tokenizer::new(&dialect, &sql)
        .with_unescape(false)
        .tokenize();
    let Ok(mut tokens) = tokens else {
        // Planning reports the error.
        return sql;
    };
    let unnumbered = tokens.iter_mut();
    let unnumbered =
        unnumbered.filter(|token| matches!(token, Token::Placeholder(name) if name == "?"));
    for (index, token) in unnumbered.enumerate() {
        *token = Token::Placeholder(format!("${}", index + 1));
    }
    tokens.iter().map(Token::to_string).collect()
}

/// Converts one value. NumPy scalars are unwrapped by their `item`.
fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ScalarAndMetadata> {
    let scalar = if value.is_none() {
        ScalarValue::Null
    } else if value.is_instance_of::<PyBool>() {
        ScalarValue::Boolean(Some(value.extract()?))
    } else if value.is_instance_of::<PyInt>() {
        ScalarValue::Int64(Some(value.extract()?))
    } else if value.is_instance_of::<PyFloat>() {
        ScalarValue::Float64(Some(value.extract()?))
    } else if value.is_instance_of::<PyString>() {
        ScalarValue::Utf8(Some(value.extract()?))
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        ScalarValue::Binary(Some(bytes.as_bytes().to_vec()))
    } else if let Ok(delta) = value.cast::<PyDelta>() {
        duration(delta)?
    } else if value.hasattr("isoformat")? {
        let data_type = match value.hasattr("hour")? {
            true => DataType::Timestamp(TimeUnit::Microsecond, None),
            false => DataType::Date32,
        };
        time(&value.call_method0("isoformat")?, &data_type)?
    } else if value.get_type().name()? == "datetime64" {
        // NumPy writes its times in ISO 8601.
        time(
            value.str()?.as_any(),
            &DataType::Timestamp(TimeUnit::Nanosecond, None),
        )?
    } else if value.get_type().name()? == "timedelta64" {
        // `item` returns an integer for units that `datetime.timedelta` does not have, such as nanoseconds.
        return self::scalar(
            &value
                .call_method1("astype", ("timedelta64[us]",))?
                .call_method0("item")?,
        );
    } else if value.hasattr("item")? {
        return self::scalar(&value.call_method0("item")?);
    } else {
        return Err(PyTypeError::new_err(format!(
            "a parameter is of type {}, expected None, bool, int, float, str, bytes, a date, a time or a duration",
            value.get_type().name()?
        )));
    };
    Ok(ScalarAndMetadata::new(scalar, None))
}

/// Converts a `datetime.timedelta` to microseconds.
///
/// # Errors
/// Returns an `OverflowError` if they do not fit into 64 bits.
fn duration(delta: &Bound<'_, PyDelta>) -> PyResult<ScalarValue> {
    let field = |name: &str| delta.getattr(name)?.extract::<i64>();
    let microseconds = (field("days")? * 86_400 + field("seconds")?)
        .checked_mul(1_000_000)
        .and_then(|all| all.checked_add(field("microseconds").ok()?));
    match microseconds {
        Some(microseconds) => Ok(ScalarValue::DurationMicrosecond(Some(microseconds))),
        None => Err(PyOverflowError::new_err(
            "a parameter is a duration outside of the range of 64-bit microseconds",
        )),
    }
}

/// Checks that a plan uses all parameters that have values.
///
/// # Errors
/// Fails if a parameter has a value but does not occur in the plan.
pub fn check_used(plan: &LogicalPlan, values: &ParamValues) -> Result<()> {
    let used = plan.get_parameter_names()?;
    let unused = match values {
        ParamValues::List(listed) => (1..=listed.len())
            .map(|number| format!("${number}"))
            .find(|name| !used.contains(name)),
        ParamValues::Map(named) => named
            .keys()
            .map(|name| format!("${name}"))
            .find(|name| !used.contains(name)),
    };
    match unused {
        Some(name) => {
            plan_err!(
                "parameter {name} has a value, but the statement does not use it: remove the value, or write {name} in the statement"
            )
        }
        None => Ok(()),
    }
}

/// Parses a date or a time in ISO 8601, with or without a time zone.
fn time(text: &Bound<'_, PyAny>, data_type: &DataType) -> PyResult<ScalarValue> {
    let scalar = ScalarValue::Utf8(Some(text.extract()?)).cast_to(data_type);
    scalar.map_err(|error| exception(&error))
}
