//! The columns of a batch of rows, as a caller hands them over.

use std::ops::Range;

use crate::format::tatami::layout::types::ColumnType;
use crate::format::tatami::pages::bitmap::bit;
use crate::format::tatami::writer::options::MAX_ROW_GROUP_BYTES;

/// Borrowed bits, one per row and lowest bit first, that may begin within a byte.
#[derive(Debug, Clone, Copy)]
pub struct BitSlice<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The number of bits before the bit of the first row.
    pub offset: usize,
}

impl<'a> BitSlice<'a> {
    /// Returns the bit of a row.
    pub(super) fn get(&self, row: usize) -> bool {
        bit(self.bytes, self.offset + row)
    }

    /// Returns bytes whose lowest bit is that of the first row of `rows`: the bytes themselves, or a copy
    /// in `shifted`.
    pub(super) fn aligned<'b>(&self, rows: &Range<usize>, shifted: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        let start = self.offset + rows.start;
        let length = rows.len().div_ceil(8);
        let bytes = self.bytes.get(start / 8..).unwrap_or_default();
        let shift = start % 8;
        if shift == 0 {
            return bytes.get(..length).unwrap_or(bytes);
        }
        let next = bytes.iter().skip(1).chain(std::iter::once(&0));
        shifted.clear();
        shifted.extend(
            bytes
                .iter()
                .zip(next)
                .take(length)
                .map(|(byte, next)| byte >> shift | next << (8 - shift)),
        );
        shifted
    }

    fn holds(&self, rows: usize) -> bool {
        let bits = self.offset.checked_add(rows);
        bits.is_some_and(|bits| bits.div_ceil(8) <= self.bytes.len())
    }
}

