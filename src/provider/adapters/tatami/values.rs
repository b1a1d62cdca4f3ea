//! Converts decoded values to Arrow arrays, and scalars of zones to DataFusion's and back.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewArray, BooleanArray, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, PrimitiveArray, StringViewArray,
    StringViewBuilder, TimestampMicrosecondArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};

use crate::format::tatami::{ColumnType, ColumnValues, Scalar, TatamiFile, ValueBounds, Values};
use crate::provider::adapters::tatami::table::{BytesAs, TextOptions};
use crate::provider::source::ColumnBounds;

/// Returns the Arrow type of a stored column; `None` if the format defines no layout for its type.
pub(super) fn data_type(column_type: ColumnType, text: &TextOptions) -> Option<DataType> {
    Some(match column_type {
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Int8 => DataType::Int8,
        ColumnType::Int16 => DataType::Int16,
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::Uint8 => DataType::UInt8,
        ColumnType::Uint16 => DataType::UInt16,
        ColumnType::Uint32 => DataType::UInt32,
        ColumnType::Uint64 => DataType::UInt64,
        ColumnType::Float32 => DataType::Float32,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::TimestampMicros => DataType::Timestamp(TimeUnit::Microsecond, None),
        ColumnType::String | ColumnType::Bytes | ColumnType::BlobRef => {
            match text.of(column_type) {
                BytesAs::Binary => DataType::BinaryView,
                BytesAs::Text | BytesAs::LossyText => DataType::Utf8View,
            }
        }
        ColumnType::List => return None,
    })
}

/// Converts scalars of zones to an array of `data_type`. An unknown scalar, and text that is not valid
/// UTF-8, becomes null.
fn scalars<'a>(
    scalars: impl Iterator<Item = Option<Scalar<'a>>>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let bytes = |scalar| match scalar {
        Some(Scalar::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    macro_rules! collect {
        ($array:ty, $variant:ident) => {{
            let values = scalars.map(|scalar| match scalar {
                Some(Scalar::$variant(value)) => value.try_into().ok(),
                _ => None,
            });
            Arc::new(values.collect::<$array>())
        }};
    }
    Ok(match data_type {
        DataType::Boolean => collect!(BooleanArray, Bool),
        DataType::Int8 => collect!(Int8Array, Int),
        DataType::Int16 => collect!(Int16Array, Int),
        DataType::Int32 => collect!(Int32Array, Int),
        DataType::Int64 => collect!(Int64Array, Int),
        DataType::UInt8 => collect!(UInt8Array, Uint),
        DataType::UInt16 => collect!(UInt16Array, Uint),
        DataType::UInt32 => collect!(UInt32Array, Uint),
        DataType::UInt64 => collect!(UInt64Array, Uint),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            collect!(TimestampMicrosecondArray, Int)
        }
        DataType::Float32 => collect!(Float32Array, Float32),
        DataType::Float64 => collect!(Float64Array, Float64),
        DataType::BinaryView => Arc::new(scalars.map(bytes).collect::<BinaryViewArray>()),
        DataType::Utf8View => {
            let texts = scalars.map(|scalar| std::str::from_utf8(bytes(scalar)?).ok());
            Arc::new(texts.collect::<StringViewArray>())
        }
        other => return internal_err!("zones have no bounds of type {other}"),
    })
}

/// Converts the bounds of a column in each of several blocks to arrays of `data_type`.
pub(super) fn column_bounds(
    bounds: &[ValueBounds<'_>],
    nulls: UInt64Array,
    is_exact: bool,
    data_type: &DataType,
) -> Result<ColumnBounds> {
    let lower = bounds.iter().map(|bounds| bounds.lower);
    // NaN counts as greater than all numbers, so it may exceed the upper bound.
    let upper = bounds.iter().map(|bounds| match bounds.may_have_nan {
        true => None,
        false => bounds.upper,
    });
    Ok(ColumnBounds {
        min: scalars(lower, data_type)?,
        max: scalars(upper, data_type)?,
        nulls,
        sums: None,
        is_exact,
    })
}

/// Converts a scalar of a zone to a value of `data_type`, as [`scalars`] does.
pub(super) fn scalar(scalar: Option<Scalar<'_>>, data_type: &DataType) -> Result<ScalarValue> {
    ScalarValue::try_from_array(&scalars(std::iter::once(scalar), data_type)?, 0)
}

/// Converts an SQL value to a scalar that can be looked up in a Bloom filter. Returns `None` for nulls
/// and for types that are not stored.
pub(super) fn to_scalar(value: &ScalarValue) -> Option<Scalar<'_>> {
    Some(match value {
        ScalarValue::Boolean(Some(value)) => Scalar::Bool(*value),
        ScalarValue::Int8(Some(value)) => Scalar::Int((*value).into()),
        ScalarValue::Int16(Some(value)) => Scalar::Int((*value).into()),
        ScalarValue::Int32(Some(value)) => Scalar::Int((*value).into()),
        ScalarValue::Int64(Some(value)) => Scalar::Int(*value),
        ScalarValue::TimestampMicrosecond(Some(value), _) => Scalar::Int(*value),
        ScalarValue::UInt8(Some(value)) => Scalar::Uint((*value).into()),
        ScalarValue::UInt16(Some(value)) => Scalar::Uint((*value).into()),
        ScalarValue::UInt32(Some(value)) => Scalar::Uint((*value).into()),
        ScalarValue::UInt64(Some(value)) => Scalar::Uint(*value),
        ScalarValue::Float32(Some(value)) => Scalar::Float32(*value),
        ScalarValue::Float64(Some(value)) => Scalar::Float64(*value),
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Scalar::Bytes(text.as_bytes()),
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => Scalar::Bytes(bytes),
        _ => return None,
    })
}

