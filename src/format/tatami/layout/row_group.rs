//! Row groups and their column chunks, as the footer describes them.

use crate::format::fault::Fault;
use crate::format::tatami::bytes::{Cursor, put_byte_string, put_varint};
use crate::format::tatami::layout::record::RECORD_HEADER_BYTES;

const GROUP_HAS_SORT_BOUNDS: u8 = 1;
const CHUNK_HAS_ZONE: u8 = 1;
const CHUNK_HAS_BLOOM: u8 = 1 << 1;
const CHUNK_HAS_PAGE_INDEX: u8 = 1 << 2;

/// The min and the max of some values, as scalars: little-endian bytes of the type's width, or whole byte
/// strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// The min.
    pub min: Box<[u8]>,
    /// The max.
    pub max: Box<[u8]>,
}

impl Bounds {
    /// Parses a min and a max.
    pub fn parse(fields: &mut Cursor<'_>) -> Result<Self, Fault> {
        Ok(Self {
            min: fields.byte_string("min")?.into(),
            max: fields.byte_string("max")?.into(),
        })
    }

    /// Appends the bounds as stored.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_byte_string(out, &self.min);
        put_byte_string(out, &self.max);
    }
}

/// The pages of one column in one row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnChunk {
    /// The index of the column in the schema.
    pub column: usize,
    /// The offset of the first page's header.
    pub first_page_offset: u64,
    /// The stored bytes of all payloads.
    pub stored_bytes: u64,
    /// The bytes of all payloads before compression.
    pub raw_bytes: u64,
    /// The number of values, nulls included.
    pub values: u64,
    /// The number of nulls.
    pub nulls: u64,
    /// The number of pages.
    pub pages: u64,
    /// The id of the encoding of the first page.
    pub encoding: u8,
    /// The id of the codec of the first page.
    pub codec: u8,
    /// The bounds of the values that are not null. `None` if there are none, and for blob columns.
    pub zone: Option<Bounds>,
    /// The index of the chunk's Bloom filter in [`Footer::blooms`](crate::format::tatami::Footer::blooms).
    pub bloom: Option<usize>,
    /// The offset of the record of the page index.
    pub page_index: Option<u64>,
}

impl ColumnChunk {
    /// Returns the offset after the last page, or `None` if it exceeds 64 bits.
    pub fn end(&self) -> Option<u64> {
        let headers = self.pages.checked_mul(RECORD_HEADER_BYTES)?;
        self.first_page_offset
            .checked_add(self.stored_bytes)?
            .checked_add(headers)
    }

    /// Parses a chunk.
    pub fn parse(fields: &mut Cursor<'_>) -> Result<Self, Fault> {
        let mut chunk = Self {
            column: fields.size("chunk column")?,
            first_page_offset: fields.varint("first page offset")?,
            stored_bytes: fields.varint("stored bytes")?,
            raw_bytes: fields.varint("uncompressed bytes")?,
            values: fields.varint("number of values")?,
            nulls: fields.varint("number of nulls")?,
            pages: fields.varint("number of pages")?,
            encoding: fields.byte("chunk encoding")?,
            codec: fields.byte("chunk codec")?,
            zone: None,
            bloom: None,
            page_index: None,
        };
        let flags = fields.byte("chunk flags")?;
        if flags & CHUNK_HAS_ZONE != 0 {
            chunk.zone = Some(Bounds::parse(fields)?);
        }
        if flags & CHUNK_HAS_BLOOM != 0 {
            chunk.bloom = Some(one_based("bloom reference", fields)?);
        }
        if flags & CHUNK_HAS_PAGE_INDEX != 0 {
            chunk.page_index = Some(fields.varint("page index offset")?);
        }
        Ok(chunk)
    }

    /// Appends the chunk as stored.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [
            self.column as u64,
            self.first_page_offset,
            self.stored_bytes,
            self.raw_bytes,
            self.values,
            self.nulls,
            self.pages,
        ] {
            put_varint(out, number);
        }
        let mut flags = 0;
        for (is_present, flag) in [
            (self.zone.is_some(), CHUNK_HAS_ZONE),
            (self.bloom.is_some(), CHUNK_HAS_BLOOM),
            (self.page_index.is_some(), CHUNK_HAS_PAGE_INDEX),
        ] {
            if is_present {
                flags |= flag;
            }
        }
        out.extend_from_slice(&[self.encoding, self.codec, flags]);
        if let Some(zone) = &self.zone {
            zone.encode(out);
        }
        if let Some(bloom) = self.bloom {
            put_varint(out, bloom as u64 + 1);
        }
        if let Some(offset) = self.page_index {
            put_varint(out, offset);
        }
    }
}

/// A range of rows, with one chunk per column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowGroup {
    /// The first row, counted from the start of the file.
    pub first_row: u64,
    /// The number of rows.
    pub rows: u64,
    /// The bytes of all pages and the page index, with their headers.
    pub total_bytes: u64,
    /// The bounds of the sort key.
    pub sort_bounds: Option<Bounds>,
    /// The chunks, in the order of the schema.
    pub chunks: Vec<ColumnChunk>,
}

impl RowGroup {
    /// Parses a row group.
    pub fn parse(fields: &mut Cursor<'_>) -> Result<Self, Fault> {
        Ok(Self {
            first_row: fields.varint("first row")?,
            rows: fields.varint("number of rows")?,
            total_bytes: fields.varint("row group bytes")?,
            sort_bounds: match fields.byte("row group flags")? & GROUP_HAS_SORT_BOUNDS {
                0 => None,
                _ => Some(Bounds::parse(fields)?),
            },
            chunks: fields.list("number of chunks", 10, ColumnChunk::parse)?,
        })
    }

    /// Appends the row group as stored.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.first_row);
        put_varint(out, self.rows);
        put_varint(out, self.total_bytes);
        match &self.sort_bounds {
            Some(bounds) => {
                out.push(GROUP_HAS_SORT_BOUNDS);
                bounds.encode(out);
            }
            None => out.push(0),
        }
        put_varint(out, self.chunks.len() as u64);
        for chunk in &self.chunks {
            chunk.encode(out);
        }
    }
}

/// Reads a reference that counts from 1, and returns an index that counts from 0.
fn one_based(field: &'static str, fields: &mut Cursor<'_>) -> Result<usize, Fault> {
    let number = fields.size(field)?;
    number
        .checked_sub(1)
        .ok_or_else(|| Fault::new(field, 0, "1 or more"))
}
