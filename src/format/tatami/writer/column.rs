//! The pages of one column of the open row group.

use std::ops::Range;

use crate::format::tatami::bloom::bloom_hash;
use crate::format::tatami::bytes::put_byte_string;
use crate::format::tatami::layout::record::{KIND_DATA, RECORD_FLAG_NULLS, RecordHeader};
use crate::format::tatami::layout::row_group::{Bounds, ColumnChunk};
use crate::format::tatami::layout::schema::{FIELD_BLOOM, FIELD_SORT_KEY, Field};
use crate::format::tatami::layout::types::{Codec, ColumnType, Encoding};
use crate::format::tatami::pages::bitmap::{Bitmap, Validity, bit, count_set};
use crate::format::tatami::pages::page_index::PageIndexEntry;
use crate::format::tatami::writer::compressor::Compressor;
use crate::format::tatami::writer::input::{InputColumn, InputValues};
use crate::format::tatami::writer::integers::Integers;
use crate::format::tatami::writer::zones::{self, OrderCheck};

/// Buffers that the columns share.
#[derive(Default)]
pub(super) struct Scratch {
    shifted: Vec<u8>,
    shifted_values: Vec<u8>,
    words: Vec<u64>,
    payload: Vec<u8>,
}

/// One column: the values of the open page, and the encoded pages of the open row group.
pub(super) struct ColumnBuffer {
    column_type: ColumnType,
    forced: Option<Encoding>,
    /// The values of the open page that are not null, in plain encoding. Booleans take one byte each. Empty
    /// for blob columns.
    plain: Vec<u8>,
    validity: Validity,
    /// The encoded pages, with their headers.
    pages: Vec<u8>,
    /// Totals over the encoded pages. Offsets count from the start of the chunk.
    chunk: ColumnChunk,
    /// The page index, if this is the sort key. Offsets count from the start of the chunk.
    index: Option<Vec<PageIndexEntry>>,
    order: OrderCheck,
    /// The hashes of all values of the row group, if there is a Bloom filter.
    hashes: Option<Vec<u32>>,
}

/// The encoded pages of a chunk.
pub(super) struct FinishedChunk {
    /// Totals, as the footer has them. The offset counts from the start of the chunk.
    pub chunk: ColumnChunk,
    /// The page index, if this is the sort key. Offsets count from the start of the chunk.
    pub index: Option<Vec<PageIndexEntry>>,
    /// The pages, with their headers.
    pub pages: Vec<u8>,
    /// The hashes of the values, if there is a Bloom filter.
    pub hashes: Option<Vec<u32>>,
}

impl ColumnBuffer {
    pub fn new(column: usize, field: &Field, forced: Option<Encoding>) -> Self {
        let is_key = field.has_flag(FIELD_SORT_KEY);
        let has_bloom =
            field.has_flag(FIELD_BLOOM) && !is_key && field.column_type != ColumnType::BlobRef;
        Self {
            column_type: field.column_type,
            forced,
            plain: Vec::new(),
            validity: Validity::default(),
            pages: Vec::new(),
            chunk: empty_chunk(column),
            index: is_key.then(Vec::new),
            order: OrderCheck::default(),
            hashes: has_bloom.then(Vec::new),
        }
    }