/// Moves the decoded values of a column of the file into an array, and leaves empty buffers.
///
/// # Errors
/// Returns an error if a text is not valid UTF-8.
pub(super) fn to_array(
    values: &mut ColumnValues,
    text: &TextOptions,
    file: &TatamiFile,
    column: usize,
) -> Result<ArrayRef> {
    let column_type = values.column_type();
    let rows = values.rows();
    let (validity, values) = values.take();
    let nulls =
        validity.map(|bits| NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bits), 0, rows)));
    let array: ArrayRef = match (column_type, values) {
        (ColumnType::Bool, Values::Bits(mut bits)) => {
            let bits = BooleanBuffer::new(Buffer::from_vec(bits.take()), 0, rows);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        (ColumnType::Int8, Values::Width1(words)) => numbers::<Int8Type, _>(words, nulls),
        (ColumnType::Uint8, Values::Width1(words)) => numbers::<UInt8Type, _>(words, nulls),
        (ColumnType::Int16, Values::Width2(words)) => numbers::<Int16Type, _>(words, nulls),
        (ColumnType::Uint16, Values::Width2(words)) => numbers::<UInt16Type, _>(words, nulls),
        (ColumnType::Int32, Values::Width4(words)) => numbers::<Int32Type, _>(words, nulls),
        (ColumnType::Uint32, Values::Width4(words)) => numbers::<UInt32Type, _>(words, nulls),
        // Arrow orders NaN by its sign, and zones say nothing about NaN.
        (ColumnType::Float32, Values::Width4(mut words)) => {
            for word in words
                .iter_mut()
                .filter(|word| f32::from_bits(**word).is_nan())
            {
                *word = f32::NAN.to_bits();
            }
            numbers::<Float32Type, _>(words, nulls)
        }
        (ColumnType::Int64, Values::Width8(words)) => numbers::<Int64Type, _>(words, nulls),
        (ColumnType::Uint64, Values::Width8(words)) => numbers::<UInt64Type, _>(words, nulls),
        (ColumnType::Float64, Values::Width8(mut words)) => {
            for word in words
                .iter_mut()
                .filter(|word| f64::from_bits(**word).is_nan())
            {
                *word = f64::NAN.to_bits();
            }
            numbers::<Float64Type, _>(words, nulls)
        }
        (ColumnType::TimestampMicros, Values::Width8(words)) => {
            numbers::<TimestampMicrosecondType, _>(words, nulls)
        }
        (_, Values::Strings(mut strings)) => {
            let is_utf8 = strings.is_utf8();
            let (views, buffers) = strings.take();
            let buffers: Arc<[Buffer]> = buffers.into_iter().map(Buffer::from).collect();
            let views = ScalarBuffer::from(views);
            // SAFETY: `Strings` makes views as Arrow defines them, of ranges that lie in the buffers.
            let array = unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) };
            match text.of(column_type) {
                BytesAs::Binary => Arc::new(array),
                BytesAs::LossyText => Arc::new(lossy(&array)),
                // SAFETY: all strings were checked when they were decoded.
                BytesAs::Text if is_utf8 => Arc::new(unsafe { array.to_string_view_unchecked() }),
                BytesAs::Text => match array.to_string_view() {
                    Ok(array) => Arc::new(array),
                    Err(_) => return invalid_text(file, column),
                },
            }
        }
        (column_type, _) => {
            return internal_err!("{column_type} values are in buffers of another type");
        }
    };
    Ok(array)
}

/// Copies the texts of an array that are in use, so that it does not keep the texts of a whole page in
/// memory.
pub(super) fn compact(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => array,
    }
}

/// Returns the error for text that is not valid UTF-8.
fn invalid_text<T>(file: &TatamiFile, column: usize) -> Result<T> {
    let name = file
        .schema()
        .fields
        .get(column)
        .map(|field| field.name.as_str());
    exec_err!(
        "{}, column {:?}: a value is not valid UTF-8; set the option text, or blobs for a blob column, to 'lossy' or \
         'binary'",
        file.path().display(),
        name.unwrap_or_default()
    )
}

/// Reinterprets words as numbers of the same size.
fn numbers<T: ArrowPrimitiveType, W: arrow::datatypes::ArrowNativeType>(
    words: Vec<W>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let count = words.len();
    let values = ScalarBuffer::new(Buffer::from_vec(words), 0, count);
    Arc::new(PrimitiveArray::<T>::new(values, nulls))
}

fn lossy(array: &BinaryViewArray) -> StringViewArray {
    let mut texts = StringViewBuilder::with_capacity(array.len());
    for value in array {
        texts.append_option(value.map(String::from_utf8_lossy));
    }
    texts.finish()
}
