//! Converts the columns of a query to the columns of a `.tatami` file.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericByteArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ByteArrayType, DataType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err, plan_err};

use crate::format::tatami::{
    self, BitSlice, ColumnType, FIELD_BLOB_SEPARATED, FIELD_BLOOM, FIELD_NULLABLE, FIELD_SORT_KEY,
    InputColumn, InputValues,
};
use crate::provider::copy::documents::options::DocumentOptions;

/// Returns the type in which a column is stored.
pub(super) fn column_type(field: &Field, options: &DocumentOptions) -> Result<ColumnType> {
    let is_blob = options.blob.contains(field.name());
    let column_type = match field.data_type() {
        DataType::Boolean => ColumnType::Bool,
        DataType::Int8 => ColumnType::Int8,
        DataType::Int16 => ColumnType::Int16,
        DataType::Int32 => ColumnType::Int32,
        DataType::Int64 => ColumnType::Int64,
        DataType::UInt8 => ColumnType::Uint8,
        DataType::UInt16 => ColumnType::Uint16,
        DataType::UInt32 => ColumnType::Uint32,
        DataType::UInt64 => ColumnType::Uint64,
        DataType::Float16 | DataType::Float32 => ColumnType::Float32,
        DataType::Float64 => ColumnType::Float64,
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            ColumnType::TimestampMicros
        }
        data_type if is_text(data_type) || is_binary(data_type) => match is_blob {
            true => return Ok(ColumnType::BlobRef),
            false if is_text(data_type) => ColumnType::String,
            false => ColumnType::Bytes,
        },
        other => {
            return plan_err!(
                "column {:?} has the type {other}, which .tatami files cannot store; cast it to a number, a text or \
                 a timestamp",
                field.name()
            );
        }
    };
    match is_blob {
        true => plan_err!(
            "option blob names the column {:?} of type {}, expected text or binary",
            field.name(),
            field.data_type()
        ),
        false => Ok(column_type),
    }
}

/// Returns the column of the file in which a column of the query is stored.
pub(super) fn stored(field: &Field, options: &DocumentOptions) -> Result<tatami::Field> {
    let column_type = column_type(field, options)?;
    let is_key = options.sort_key.as_ref() == Some(field.name());
    let flags = [
        (FIELD_NULLABLE, field.is_nullable()),
        (FIELD_SORT_KEY, is_key),
        (FIELD_BLOOM, options.bloom.contains(field.name())),
        (FIELD_BLOB_SEPARATED, column_type == ColumnType::BlobRef),
    ];
    Ok(tatami::Field {
        name: field.name().clone(),
        column_type,
        flags: flags
            .iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(flag, _)| flag)
            .sum(),
        element_type: 0,
    })
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_string(),
    }
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}

/// Casts a column to the Arrow type that [`input`] accepts. Fails if a value is out of range.
pub(super) fn normalized(array: &ArrayRef, column_type: ColumnType) -> Result<ArrayRef> {
    let data_type = match column_type {
        ColumnType::Float32 => DataType::Float32,
        ColumnType::TimestampMicros => DataType::Timestamp(TimeUnit::Microsecond, None),
        ColumnType::String | ColumnType::Bytes | ColumnType::BlobRef => match array.data_type() {
            DataType::LargeUtf8 | DataType::LargeBinary => return Ok(Arc::clone(array)),
            other if is_text(other) => DataType::Utf8,
            _ => DataType::Binary,
        },
        _ => return Ok(Arc::clone(array)),
    };
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    if array.data_type() == &DataType::Date64 {
        // Arrow checks the range of this cast only from timestamps.
        let times = DataType::Timestamp(TimeUnit::Millisecond, None);
        let times = cast_with_options(array, &times, &options)?;
        return Ok(cast_with_options(&times, &data_type, &options)?);
    }
    Ok(cast_with_options(array, &data_type, &options)?)
}

/// Borrows a [`normalized`] column as input for the writer.
pub(super) fn input<'a>(array: &'a ArrayRef) -> Result<InputColumn<'a>> {
    let validity = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let validity = validity.map(|nulls| BitSlice {
        bytes: nulls.validity(),
        offset: nulls.offset(),
    });
    let values = match array.data_type() {
        DataType::Boolean => {
            let bits = array.as_boolean().values();
            InputValues::Bool(BitSlice {
                bytes: bits.values(),
                offset: bits.offset(),
            })
        }
        DataType::Int8 => InputValues::Int8(array.as_primitive::<Int8Type>().values()),
        DataType::Int16 => InputValues::Int16(array.as_primitive::<Int16Type>().values()),
        DataType::Int32 => InputValues::Int32(array.as_primitive::<Int32Type>().values()),
        DataType::Int64 => InputValues::Int64(array.as_primitive::<Int64Type>().values()),
        DataType::UInt8 => InputValues::Uint8(array.as_primitive::<UInt8Type>().values()),
        DataType::UInt16 => InputValues::Uint16(array.as_primitive::<UInt16Type>().values()),
        DataType::UInt32 => InputValues::Uint32(array.as_primitive::<UInt32Type>().values()),
        DataType::UInt64 => InputValues::Uint64(array.as_primitive::<UInt64Type>().values()),
        DataType::Float32 => InputValues::Float32(array.as_primitive::<Float32Type>().values()),
        DataType::Float64 => InputValues::Float64(array.as_primitive::<Float64Type>().values()),
        DataType::Timestamp(..) => {
            InputValues::Int64(array.as_primitive::<TimestampMicrosecondType>().values())
        }
        DataType::Utf8 => short(array.as_string::<i32>()),
        DataType::Binary => short(array.as_binary::<i32>()),
        DataType::LargeUtf8 => long(array.as_string::<i64>()),
        DataType::LargeBinary => long(array.as_binary::<i64>()),
        other => return internal_err!("documents have no column of type {other}"),
    };
    Ok(InputColumn { validity, values })
}

fn short<T: ByteArrayType<Offset = i32>>(array: &GenericByteArray<T>) -> InputValues<'_> {
    InputValues::Bytes32 {
        offsets: array.value_offsets(),
        data: array.value_data(),
    }
}

fn long<T: ByteArrayType<Offset = i64>>(array: &GenericByteArray<T>) -> InputValues<'_> {
    InputValues::Bytes64 {
        offsets: array.value_offsets(),
        data: array.value_data(),
    }
}

/// Appends a separator and the text of a row to `text`. Appends nothing for a null.
pub(super) fn append_text(array: &ArrayRef, row: usize, text: &mut Vec<u8>) {
    if array.is_null(row) {
        return;
    }
    text.push(b'\n');
    text.extend_from_slice(match array.data_type() {
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).as_bytes(),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::Binary => array.as_binary::<i32>().value(row),
        _ => array.as_string::<i32>().value(row).as_bytes(),
    });
}
