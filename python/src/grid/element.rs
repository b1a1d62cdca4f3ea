//! The element types of NumPy arrays, and their cells as Arrow arrays.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, Int64Array, StringArray, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type, TimeUnit};
use datafusion::common::Result;
use tet_sql::grid::reduce::CellType;

/// NumPy's value for "not a time".
const NAT: i64 = i64::MIN;

/// The meaning of the cells of an array.
#[derive(Debug, Clone)]
pub enum Element {
    /// The cells are the values of an Arrow type.
    Plain(DataType),
    /// One byte per boolean.
    Boolean,
    /// The cells are indices of these texts; -1 is null.
    Text(Arc<StringArray>),
}

impl Element {
    /// Returns the element of a NumPy type such as `<f4`; `None` for types that are not supported,
    /// including big-endian ones.
    pub fn of(type_name: &str) -> Option<Self> {
        let time_unit = |name: &str| {
            Some(match name {
                "s" => TimeUnit::Second,
                "ms" => TimeUnit::Millisecond,
                "us" => TimeUnit::Microsecond,
                "ns" => TimeUnit::Nanosecond,
                _ => return None,
            })
        };
        let unit = |prefix: &str| {
            let unit = type_name.strip_prefix(prefix)?.strip_suffix(']')?;
            time_unit(unit)
        };
        if let Some(unit) = unit("<M8[") {
            return Some(Self::Plain(DataType::Timestamp(unit, None)));
        }
        if let Some(unit) = unit("<m8[") {
            return Some(Self::Plain(DataType::Duration(unit)));
        }
        Some(Self::Plain(match type_name {
            "|b1" => return Some(Self::Boolean),
            "|i1" => DataType::Int8,
            "<i2" => DataType::Int16,
            "<i4" => DataType::Int32,
            "<i8" => DataType::Int64,
            "|u1" => DataType::UInt8,
            "<u2" => DataType::UInt16,
            "<u4" => DataType::UInt32,
            "<u8" => DataType::UInt64,
            "<f2" => DataType::Float16,
            "<f4" => DataType::Float32,
            "<f8" => DataType::Float64,
            _ => return None,
        }))
    }

    /// The type of the column.
    pub fn data_type(&self) -> DataType {
        match self {
            Self::Plain(data_type) => data_type.clone(),
            Self::Boolean => DataType::Boolean,
            Self::Text(_) => DataType::Utf8,
        }
    }

    /// The number of bytes of a cell.
    pub fn size(&self) -> usize {
        match self {
            Self::Plain(data_type) => data_type.primitive_width().unwrap_or(1),
            Self::Boolean => 1,
            Self::Text(_) => size_of::<i64>(),
        }
    }

    /// The type by which cells are reduced in place; `None` if they are not numbers.
    pub fn cell_type(&self) -> Option<CellType> {
        let Self::Plain(data_type) = self else {
            return None;
        };
        Some(match data_type {
            DataType::Int8 => CellType::I8,
            DataType::Int16 => CellType::I16,
            DataType::Int32 => CellType::I32,
            DataType::Int64 => CellType::I64,
            DataType::UInt8 => CellType::U8,
            DataType::UInt16 => CellType::U16,
            DataType::UInt32 => CellType::U32,
            DataType::UInt64 => CellType::U64,
            DataType::Float16 => CellType::F16,
            DataType::Float32 => CellType::F32,
            DataType::Float64 => CellType::F64,
            _ => return None,
        })
    }

    /// Returns `true` if a cell may be null.
    pub fn may_have_nulls(&self, nan_is_null: bool) -> bool {
        match self {
            Self::Plain(data_type) => {
                data_type.is_temporal() || nan_is_null && data_type.is_floating()
            }
            Self::Boolean => false,
            Self::Text(_) => true,
        }
    }

    /// Returns cells as the values of a column. The buffer has whole cells, and is aligned.
    pub fn array(&self, cells: Buffer, nan_is_null: bool) -> Result<ArrayRef> {
        let data_type = match self {
            Self::Plain(data_type) => data_type,
            Self::Boolean => {
                let bits = BooleanBuffer::collect_bool(cells.len(), |cell| cells[cell] != 0);
                return Ok(Arc::new(BooleanArray::new(bits, None)));
            }
            Self::Text(texts) => {
                let length = cells.len() / self.size();
                let indices =
                    Int64Array::new(arrow::buffer::ScalarBuffer::new(cells, 0, length), None);
                let indices = indices
                    .iter()
                    .map(|index| index.filter(|index| *index >= 0));
                let indices: Int64Array = indices.collect();
                return Ok(take(texts.as_ref(), &indices, None)?);
            }
        };
        let array = ArrayData::builder(data_type.clone())
            .len(cells.len() / self.size())
            .add_buffer(cells)
            .build()?;
        let array = make_array(array);
        let is_valid = match data_type {
            DataType::Float16 if nan_is_null => {
                valid(array.as_primitive::<Float16Type>().values(), |cell| {
                    !cell.is_nan()
                })
            }
            DataType::Float32 if nan_is_null => {
                valid(array.as_primitive::<Float32Type>().values(), |cell| {
                    !cell.is_nan()
                })
            }
            DataType::Float64 if nan_is_null => {
                valid(array.as_primitive::<Float64Type>().values(), |cell| {
                    !cell.is_nan()
                })
            }
            data_type if data_type.is_temporal() => {
                let counts = array.to_data().buffers()[0].clone();
                let counts = arrow::buffer::ScalarBuffer::<i64>::new(counts, 0, array.len());
                valid(&counts, |count| *count != NAT)
            }
            _ => None,
        };
        match is_valid {
            None => Ok(array),
            nulls => {
                let array = array.into_data().into_builder().nulls(nulls);
                Ok(make_array(array.build()?))
            }
        }
    }
}

/// Returns which values are valid; `None` if all are.
fn valid<T>(values: &[T], is_valid: impl Fn(&T) -> bool) -> Option<NullBuffer> {
    if values.iter().all(&is_valid) {
        return None;
    }
    let bits = BooleanBuffer::collect_bool(values.len(), |index| is_valid(&values[index]));
    Some(NullBuffer::new(bits))
}
