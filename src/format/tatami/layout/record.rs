//! The header of a record: a data page, page index, blob run, dictionary, Bloom filter or part of the
//! inverted index.

use crate::format::fault::Fault;
use crate::format::tatami::bytes::Cursor;
use crate::format::tatami::layout::types::{Codec, Encoding};

/// The length of a record's header in bytes.
pub const RECORD_HEADER_BYTES: u64 = 32;

/// The kind of a data page.
pub const KIND_DATA: u8 = 0;
/// The kind of a dictionary.
pub const KIND_DICTIONARY: u8 = 1;
/// The kind of a page index, a Bloom filter and the parts of the inverted index.
pub const KIND_INDEX: u8 = 2;
/// The kind of a blob run.
pub const KIND_BLOB_RUN: u8 = 3;

/// Record flag: the payload begins with min and max. The format defines no layout for it, and writers never
/// set it.
pub const RECORD_FLAG_INLINE_BOUNDS: u8 = 1;
/// Record flag: the payload of a page begins with a validity bitmap.
pub const RECORD_FLAG_NULLS: u8 = 1 << 1;

/// The header of a record. No checksum protects the header itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordHeader {
    /// The kind of record, one of the `KIND_*` constants.
    pub kind: u8,
    /// The id of the encoding of the values. See [`Self::encoding`].
    pub encoding: u8,
    /// The id of the codec of the payload. See [`Self::codec`].
    pub codec: u8,
    /// The `RECORD_FLAG_*` bits.
    pub flags: u8,
    /// The number of values: the rows of a page, nulls included; the values of a blob run; 1 for a
    /// dictionary; 0 for other records.
    pub values: u32,
    /// The length of the payload before compression, in bytes.
    pub raw_size: u32,
    /// The length of the stored payload in bytes.
    pub stored_size: u32,
    /// The number of nulls.
    pub nulls: u32,
    /// The first row of a page, counted from the start of its row group.
    pub first_row: u32,
    /// The CRC32C of the stored payload.
    pub crc: u32,
}

impl RecordHeader {
    /// Parses a header, without checking its values.
    pub fn parse(bytes: &[u8; RECORD_HEADER_BYTES as usize]) -> Self {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Self {
            kind: bytes[0],
            encoding: bytes[1],
            codec: bytes[2],
            flags: bytes[3],
            values: u32_at(4),
            raw_size: u32_at(8),
            stored_size: u32_at(12),
            nulls: u32_at(16),
            first_row: u32_at(20),
            crc: u32_at(24),
        }
    }

    /// Reads and parses a header.
    pub fn read(fields: &mut Cursor<'_>) -> Result<Self, Fault> {
        fields
            .array("record header")
            .map(|bytes| Self::parse(&bytes))
    }

    /// Returns the header as stored.
    pub fn encode(&self) -> [u8; RECORD_HEADER_BYTES as usize] {
        let mut bytes = [0; RECORD_HEADER_BYTES as usize];
        bytes[..4].copy_from_slice(&[self.kind, self.encoding, self.codec, self.flags]);
        let words = [
            self.values,
            self.raw_size,
            self.stored_size,
            self.nulls,
            self.first_row,
            self.crc,
        ];
        for (word, bytes_of_word) in words.iter().zip(bytes[4..].chunks_exact_mut(4)) {
            bytes_of_word.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Returns the encoding; `None` if its id is unknown.
    pub fn encoding(&self) -> Option<Encoding> {
        Encoding::from_id(self.encoding)
    }

    /// Returns the codec; `None` if its id is unknown.
    pub fn codec(&self) -> Option<Codec> {
        Codec::from_id(self.codec)
    }

    /// Returns the name of the encoding, or its id if it is unknown.
    pub fn encoding_name(&self) -> String {
        let known = self.encoding();
        known.map_or_else(|| self.encoding.to_string(), |known| known.to_string())
    }

    /// Returns the name of the codec, or its id if it is unknown.
    pub fn codec_name(&self) -> String {
        let known = self.codec();
        known.map_or_else(|| self.codec.to_string(), |known| known.to_string())
    }

    /// Returns `true` if the payload of a page begins with a validity bitmap.
    pub fn has_nulls(&self) -> bool {
        self.flags & RECORD_FLAG_NULLS != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let header = RecordHeader {
            kind: KIND_BLOB_RUN,
            encoding: 1,
            codec: 2,
            flags: 3,
            values: 4,
            raw_size: 5,
            stored_size: u32::MAX,
            nulls: 7,
            first_row: 8,
            crc: 9,
        };
        assert_eq!(RecordHeader::parse(&header.encode()), header);
        assert!(header.has_nulls());
        assert_eq!(header.codec(), Some(Codec::Zstd));
    }
}
