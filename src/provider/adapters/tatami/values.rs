//! Converts decoded values to Arrow arrays, and scalars of zones to DataFusion's and back.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, StringArray,
    StringBuilder,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};

use crate::format::tatami::{ColumnType, ColumnValues, Scalar, TatamiFile, Values};
use crate::provider::adapters::tatami::table::{BytesAs, TextOptions};

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
                BytesAs::Binary => DataType::Binary,
                BytesAs::Text | BytesAs::LossyText => DataType::Utf8,
            }
        }
        ColumnType::List => return None,
    })
}

/// Converts a scalar of a zone to a value of `data_type`. Returns a null if the scalar is unknown, or is
/// text that is not valid UTF-8.
pub(super) fn scalar(scalar: Option<Scalar<'_>>, data_type: &DataType) -> Result<ScalarValue> {
    let value = match scalar {
        None => return ScalarValue::try_from(data_type),
        Some(Scalar::Bool(value)) => ScalarValue::Boolean(Some(value)),
        Some(Scalar::Int(value)) => match data_type {
            DataType::Timestamp(..) => ScalarValue::TimestampMicrosecond(Some(value), None),
            _ => ScalarValue::Int64(Some(value)),
        },
        Some(Scalar::Uint(value)) => ScalarValue::UInt64(Some(value)),
        Some(Scalar::Float32(value)) => ScalarValue::Float32(Some(value)),
        Some(Scalar::Float64(value)) => ScalarValue::Float64(Some(value)),
        Some(Scalar::Bytes(bytes)) => match (data_type, std::str::from_utf8(bytes)) {
            (DataType::Utf8, Ok(text)) => ScalarValue::Utf8(Some(text.to_string())),
            (DataType::Utf8, Err(_)) => ScalarValue::Utf8(None),
            _ => ScalarValue::Binary(Some(bytes.to_vec())),
        },
    };
    value.cast_to(data_type)
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
        (_, Values::Variable { offsets, data }) => {
            let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
            let array = BinaryArray::new(offsets, Buffer::from_vec(data), nulls);
            match text.of(column_type) {
                BytesAs::Binary => Arc::new(array),
                BytesAs::LossyText => Arc::new(lossy(&array)),
                BytesAs::Text => match StringArray::try_from_binary(array) {
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

fn lossy(array: &BinaryArray) -> StringArray {
    let mut texts = StringBuilder::with_capacity(array.iter().len(), array.value_data().len());
    for value in array {
        texts.append_option(value.map(String::from_utf8_lossy));
    }
    texts.finish()
}