    /// Appends a range of rows to the open page. The column must have been checked.
    pub fn append(&mut self, input: &InputColumn<'_>, rows: Range<usize>, scratch: &mut Scratch) {
        let count = rows.len();
        let validity = input
            .validity
            .map(|bits| bits.aligned(&rows, &mut scratch.shifted));
        let validity = validity.filter(|bits| count_set(bits, 0, count) < count);
        self.validity.push_page(validity, count, None);
        if self.column_type == ColumnType::BlobRef {
            return;
        }
        let plain = &mut self.plain;
        let is_valid = |row: usize| validity.is_none_or(|bits| bit(bits, row));
        macro_rules! fixed {
            ($values:expr) => {
                match ($values.get(rows).unwrap_or_default(), validity) {
                    (values, None) => {
                        let start = plain.len();
                        plain.resize(start + size_of_val(values), 0);
                        let places = plain[start..].chunks_exact_mut(size_of_val(values) / count);
                        for (place, value) in places.zip(values) {
                            place.copy_from_slice(&value.to_le_bytes());
                        }
                    }
                    (values, Some(_)) => {
                        for (row, value) in values.iter().enumerate() {
                            if is_valid(row) {
                                plain.extend_from_slice(&value.to_le_bytes());
                            }
                        }
                    }
                }
            };
        }
        match input.values {
            InputValues::Bool(bits) => {
                let bits = bits.aligned(&rows, &mut scratch.shifted_values);
                let present = (0..count).filter(|row| is_valid(*row));
                plain.extend(present.map(|row| u8::from(bit(bits, row))));
            }
            InputValues::Int8(values) => fixed!(values),
            InputValues::Int16(values) => fixed!(values),
            InputValues::Int32(values) => fixed!(values),
            InputValues::Int64(values) => fixed!(values),
            InputValues::Uint8(values) => fixed!(values),
            InputValues::Uint16(values) => fixed!(values),
            InputValues::Uint32(values) => fixed!(values),
            InputValues::Uint64(values) => fixed!(values),
            InputValues::Float32(values) => fixed!(values),
            InputValues::Float64(values) => fixed!(values),
            InputValues::Bytes32 { .. }
            | InputValues::Bytes64 { .. }
            | InputValues::ByteSlices(_) => {
                for row in (0..count).filter(|row| is_valid(*row)) {
                    // The offsets of all rows were checked.
                    put_byte_string(plain, input.bytes(rows.start + row).unwrap_or_default());
                }
            }
        }
    }

    /// The number of rows in the open page.
    pub fn open_rows(&self) -> usize {
        self.validity.rows()
    }

    /// Encodes the open page. Returns the first row of the page whose sort key is less than the one before,
    /// if there is one.
    pub fn finish_page(
        &mut self,
        compressor: &mut Compressor,
        codec: Codec,
        scratch: &mut Scratch,
    ) -> Result<Option<usize>, String> {
        let rows = self.validity.rows();
        if rows == 0 {
            return Ok(None);
        }
        let payload = &mut scratch.payload;
        payload.clear();
        payload.extend_from_slice(self.validity.bits().unwrap_or_default());
        let (encoding, bounds) = encode_page(
            self.column_type,
            self.forced,
            &self.plain,
            &mut scratch.words,
            payload,
        );
        let stored = compressor.compress(payload)?;
        let header = RecordHeader {
            kind: KIND_DATA,
            encoding: encoding.id(),
            codec: codec.id(),
            flags: if self.validity.nulls() > 0 {
                RECORD_FLAG_NULLS
            } else {
                0
            },
            values: size("rows of a page", rows)?,
            raw_size: size("bytes of a page", payload.len())?,
            stored_size: size("stored bytes of a page", stored.len())?,
            nulls: size("nulls of a page", self.validity.nulls())?,
            first_row: size("rows of a row group", self.chunk.values as usize)?,
            crc: crc32c::crc32c(stored),
        };
        let mut descent = None;
        if let Some(index) = &mut self.index {
            let value = self.order.first_descent(self.column_type, &self.plain);
            let mut present = (0..rows).filter(|row| self.validity.is_valid(*row));
            descent = value.and_then(|value| present.nth(value));
            index.push(PageIndexEntry {
                first_row: self.chunk.values,
                offset: self.pages.len() as u64,
                bounds: bounds.clone(),
            });
        }
        if let Some(bounds) = &bounds {
            zones::extend(self.column_type, &mut self.chunk.zone, bounds);
        }
        if let Some(hashes) = &mut self.hashes {
            hashes.extend(zones::scalars(self.column_type, &self.plain).map(bloom_hash));
        }
        if self.chunk.pages == 0 {
            self.chunk.encoding = header.encoding;
            self.chunk.codec = header.codec;
        }
        self.chunk.pages += 1;
        self.chunk.values += rows as u64;
        self.chunk.nulls += self.validity.nulls() as u64;
        self.chunk.raw_bytes += payload.len() as u64;
        self.chunk.stored_bytes += stored.len() as u64;
        self.pages.extend_from_slice(&header.encode());
        self.pages.extend_from_slice(stored);
        self.validity.clear();
        self.plain.clear();
        Ok(descent)
    }

