//! The superblock and the dataset directory (documents "File layout" and "Catalog & datasets").

use std::path::Path;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{Dataset, Dtype};
use crate::format::io::storage::{Access, Storage};
use crate::format::tet::bytes::Fields;

/// Length of the superblock in bytes.
pub(crate) const SUPERBLOCK_BYTES: u64 = 32;
/// File offset of the dataset records, which follow the superblock and the length of the records.
pub(crate) const RECORDS_OFFSET: u64 = 40;
/// The first four bytes of every file.
pub const MAGIC: [u8; 4] = *b"TETR";
/// The only supported layout version.
pub(crate) const LAYOUT_VERSION: u32 = 1;
/// The flag bit that declares a footer.
pub(crate) const FLAG_FOOTER: u32 = 1;
/// Maximum number of dimensions of a dataset.
pub const MAX_RANK: usize = 8;
/// Length of the smallest dataset record in bytes: four `u32` fields, no name, one dimension.
const MIN_RECORD_BYTES: u64 = 32;

/// Rounds up to the next multiple of eight. Returns `None` on overflow.
pub(crate) fn align8(offset: u64) -> Option<u64> {
    Some(offset.checked_add(7)? & !7)
}

/// The first 32 bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub dataset_count: u32,
    pub flags: u32,
    pub chunk_index_offset: u64,
    pub chunk_index_length: u64,
}

impl Superblock {
    /// Reads and checks the superblock.
    pub fn read(storage: &Storage, access: Access) -> Result<Self> {
        let path = storage.path();
        if storage.length() < SUPERBLOCK_BYTES {
            return Err(Error::malformed(
                ErrorLocation::file(path),
                "file length",
                format!("{} bytes", storage.length()),
                "at least the 32 bytes of a superblock",
            ));
        }
        let mut bytes = [0; SUPERBLOCK_BYTES as usize];
        storage.copy_range(access, 0, &mut bytes)?;
        let mut fields = Fields::new(path, "superblock", &bytes);
        let magic = fields.take(4)?;
        if magic != MAGIC {
            return Err(Error::malformed(
                ErrorLocation::file(path),
                "superblock magic",
                format!("\"{}\"", magic.escape_ascii()),
                "\"TETR\" (a .tet file)",
            ));
        }
        let version = fields.u32()?;
        if version != LAYOUT_VERSION {
            return Err(Error::malformed(
                ErrorLocation::file(path),
                "layout_version",
                version,
                LAYOUT_VERSION,
            ));
        }
        let superblock = Self {
            dataset_count: fields.u32()?,
            flags: fields.u32()?,
            chunk_index_offset: fields.u64()?,
            chunk_index_length: fields.u64()?,
        };
        let index_end = superblock
            .chunk_index_offset
            .checked_add(superblock.chunk_index_length);
        if index_end.is_none_or(|end| end > storage.length()) {
            return Err(Error::malformed(
                ErrorLocation::file(path),
                "chunk_index_offset + chunk_index_length",
                format!(
                    "{} + {}",
                    superblock.chunk_index_offset, superblock.chunk_index_length
                ),
                format!("at most the file length, {}", storage.length()),
            ));
        }
        Ok(superblock)
    }

    /// Returns `true` if the file declares a footer.
    pub fn has_footer(&self) -> bool {
        self.flags & FLAG_FOOTER != 0
    }
}

/// Reads the dataset records. Returns them with the file offset at which the chunk index must
/// start.
pub(crate) fn read_directory(
    storage: &Storage,
    access: Access,
    superblock: &Superblock,
) -> Result<(Vec<Dataset>, u64)> {
    let path = storage.path();
    let length = storage.length();
    if length < RECORDS_OFFSET {
        return Err(Error::malformed(
            ErrorLocation::file(path),
            "file length",
            format!("{length} bytes"),
            "at least 40 bytes, since dataset_count is not 0",
        ));
    }
    let mut bytes = [0; 8];
    storage.copy_range(access, SUPERBLOCK_BYTES, &mut bytes)?;
    let blob_length = u64::from_le_bytes(bytes);
    if blob_length > length - RECORDS_OFFSET {
        return Err(Error::malformed(
            ErrorLocation::file(path),
            "dataset_blob_len",
            blob_length,
            format!(
                "at most the {} bytes that follow it",
                length - RECORDS_OFFSET
            ),
        ));
    }
    let count = u64::from(superblock.dataset_count);
    if count * MIN_RECORD_BYTES > blob_length {
        return Err(Error::malformed(
            ErrorLocation::file(path),
            "dataset_count",
            count,
            format!("at most what fits into {blob_length} bytes of dataset records"),
        ));
    }
    let blob = storage.read_range(access, RECORDS_OFFSET..RECORDS_OFFSET + blob_length)?;
    let mut fields = Fields::new(path, "dataset records", &blob);
    let mut datasets = Vec::with_capacity(superblock.dataset_count as usize);
    for id in 0..count {
        datasets.push(read_record(path, id, &mut fields)?);
    }
    if fields.remaining() != 0 {
        return Err(Error::malformed(
            ErrorLocation::file(path),
            "dataset_blob_len",
            format!(
                "{blob_length}, with {} bytes left after the last record",
                fields.remaining()
            ),
            format!("the length of exactly {count} records"),
        ));
    }
    // Rounding up cannot overflow, since the records end within the file.
    let index_offset = align8(RECORDS_OFFSET + blob_length).unwrap_or(u64::MAX);
    Ok((datasets, index_offset))
}

fn read_record(path: &Path, id: u64, fields: &mut Fields<'_>) -> Result<Dataset> {
    let name_length = fields.u32()? as usize;
    let dtype_tag = fields.u32()?;
    let rank = fields.u32()? as usize;
    let _reserved = fields.u32()?;
    if !(1..=MAX_RANK).contains(&rank) {
        return Err(Error::malformed(
            ErrorLocation::file(path),
            "ndim",
            format!("{rank} in dataset record {id}"),
            "1 to 8",
        ));
    }
    let name = fields.take(name_length)?;
    let name = std::str::from_utf8(name).map_err(|error| {
        Error::malformed(
            ErrorLocation::file(path),
            "dataset name",
            format!("\"{}\" in record {id}", name.escape_ascii()),
            format!("UTF-8 ({error})"),
        )
    })?;
    fields.take(name_length.wrapping_neg() % 8)?;
    let mut extents = || (0..rank).map(|_| fields.u64()).collect::<Result<Vec<_>>>();
    let shape = extents()?;
    let chunk_shape = extents()?;
    Ok(Dataset {
        id,
        name: name.to_string(),
        dtype_tag,
        dtype: Dtype::from_tag(dtype_tag),
        shape,
        chunk_shape,
    })
}
