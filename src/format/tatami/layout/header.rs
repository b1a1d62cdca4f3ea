//! The file header, which is the first 64 bytes, and the trailer, which is the last 12 bytes.

use crate::format::fault::Fault;
use crate::format::tatami::bytes::Cursor;

/// The first and the last four bytes of a file.
pub const MAGIC: [u8; 4] = *b"TAT1";
/// The length of the header in bytes.
pub const HEADER_BYTES: u64 = 64;
/// The length of the trailer in bytes.
pub const TRAILER_BYTES: u64 = 12;
/// The major version that is read and written.
pub const MAJOR_VERSION: u16 = 1;
/// The minor version that is written. Version 1.0 has an ambiguous footer and is refused.
pub const MINOR_VERSION: u16 = 1;

/// Header flag: the schema has a sort key.
pub const FLAG_SORTED: u16 = 1;
/// Header flag: the footer describes blob columns.
pub const FLAG_BLOBS: u16 = 1 << 1;
/// Header flag: the file has dictionary records.
pub const FLAG_DICTIONARIES: u16 = 1 << 2;
/// Header flag: the file has Bloom filters or an inverted index.
pub const FLAG_INDEXES: u16 = 1 << 3;
/// Header flag: the file is a search segment.
pub const FLAG_SEARCH_SEGMENT: u16 = 1 << 4;
/// Header flag: the term dictionary is a block tree, not a flat list.
pub const FLAG_BLOCK_TREE: u16 = 1 << 5;

/// The header of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHeader {
    /// The major version.
    pub major: u16,
    /// The minor version.
    pub minor: u16,
    /// The `FLAG_*` bits. Unknown bits have no meaning.
    pub flags: u16,
    /// The declared checksum algorithm: 0 none, 1 CRC32C, 2 XXH64. It is ignored: checksums are always
    /// CRC32C.
    pub checksum: u8,
    /// The id of the codec that the writer used by default. Readers use the codec in the header of each
    /// record.
    pub default_codec: u8,
    /// A hint at the page size, or 0. It has no effect.
    pub page_size_hint: u32,
    /// The unique identifier of the file, or zeros.
    pub uuid: [u8; 16],
    /// The number of rows.
    pub rows: u64,
    /// The offset of the footer.
    pub footer_offset: u64,
    /// The creation time in milliseconds since 1970-01-01, or 0.
    pub created_ms: u64,
    /// The id of the program that wrote the file, or 0.
    pub creator: u32,
}

impl Default for FileHeader {
    fn default() -> Self {
        Self {
            major: MAJOR_VERSION,
            minor: MINOR_VERSION,
            flags: 0,
            checksum: 1,
            default_codec: 2,
            page_size_hint: 0,
            uuid: [0; 16],
            rows: 0,
            footer_offset: HEADER_BYTES,
            created_ms: 0,
            creator: 0,
        }
    }
}

impl FileHeader {
    /// Parses a header, and checks its magic, checksum and version.
    pub fn parse(bytes: &[u8; HEADER_BYTES as usize]) -> Result<Self, Fault> {
        let mut fields = Cursor::new(bytes);
        let magic = fields.array::<4>("magic")?;
        if magic != MAGIC {
            let found = format!("{:?}", magic.escape_ascii().to_string());
            return Err(Fault::new("magic", found, "\"TAT1\""));
        }
        let header = Self {
            major: u16::from_le_bytes(fields.array("major version")?),
            minor: u16::from_le_bytes(fields.array("minor version")?),
            flags: u16::from_le_bytes(fields.array("flags")?),
            checksum: fields.byte("checksum")?,
            default_codec: fields.byte("default codec")?,
            page_size_hint: fields.u32("page size hint")?,
            uuid: fields.array("uuid")?,
            rows: u64::from_le_bytes(fields.array("row count")?),
            footer_offset: u64::from_le_bytes(fields.array("footer offset")?),
            created_ms: u64::from_le_bytes(fields.array("created")?),
            creator: fields.u32("creator")?,
        };
        check_crc(
            "header checksum",
            &bytes[..60],
            fields.u32("header checksum")?,
        )?;
        if header.major != MAJOR_VERSION || header.minor == 0 {
            let found = format!("{}.{}", header.major, header.minor);
            return Err(Fault::new("version", found, "1.1 or a later 1.x"));
        }
        Ok(header)
    }