/// The values of a column, one per row. The values of null rows are ignored.
#[derive(Debug, Clone, Copy)]
pub enum InputValues<'a> {
    /// Booleans.
    Bool(BitSlice<'a>),
    /// Signed integers of one byte.
    Int8(&'a [i8]),
    /// Signed integers of two bytes.
    Int16(&'a [i16]),
    /// Signed integers of four bytes.
    Int32(&'a [i32]),
    /// Signed integers of eight bytes, or microseconds since 1970-01-01.
    Int64(&'a [i64]),
    /// Unsigned integers of one byte.
    Uint8(&'a [u8]),
    /// Unsigned integers of two bytes.
    Uint16(&'a [u16]),
    /// Unsigned integers of four bytes.
    Uint32(&'a [u32]),
    /// Unsigned integers of eight bytes.
    Uint64(&'a [u64]),
    /// Floats of four bytes.
    Float32(&'a [f32]),
    /// Floats of eight bytes.
    Float64(&'a [f64]),
    /// Text, byte strings or blobs. Row `i` is `data[offsets[i]..offsets[i + 1]]`.
    Bytes32 {
        /// The offsets, one more than there are rows.
        offsets: &'a [i32],
        /// The bytes.
        data: &'a [u8],
    },
    /// As [`Self::Bytes32`], with offsets of eight bytes.
    Bytes64 {
        /// The offsets, one more than there are rows.
        offsets: &'a [i64],
        /// The bytes.
        data: &'a [u8],
    },
    /// Text, byte strings or blobs, as one slice per row.
    ByteSlices(&'a [&'a [u8]]),
}

/// A column of a batch of rows.
#[derive(Debug, Clone, Copy)]
pub struct InputColumn<'a> {
    /// One bit per row, set if the row has a value. `None` if there are no nulls.
    pub validity: Option<BitSlice<'a>>,
    /// The values.
    pub values: InputValues<'a>,
}

impl<'a> InputColumn<'a> {
    /// Checks that the column has `rows` values of a type. Returns the error message otherwise.
    pub(super) fn check(&self, column_type: ColumnType, rows: usize) -> Result<(), String> {
        let (name, length) = match self.values {
            InputValues::Bool(bits) if bits.holds(rows) => ("bool", rows),
            InputValues::Bool(bits) => ("bool", (bits.bytes.len() * 8).saturating_sub(bits.offset)),
            InputValues::Int8(values) => ("int8", values.len()),
            InputValues::Int16(values) => ("int16", values.len()),
            InputValues::Int32(values) => ("int32", values.len()),
            InputValues::Int64(values) => ("int64", values.len()),
            InputValues::Uint8(values) => ("uint8", values.len()),
            InputValues::Uint16(values) => ("uint16", values.len()),
            InputValues::Uint32(values) => ("uint32", values.len()),
            InputValues::Uint64(values) => ("uint64", values.len()),
            InputValues::Float32(values) => ("float32", values.len()),
            InputValues::Float64(values) => ("float64", values.len()),
            InputValues::Bytes32 { offsets, data } => {
                check_offsets(offsets, data)?;
                ("bytes", offsets.len().saturating_sub(1))
            }
            InputValues::Bytes64 { offsets, data } => {
                check_offsets(offsets, data)?;
                ("bytes", offsets.len().saturating_sub(1))
            }
            InputValues::ByteSlices(values) => ("bytes", values.len()),
        };
        let is_accepted = match column_type {
            ColumnType::TimestampMicros => name == "int64",
            ColumnType::String | ColumnType::Bytes | ColumnType::BlobRef => name == "bytes",
            other => name == other.name(),
        };
        if !is_accepted {
            return Err(format!(
                "the values are {name}, but the column is {column_type}"
            ));
        }
        if length != rows {
            return Err(format!("there are {length} values for {rows} rows"));
        }
        if self.validity.is_some_and(|validity| !validity.holds(rows)) {
            return Err(format!("the validity has fewer than {rows} bits"));
        }
        let longest = (0..rows)
            .filter_map(|row| Some((row, self.bytes(row)?.len() as u64)))
            .max_by_key(|(_, length)| *length);
        if let Some((row, length)) = longest.filter(|(_, length)| *length > MAX_ROW_GROUP_BYTES) {
            return Err(format!(
                "the value of row {row} of the batch has {length} bytes, expected at most \
                 {MAX_ROW_GROUP_BYTES}"
            ));
        }
        Ok(())
    }

    /// Returns `true` if the row has a value.
    pub(super) fn is_valid(&self, row: usize) -> bool {
        self.validity.is_none_or(|validity| validity.get(row))
    }

    /// Returns the byte string of a row. `None` for other types.
    pub(super) fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        match self.values {
            InputValues::Bytes32 { offsets, data } => slice(offsets, data, row..row + 1),
            InputValues::Bytes64 { offsets, data } => slice(offsets, data, row..row + 1),
            InputValues::ByteSlices(values) => values.get(row).copied(),
            _ => None,
        }
    }

    /// Returns the approximate number of bytes that the values of a range of rows take in pages.
    pub(super) fn size(&self, column_type: ColumnType, rows: &Range<usize>) -> u64 {
        let width = match column_type {
            ColumnType::BlobRef => 0,
            column_type => column_type.width().unwrap_or(1),
        };
        let bytes = match self.values {
            _ if column_type == ColumnType::BlobRef => 0,
            InputValues::Bytes32 { offsets, data } => {
                slice(offsets, data, rows.clone()).map_or(0, <[u8]>::len)
            }
            InputValues::Bytes64 { offsets, data } => {
                slice(offsets, data, rows.clone()).map_or(0, <[u8]>::len)
            }
            InputValues::ByteSlices(values) => {
                let values = values.get(rows.clone()).unwrap_or_default();
                values.iter().map(|value| value.len()).sum()
            }
            _ => 0,
        };
        bytes as u64 + (width * rows.len()) as u64
    }
}

fn index<T: TryInto<usize> + Copy>(offset: &T) -> Option<usize> {
    (*offset).try_into().ok()
}

/// Returns the number of bytes from the start of the first row to the end of the last row of a range.
fn slice<'a, T: TryInto<usize> + Copy>(
    offsets: &[T],
    data: &'a [u8],
    rows: Range<usize>,
) -> Option<&'a [u8]> {
    data.get(index(offsets.get(rows.start)?)?..index(offsets.get(rows.end)?)?)
}

fn check_offsets<T: TryInto<usize> + Copy + PartialOrd>(
    offsets: &[T],
    data: &[u8],
) -> Result<(), String> {
    let ends = [offsets.first(), offsets.last()];
    let is_inside = ends
        .into_iter()
        .flatten()
        .all(|offset| index(offset).is_some_and(|offset| offset <= data.len()));
    match is_inside && offsets.is_sorted() {
        true => Ok(()),
        false => Err(format!(
            "the offsets do not ascend within the {} bytes of the values",
            data.len()
        )),
    }
}
