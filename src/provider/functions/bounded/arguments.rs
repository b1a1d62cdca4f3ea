//! The arguments of a call, as texts, numbers and sizes.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, OffsetSizeTrait};
use arrow::compute::kernels::length::length;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::Result;
use datafusion::common::types::NativeType;
use datafusion::logical_expr::ColumnarValue;

/// The bytes that a text in a list takes for its offset or view, at most.
const VARIABLE_BYTES: usize = 16;

/// Nanoseconds per day.
pub(super) const DAY: i128 = 86_400_000_000_000;

/// An argument as an array. A scalar is an array of one value that applies to all rows.
pub(super) struct Argument {
    pub array: ArrayRef,
    pub is_scalar: bool,
}

impl Argument {
    pub fn of(value: &ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Array(array) => Self {
                array: Arc::clone(array),
                is_scalar: false,
            },
            ColumnarValue::Scalar(scalar) => Self {
                array: scalar.to_array()?,
                is_scalar: true,
            },
        })
    }

    /// Returns integers, one per value of this argument, as [`Numbers`].
    fn with(&self, numbers: Int64Array) -> Numbers {
        Numbers {
            numbers,
            is_scalar: self.is_scalar,
        }
    }

    pub fn numbers(&self) -> Result<Numbers> {
        Ok(self.with(integers(&self.array)?))
    }

    /// Returns the length of each text in bytes, or of each list in elements.
    pub fn lengths(&self) -> Result<Numbers> {
        Ok(self.with(integers(&length(&self.array)?)?))
    }

    /// Returns the text in a row, or `None` if it is null.
    pub fn text(&self, row: usize) -> Option<&str> {
        let row = if self.is_scalar { 0 } else { row };
        if self.array.is_null(row) {
            return None;
        }
        match self.array.data_type() {
            DataType::Utf8 => Some(self.array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Some(self.array.as_string::<i64>().value(row)),
            DataType::Utf8View => Some(self.array.as_string_view().value(row)),
            _ => None,
        }
    }

    /// Returns the size of each value in bytes, as an element of a list.
    pub fn element_bytes(&self) -> Result<Numbers> {
        if let Some(width) = self.array.data_type().primitive_width() {
            return Ok(Numbers::all(width as i64));
        }
        match NativeType::from(self.array.data_type().clone()) {
            NativeType::String | NativeType::Binary => {
                let lengths = integers(&length(&self.array)?)?;
                let bytes = |length: i64| length.saturating_add(VARIABLE_BYTES as i64);
                Ok(self.with(lengths.unary(bytes)))
            }
            _ => {
                let rows = 0..self.array.len();
                let bytes = rows.map(|row| {
                    let value = self.array.slice(row, 1).to_data();
                    Ok(i64::try_from(value.get_slice_memory_size()?).unwrap_or(i64::MAX))
                });
                Ok(self.with(bytes.collect::<Result<Vec<i64>>>()?.into()))
            }
        }
    }

    /// Returns the size of each value in bytes, with all elements of lists.
    pub fn bytes(&self) -> Result<Numbers> {
        match list_element(self.array.data_type()) {
            Some(_) => Ok(self.list_sizes()?.0),
            None => self.element_bytes(),
        }
    }

    /// Returns the size of all elements of each list in bytes, and their number. Elements of lists in
    /// lists are counted one by one.
    pub fn list_sizes(&self) -> Result<(Numbers, Numbers)> {
        let sizes = element_sizes(&self.array)?;
        let saturated = |number: &u64| i64::try_from(*number).unwrap_or(i64::MAX);
        let bytes: Vec<i64> = sizes.iter().map(|(bytes, _)| saturated(bytes)).collect();
        let counts: Vec<i64> = sizes.iter().map(|(_, count)| saturated(count)).collect();
        Ok((self.with(bytes.into()), self.with(counts.into())))
    }

    /// Returns each value as an integer, and the factor that converts times to nanoseconds. Other
    /// types have the factor 1.
    pub fn instants(&self) -> Result<(Numbers, i128)> {
        let unit = match self.array.data_type() {
            DataType::Date32 => DAY,
            DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
            DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
            DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
            _ => 1,
        };
        let array = integers(&self.array)?;
        Ok((self.with(array), unit))
    }
}

/// One integer per row, or one for all rows.
pub(super) struct Numbers {
    numbers: Int64Array,
    is_scalar: bool,
}

impl Numbers {
    /// Returns the same integer for all rows.
    pub fn all(number: i64) -> Self {
        Self {
            numbers: vec![number].into(),
            is_scalar: true,
        }
    }

    pub fn get(&self, row: usize) -> Option<i64> {
        let row = if self.is_scalar { 0 } else { row };
        self.numbers.is_valid(row).then(|| self.numbers.value(row))
    }
}

/// Returns the bytes of each value, and the number of its elements. Elements of lists in lists are
/// counted one by one.
fn element_sizes(array: &ArrayRef) -> Result<Vec<(u64, u64)>> {
    let (values, ranges): (&ArrayRef, Vec<Range<usize>>) = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (list.values(), ranges(list.value_offsets()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (list.values(), ranges(list.value_offsets()))
        }
        DataType::FixedSizeList(_, length) => {
            let length = usize::try_from(*length).unwrap_or(0);
            let ranges = (0..array.len()).map(|row| row * length..(row + 1) * length);
            (array.as_fixed_size_list().values(), ranges.collect())
        }
        data_type => {
            let width = data_type.primitive_width().unwrap_or(VARIABLE_BYTES) as u64;
            let is_text = matches!(
                NativeType::from(data_type.clone()),
                NativeType::String | NativeType::Binary
            );
            if !is_text {
                return Ok(vec![(width, 1); array.len()]);
            }
            let lengths = integers(&length(array)?)?;
            let size = |length: Option<i64>| {
                let length = u64::try_from(length.unwrap_or(0)).unwrap_or(0);
                (length.saturating_add(VARIABLE_BYTES as u64), 1)
            };
            return Ok(lengths.iter().map(size).collect());
        }
    };
    let add = |a: (u64, u64), b: &(u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
    // The sums of all elements before each one.
    let mut sums = vec![(0, 0)];
    for size in &element_sizes(values)? {
        sums.push(add(sums[sums.len() - 1], size));
    }
    let sum = |range: Range<usize>| {
        let (start, end) = (sums[range.start], sums[range.end]);
        (end.0 - start.0, end.1 - start.1)
    };
    Ok(ranges.into_iter().map(sum).collect())
}

/// Returns the range between each offset and the next one.
fn ranges<T: OffsetSizeTrait>(offsets: &[T]) -> Vec<Range<usize>> {
    let pairs = offsets.windows(2);
    pairs
        .map(|pair| pair[0].as_usize()..pair[1].as_usize())
        .collect()
}

/// Returns the type of the elements of a list; `None` for other types.
pub(super) fn list_element(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => Some(field.data_type()),
        _ => None,
    }
}

fn integers(array: &ArrayRef) -> Result<Int64Array> {
    let options = CastOptions::default();
    let array = cast_with_options(array, &DataType::Int64, &options)?;
    Ok(array.as_primitive::<Int64Type>().clone())
}