    /// Takes the encoded pages, and starts the next row group.
    pub fn take_chunk(&mut self) -> FinishedChunk {
        let next = empty_chunk(self.chunk.column);
        FinishedChunk {
            chunk: std::mem::replace(&mut self.chunk, next),
            index: self.index.as_mut().map(std::mem::take),
            pages: std::mem::take(&mut self.pages),
            hashes: self.hashes.as_mut().map(std::mem::take),
        }
    }
}

/// Appends the values of a page in an encoding, and returns their bounds.
fn encode_page(
    column_type: ColumnType,
    forced: Option<Encoding>,
    plain: &[u8],
    words: &mut Vec<u64>,
    payload: &mut Vec<u8>,
) -> (Encoding, Option<Bounds>) {
    match column_type.width() {
        Some(width) if column_type.is_integer() => {
            widen(plain, width, column_type.is_signed(), words);
            let Some(integers) = Integers::new(words, width, column_type.is_signed()) else {
                return (Encoding::Plain, None);
            };
            let encoding = forced
                .filter(|encoding| integers.size(*encoding).is_some())
                .unwrap_or_else(|| integers.smallest());
            integers.encode(encoding, payload);
            let (min, max) = integers.min_max();
            let bounds = Bounds {
                min: min.to_le_bytes()[..width].into(),
                max: max.to_le_bytes()[..width].into(),
            };
            (encoding, Some(bounds))
        }
        _ => {
            let bounds = zones::bounds_of(column_type, zones::scalars(column_type, plain));
            if column_type != ColumnType::Bool {
                payload.extend_from_slice(plain);
                return (Encoding::Plain, bounds);
            }
            let mut bits = Bitmap::default();
            plain.iter().for_each(|value| bits.push(*value != 0));
            payload.extend_from_slice(bits.as_bytes());
            (Encoding::Bitmap, bounds)
        }
    }
}

/// Fills `words` with integers of `width` bytes, sign-extended if they are signed.
fn widen(plain: &[u8], width: usize, is_signed: bool, words: &mut Vec<u64>) {
    words.clear();
    macro_rules! extend {
        ($signed:ty, $unsigned:ty) => {{
            let (values, _) = plain.as_chunks();
            match is_signed {
                true => words.extend(values.iter().map(|v| <$signed>::from_le_bytes(*v) as u64)),
                false => words.extend(values.iter().map(|v| <$unsigned>::from_le_bytes(*v) as u64)),
            }
        }};
    }
    match width {
        1 => extend!(i8, u8),
        2 => extend!(i16, u16),
        4 => extend!(i32, u32),
        _ => extend!(i64, u64),
    }
}

fn empty_chunk(column: usize) -> ColumnChunk {
    ColumnChunk {
        column,
        first_page_offset: 0,
        stored_bytes: 0,
        raw_bytes: 0,
        values: 0,
        nulls: 0,
        pages: 0,
        encoding: 0,
        codec: 0,
        zone: None,
        bloom: None,
        page_index: None,
    }
}

/// Returns a size as a field of a record header.
pub(super) fn size(name: &str, size: usize) -> Result<u32, String> {
    u32::try_from(size).map_err(|_| format!("the {name} are {size}, expected at most {}", u32::MAX))
}
