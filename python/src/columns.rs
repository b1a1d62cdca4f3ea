//! Columns of a result, in the memory layout of NumPy.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch, new_empty_array,
};
use arrow::buffer::Buffer;
use arrow::compute::{cast, concat};
use arrow::datatypes::{
    ArrowNativeType, DataType, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Schema, TimeUnit, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::Result;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// NumPy's value for "not a time".
const NAT: i64 = i64::MIN;

/// A column of a result.
///
/// Columns of numbers, booleans and times have an `__array_interface__`, so that
/// `numpy.asarray(column)` refers to the memory of the column. Nulls are NaN, for which integers
/// with nulls become `float64`, or NaT; a boolean column with nulls has the numbers 0, 1 and -1. Columns of text consist of [`Self::texts`], to which
/// the numbers are indices.
#[pyclass(frozen, module = "tet_sql._tet_sql")]
pub struct Column {
    name: String,
    data_type: DataType,
    metadata: HashMap<String, String>,
    rows: usize,
    values: Option<Values>,
    texts: Option<Vec<String>>,
}

/// Contiguous values and their NumPy type.
struct Values {
    type_name: String,
    buffer: Buffer,
}

impl Column {
    /// Returns the columns of a result. A result in several batches is copied once.
    pub fn all(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<Self>> {
        let columns = schema.fields().iter().enumerate();
        let columns = columns.map(|(number, field)| {
            let parts: Vec<&dyn Array> = batches
                .iter()
                .map(|batch| batch.column(number).as_ref())
                .collect();
            let array = match parts.as_slice() {
                [] => new_empty_array(field.data_type()),
                [_] => Arc::clone(batches[0].column(number)),
                parts => concat(parts)?,
            };
            Self::new(field, &array)
        });
        columns.collect()
    }

    /// Returns a column of these values.
    pub fn new(field: &Field, array: &ArrayRef) -> Result<Self> {
        let (values, texts) = layout(array)?;
        Ok(Self {
            name: field.name().clone(),
            data_type: field.data_type().clone(),
            metadata: field.metadata().clone(),
            rows: array.len(),
            values,
            texts,
        })
    }
}

#[pymethods]
impl Column {
    /// The name of the column.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The Arrow type of the column.
    #[getter]
    fn r#type(&self) -> String {
        self.data_type.to_string()
    }

    /// The attributes of the column.
    #[getter]
    fn metadata(&self) -> HashMap<String, String> {
        self.metadata.clone()
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.rows
    }

    /// `True` if NumPy has a type for the values.
    #[getter]
    fn is_plain(&self) -> bool {
        self.values.is_some()
    }

    /// The distinct texts of a column of text, to which its numbers are indices. Null is -1.
    #[getter]
    fn texts(&self) -> Option<Vec<String>> {
        self.texts.clone()
    }

    /// The memory of the values, for `numpy.asarray`.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(values) = &self.values else {
            return Err(pyo3::exceptions::PyAttributeError::new_err(format!(
                "column {} is of type {}, which NumPy does not have",
                self.name, self.data_type
            )));
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.rows,))?;
        interface.set_item("typestr", &values.type_name)?;
        // NumPy keeps a reference to this object, and so to the buffer, which is read-only.
        interface.set_item("data", (values.buffer.as_ptr() as usize, true))?;
        Ok(interface)
    }
}