    /// Returns the header as stored, with its magic and checksum.
    pub fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.major.to_le_bytes());
        bytes.extend_from_slice(&self.minor.to_le_bytes());
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes.extend_from_slice(&[self.checksum, self.default_codec]);
        bytes.extend_from_slice(&self.page_size_hint.to_le_bytes());
        bytes.extend_from_slice(&self.uuid);
        bytes.extend_from_slice(&self.rows.to_le_bytes());
        bytes.extend_from_slice(&self.footer_offset.to_le_bytes());
        bytes.extend_from_slice(&self.created_ms.to_le_bytes());
        bytes.extend_from_slice(&self.creator.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        let mut header = [0; HEADER_BYTES as usize];
        header.copy_from_slice(&bytes);
        header
    }

    /// Returns `true` if all bits of `flag` are set.
    pub fn has_flag(&self, flag: u16) -> bool {
        self.flags & flag == flag
    }
}

/// The end of a file, which locates the footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// The length of the footer in bytes.
    pub footer_length: u32,
    /// The CRC32C of the footer.
    pub footer_crc: u32,
}

impl Trailer {
    /// Parses a trailer, and checks its magic.
    pub fn parse(bytes: &[u8; TRAILER_BYTES as usize]) -> Result<Self, Fault> {
        let mut fields = Cursor::new(bytes);
        let trailer = Self {
            footer_length: fields.u32("footer length")?,
            footer_crc: fields.u32("footer checksum")?,
        };
        let magic = fields.array::<4>("end magic")?;
        if magic != MAGIC {
            let found = format!("{:?}", magic.escape_ascii().to_string());
            return Err(Fault::new("end magic", found, "\"TAT1\""));
        }
        Ok(trailer)
    }

    /// Returns the trailer of a footer, as stored.
    pub fn encode(&self) -> [u8; TRAILER_BYTES as usize] {
        let mut bytes = [0; TRAILER_BYTES as usize];
        bytes[..4].copy_from_slice(&self.footer_length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.footer_crc.to_le_bytes());
        bytes[8..].copy_from_slice(&MAGIC);
        bytes
    }
}

/// Fails unless `stored` is the CRC32C of `bytes`.
pub(crate) fn check_crc(field: &'static str, bytes: &[u8], stored: u32) -> Result<(), Fault> {
    compare_crc(field, crc32c::crc32c(bytes), stored)
}

/// Fails unless a stored CRC32C is the computed one.
pub(crate) fn compare_crc(field: &'static str, computed: u32, stored: u32) -> Result<(), Fault> {
    if computed != stored {
        let expected = format!("{computed:#010x}, the CRC32C of the bytes");
        return Err(Fault::new(field, format!("{stored:#010x}"), expected));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_trailers_round_trip() {
        let header = FileHeader {
            flags: FLAG_SORTED | FLAG_BLOBS,
            page_size_hint: 65536,
            uuid: *b"0123456789abcdef",
            rows: 1 << 40,
            footer_offset: 99,
            created_ms: 1_751_470_000_123,
            creator: 51966,
            ..FileHeader::default()
        };
        let bytes = header.encode();
        assert_eq!(FileHeader::parse(&bytes), Ok(header.clone()));
        for position in 0..64 {
            let mut broken = bytes;
            broken[position] ^= 4;
            assert!(FileHeader::parse(&broken).is_err(), "byte {position}");
        }
        let old = FileHeader { minor: 0, ..header };
        assert_eq!(FileHeader::parse(&old.encode()).unwrap_err().found, "1.0");
        let trailer = Trailer {
            footer_length: 7,
            footer_crc: 9,
        };
        assert_eq!(Trailer::parse(&trailer.encode()), Ok(trailer));
        assert!(Trailer::parse(b"0123456TAT2x").is_err());
    }
}
