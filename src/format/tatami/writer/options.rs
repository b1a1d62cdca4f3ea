//! [`WriterOptions`]: layout, compression and metadata of a new file.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::array::Compression;
use crate::format::tatami::layout::types::{Codec, Encoding};
use crate::format::tatami::pages::page::MAX_PAGE_ROWS;
use crate::format::tatami::pages::payload::MAX_PAYLOAD_BYTES;

/// The maximum number of rows of a row group. The number of bits of its Bloom filters then fits in 32 bits.
pub const MAX_ROW_GROUP_ROWS: usize = 1 << 26;
/// The maximum size in bytes of a row group before compression, and of a value. It keeps the payloads of
/// pages below the limit of the reader.
pub const MAX_ROW_GROUP_BYTES: u64 = MAX_PAYLOAD_BYTES as u64 / 2;
/// The maximum zstd level. Decompressing higher levels needs more memory than the 8 MiB that other readers
/// allow.
pub const MAX_ZSTD_LEVEL: i32 = 19;

/// The layout, the compression and the metadata of a file.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// The compression of pages, blob runs and dictionaries.
    pub compression: Compression,
    /// The maximum number of rows of a row group.
    pub row_group_rows: usize,
    /// The maximum size of a row group before compression, in bytes, without blobs. A single row may be
    /// larger.
    pub row_group_bytes: u64,
    /// The maximum number of rows of a page. The pages of all columns hold the same rows.
    pub page_rows: usize,
    /// The maximum size of the values of a blob run, in bytes. A single value may be larger.
    pub blob_run_bytes: usize,
    /// `true` to compress a blob column with a dictionary made of its values, if this makes it smaller.
    pub has_blob_dictionary: bool,
    /// `true` to accept rows that are not in the order of the sort key. Readers that rely on the order may
    /// then miss rows.
    pub allow_unsorted: bool,
    /// The encoding of integer pages that can hold the values. `None` chooses the smallest for each page.
    pub encoding: Option<Encoding>,
    /// Key-value pairs, written after those of the format.
    pub key_values: Vec<(String, String)>,
    /// The identifier of the file.
    pub uuid: [u8; 16],
    /// The creation time in milliseconds since 1970-01-01.
    pub created_ms: u64,
    /// The id of the program that writes the file.
    pub creator: u32,
    /// A hint at the page size, which has no effect.
    pub page_size_hint: u32,
}

impl Default for WriterOptions {
    /// The layout that the reference implementation writes by default, and no metadata.
    fn default() -> Self {
        Self {
            compression: Compression::Zstd { level: 3 },
            row_group_rows: 131_072,
            row_group_bytes: 256 << 20,
            page_rows: 65_536,
            blob_run_bytes: 1 << 20,
            has_blob_dictionary: true,
            allow_unsorted: false,
            encoding: None,
            key_values: Vec::new(),
            uuid: [0; 16],
            created_ms: 0,
            creator: 0,
            page_size_hint: 0,
        }
    }
}

impl WriterOptions {
    /// Checks all numbers against their limits.
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        let level = match self.compression {
            Compression::Raw => 1,
            Compression::Zstd { level } => i64::from(level),
        };
        for (name, value, most) in [
            ("zstd level", level, i64::from(MAX_ZSTD_LEVEL)),
            (
                "number of rows of a row group",
                saturate(self.row_group_rows as u64),
                MAX_ROW_GROUP_ROWS as i64,
            ),
            (
                "number of bytes of a row group",
                saturate(self.row_group_bytes),
                MAX_ROW_GROUP_BYTES as i64,
            ),
            (
                "number of rows of a page",
                saturate(self.page_rows as u64),
                i64::from(MAX_PAGE_ROWS),
            ),
            (
                "number of bytes of a blob run",
                saturate(self.blob_run_bytes as u64),
                MAX_ROW_GROUP_BYTES as i64,
            ),
        ] {
            if !(1..=most).contains(&value) {
                let message = format!("the {name} is {value}, expected 1 to {most}");
                return Err(Error::invalid(path, message));
            }
        }
        Ok(())
    }

    /// The codec of pages and of blob runs without a dictionary.
    pub(super) fn codec(&self) -> Codec {
        match self.compression {
            Compression::Raw => Codec::None,
            Compression::Zstd { .. } => Codec::Zstd,
        }
    }
}

fn saturate(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