/// Returns the values of an array in the layout of NumPy, and the texts that they stand for.
/// Types that NumPy does not have give neither.
fn layout(array: &ArrayRef) -> Result<(Option<Values>, Option<Vec<String>>)> {
    let values = match array.data_type() {
        DataType::Int8 => numbers::<Int8Type>(array, "|i1")?,
        DataType::Int16 => numbers::<Int16Type>(array, "<i2")?,
        DataType::Int32 => numbers::<Int32Type>(array, "<i4")?,
        DataType::Int64 => numbers::<Int64Type>(array, "<i8")?,
        DataType::UInt8 => numbers::<UInt8Type>(array, "|u1")?,
        DataType::UInt16 => numbers::<UInt16Type>(array, "<u2")?,
        DataType::UInt32 => numbers::<UInt32Type>(array, "<u4")?,
        DataType::UInt64 => numbers::<UInt64Type>(array, "<u8")?,
        DataType::Float16 => filled::<Float16Type>(
            array,
            "<f2",
            <Float16Type as ArrowPrimitiveType>::Native::NAN,
        ),
        DataType::Float32 => filled::<Float32Type>(array, "<f4", f32::NAN),
        DataType::Float64 => filled::<Float64Type>(array, "<f8", f64::NAN),
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => {
            let numbers = cast(array, &DataType::Float64)?;
            filled::<Float64Type>(&numbers, "<f8", f64::NAN)
        }
        DataType::Boolean => {
            // With nulls, which are -1, the type is not NumPy's type of booleans.
            let type_name = match array.null_count() {
                0 => "|b1",
                _ => "|i1",
            };
            filled::<Int8Type>(&cast(array, &DataType::Int8)?, type_name, -1)
        }
        DataType::Date32 => times(array, TimeUnit::Second, "M8")?,
        DataType::Date64 => times(array, TimeUnit::Millisecond, "M8")?,
        DataType::Timestamp(unit, _) => times(array, *unit, "M8")?,
        DataType::Duration(unit) => times(array, *unit, "m8")?,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => return texts(array),
        DataType::Dictionary(_, values) => {
            return layout(&cast(array, values)?);
        }
        _ => return Ok((None, None)),
    };
    Ok((Some(values), None))
}

/// Returns integers, as `float64` if some are null.
fn numbers<T: ArrowPrimitiveType>(array: &ArrayRef, type_name: &str) -> Result<Values> {
    if array.null_count() > 0 {
        let floats = cast(array, &DataType::Float64)?;
        return Ok(filled::<Float64Type>(&floats, "<f8", f64::NAN));
    }
    Ok(filled::<T>(array, type_name, T::Native::usize_as(0)))
}

/// Returns times or durations as counts of a unit.
fn times(array: &ArrayRef, unit: TimeUnit, kind: &str) -> Result<Values> {
    let name = match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    let data_type = match kind {
        "M8" => DataType::Timestamp(unit, None),
        _ => DataType::Duration(unit),
    };
    let counts = cast(&cast(array, &data_type)?, &DataType::Int64)?;
    Ok(filled::<Int64Type>(
        &counts,
        &format!("<{kind}[{name}]"),
        NAT,
    ))
}

/// Returns values with a replacement for nulls. Values without nulls are not copied.
fn filled<T: ArrowPrimitiveType>(array: &ArrayRef, type_name: &str, null: T::Native) -> Values {
    let array: &PrimitiveArray<T> = array.as_primitive();
    let buffer = match array.null_count() {
        0 => array.values().inner().clone(),
        _ => Buffer::from_iter(array.iter().map(|value| value.unwrap_or(null))),
    };
    Values {
        type_name: type_name.to_owned(),
        buffer,
    }
}

/// Returns the distinct texts in order of their first rows, and the index of each row's text.
fn texts(array: &ArrayRef) -> Result<(Option<Values>, Option<Vec<String>>)> {
    let encoded = DataType::Dictionary(Box::new(DataType::Int64), Box::new(DataType::Utf8));
    let encoded = cast(&cast(array, &DataType::Utf8)?, &encoded)?;
    let encoded = encoded.as_dictionary::<Int64Type>();
    let indices: ArrayRef = Arc::new(encoded.keys().clone());
    let texts = encoded.values().as_string::<i32>().iter();
    let texts = texts.map(|text| text.unwrap_or_default().to_owned());
    let indices = filled::<Int64Type>(&indices, "<i8", -1);
    Ok((Some(indices), Some(texts.collect())))
}
