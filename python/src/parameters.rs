//! Python values as query parameters.

use std::collections::HashMap;

use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, ScalarValue};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};

/// Converts a list of values for `$1`, `$2`, or a dict of values for `$name`. `tet_sql._parameters` has
/// already converted the values.
///
/// # Errors
/// Returns a `TypeError` for a value of another type.
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
    let listed = values.try_iter()?.map(|value| scalar(&value?));
    Ok(ParamValues::List(listed.collect::<PyResult<_>>()?))
}

fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ScalarAndMetadata> {
    let scalar = if value.is_none() {
        ScalarValue::Null
    } else if value.is_instance_of::<PyBool>() {
        ScalarValue::Boolean(Some(value.extract()?))
    } else if value.is_instance_of::<PyInt>() {
        match value.extract() {
            Ok(number) => ScalarValue::Int64(Some(number)),
            Err(_) => ScalarValue::UInt64(Some(value.extract()?)),
        }
    } else if value.is_instance_of::<PyFloat>() {
        ScalarValue::Float64(Some(value.extract()?))
    } else if value.is_instance_of::<PyString>() {
        ScalarValue::Utf8(Some(value.extract()?))
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        ScalarValue::Binary(Some(bytes.as_bytes().to_vec()))
    } else {
        let (type_name, count): (String, i64) = value.extract()?;
        time(&type_name, count).ok_or_else(|| {
            PyTypeError::new_err(format!("a parameter has the unknown type {type_name}"))
        })?
    };
    Ok(ScalarAndMetadata::new(scalar, None))
}

/// Converts a time or duration, which is a count of the unit of a NumPy type such as `M8[us]`. `M8[D]` is
/// a date.
fn time(type_name: &str, count: i64) -> Option<ScalarValue> {
    let number = Some(count);
    Some(match type_name {
        "M8[D]" => ScalarValue::Date32(Some(i32::try_from(count).ok()?)),
        "M8[us]" => ScalarValue::TimestampMicrosecond(number, None),
        "M8[ns]" => ScalarValue::TimestampNanosecond(number, None),
        "m8[us]" => ScalarValue::DurationMicrosecond(number),
        "m8[ns]" => ScalarValue::DurationNanosecond(number),
        _ => return None,
    })
}
