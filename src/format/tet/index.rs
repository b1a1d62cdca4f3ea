//! The chunk index (document "Chunks"): the location of each chunk's payload.
//!
//! Opening a file reads only the index header. A row is read when its chunk is. The reference
//! writers emit datasets in directory order, and each dataset's chunks in row-major order, so the
//! row number can be computed; the chunk coordinates stored in the row confirm it. If they do not
//! match, a lookup table over all rows is built once.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::Dataset;
use crate::format::array::MemoryBudget;
use crate::format::io::storage::{Access, Storage};
use crate::format::tet::bytes::Fields;
use crate::format::tet::superblock::{MAX_RANK, Superblock};

/// Length of the index header in bytes.
pub(crate) const HEADER_BYTES: u64 = 32;
/// Length of one row in bytes.
pub(crate) const ROW_BYTES: u64 = 104;
/// The first four bytes of the index.
pub(crate) const MAGIC: [u8; 4] = *b"TIDX";
/// The only supported index version.
pub(crate) const INDEX_VERSION: u32 = 1;
/// Upper bound of the zstd compression ratio: a block decodes to at most 128 KiB and takes at least
/// 4 bytes (RFC 8878, section 3.1.1.2).
const MAX_ZSTD_RATIO: u64 = (128 << 10) / 4;
/// Maximum number of bytes of an index that is read from a store at once.
#[cfg(feature = "remote")]
const MAX_PREFETCHED_BYTES: u64 = 4 << 20;
/// Number of rows read at a time when the whole index is read.
const ROWS_PER_READ: u64 = 4096;

/// The encoding of a chunk's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Uncompressed cells.
    Raw,
    /// One or more zstd frames.
    Zstd,
}

impl Codec {
    /// The tag of the codec in an index row.
    pub(crate) fn tag(self) -> u32 {
        match self {
            Self::Raw => 0,
            Self::Zstd => 1,
        }
    }
}

impl std::fmt::Display for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
        })
    }
}

/// An index row that has passed its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRow {
    /// The file offset of the payload.
    pub payload_offset: u64,
    /// Length of the decoded cells in bytes.
    pub raw_bytes: u64,
    /// Length of the payload in the file, in bytes.
    pub stored_bytes: u64,
    /// The encoding of the payload.
    pub codec: Codec,
}

/// An index row as stored in the file, unchecked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredRow {
    /// The dataset's ordinal in the directory.
    pub dataset_id: u64,
    /// The chunk's indices in the chunk grid, followed by unused slots.
    pub chunk: [u64; MAX_RANK],
    /// The file offset of the payload.
    pub payload_offset: u64,
    /// Length of the decoded cells in bytes.
    pub raw_bytes: u64,
    /// Length of the payload in the file, in bytes.
    pub stored_bytes: u64,
    /// The tag of the codec.
    pub codec: u32,
}

impl StoredRow {
    fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        let mut fields = Fields::new(path, "chunk index row", bytes);
        let dataset_id = fields.u64()?;
        let mut chunk = [0; MAX_RANK];
        for position in &mut chunk {
            *position = fields.u64()?;
        }
        Ok(Self {
            dataset_id,
            chunk,
            payload_offset: fields.u64()?,
            raw_bytes: fields.u64()?,
            stored_bytes: fields.u64()?,
            codec: fields.u32()?,
        })
    }

    /// Returns `true` if the row describes `chunk`. Ignores the slots beyond the dataset's rank, as
    /// the reference does.
    fn describes(&self, dataset: &Dataset, chunk: &[u64]) -> bool {
        self.dataset_id == dataset.id && self.chunk[..chunk.len()] == *chunk
    }
}

/// Sorted triples of dataset id, chunk ordinal and row number, for files whose rows are not in the
/// expected order.
type Lookup = Vec<(u64, u64, u64)>;

/// The chunk index of an open file.
#[derive(Debug)]
pub(crate) struct ChunkIndex {
    rows_offset: u64,
    row_count: u64,
    budget: MemoryBudget,
    /// The first row number of each dataset, for rows in directory and row-major order. `None` if
    /// the number of rows already rules out this order.
    first_rows: Option<Vec<u64>>,
    lookup: Mutex<Option<Arc<Lookup>>>,
}

impl ChunkIndex {
    /// Returns the index of a file without datasets.
    pub fn empty() -> Self {
        Self {
            rows_offset: 0,
            row_count: 0,
            budget: MemoryBudget::default(),
            first_rows: None,
            lookup: Mutex::new(None),
        }
    }

    /// Reads and checks the index header, which must start at `expected_offset`.
    pub fn read(
        storage: &Storage,
        access: Access,
        superblock: &Superblock,
        datasets: &[Dataset],
        expected_offset: u64,
    ) -> Result<Self> {
        let path = storage.path();
        let offset = superblock.chunk_index_offset;
        let length = superblock.chunk_index_length;
        if offset != expected_offset {
            return Err(Error::malformed(
                ErrorLocation::file(path),
                "chunk_index_offset",
                offset,
                format!("{expected_offset}, the 8-aligned end of the dataset records"),
            ));
        }
        if length < HEADER_BYTES {
            return Err(Error::malformed(
                ErrorLocation::file(path),
                "chunk_index_length",
                length,
                "at least the 32 bytes of the index header",
            ));
        }
        // The superblock check has shown that the region lies within the file.
        let mut bytes = [0; HEADER_BYTES as usize];
        storage.copy_range(access, offset, &mut bytes)?;
        let mut fields = Fields::new(path, "chunk index header", &bytes);
        let magic = fields.take(4)?;
        if magic != MAGIC {
            return Err(Error::malformed(
                ErrorLocation::file(path),
                "chunk index magic",
                format!("\"{}\"", magic.escape_ascii()),
                "\"TIDX\"",
            ));
        }
        let version = fields.u32()?;
        if version != INDEX_VERSION {
            return Err(Error::malformed(
                ErrorLocation::file(path),
                "index_version",
                version,
                INDEX_VERSION,
            ));
        }
        let row_count = fields.u64()?;
        let basis_points = fields.u16()?;
        let _reserved = fields.u16()?;
        let budget = MemoryBudget {
            bytes: fields.u32()?,
            basis_points,
        };
        let expected_length = row_count
            .checked_mul(ROW_BYTES)
            .and_then(|rows| rows.checked_add(HEADER_BYTES));
        if expected_length != Some(length) {
            return Err(Error::malformed(
                ErrorLocation::file(path),
                "entry_count",
                format!("{row_count} in an index of {length} bytes"),
                "a count with 32 + 104 * entry_count = chunk_index_length",
            ));
        }
        Ok(Self {
            rows_offset: offset + HEADER_BYTES,
            row_count,
            budget,
            first_rows: first_rows(datasets, row_count),
            lookup: Mutex::new(None),
        })
    }

    /// The memory budget from the index header.
    pub fn budget(&self) -> MemoryBudget {
        self.budget
    }

    /// The number of rows in the index.
    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Returns the checked row of one chunk. `datasets` are all datasets of the file, `dataset` is
    /// one of them, and `payload_end` is the file offset at which payloads must end.
    pub fn row(
        &self,
        storage: &Storage,
        access: Access,
        datasets: &[Dataset],
        dataset: &Dataset,
        chunk: &[u64],
        payload_end: u64,
    ) -> Result<ChunkRow> {
        let path = storage.path();
        let dtype = dataset.check(path)?;
        let location = || ErrorLocation::chunk(path, &dataset.name, chunk);
        let missing = || Error::MissingChunk(Box::new(location()));
        if chunk.len() != dataset.shape.len() {
            return Err(missing());
        }
        let ordinal = dataset.chunk_ordinal(chunk).ok_or_else(missing)?;
        #[cfg(feature = "remote")]
        self.prefetch_rows(storage)?;
        let row = match self.row_by_arithmetic(storage, access, dataset, chunk, ordinal)? {
            Some(row) => row,
            None => self
                .row_by_lookup(storage, access, datasets, (dataset.id, ordinal), &location)?
                .ok_or_else(missing)?,
        };
        validate(
            &row,
            dataset.chunk_bytes(dtype, chunk),
            payload_end,
            &location,
        )
    }

    /// Reads the rows of a small index behind a URL at once.
    #[cfg(feature = "remote")]
    fn prefetch_rows(&self, storage: &Storage) -> Result<()> {
        let bytes = self.row_count * ROW_BYTES;
        match bytes <= MAX_PREFETCHED_BYTES {
            true => storage.prefetch(self.rows_offset..self.rows_offset + bytes),
            false => Ok(()),
        }
    }

    fn row_by_arithmetic(
        &self,
        storage: &Storage,
        access: Access,
        dataset: &Dataset,
        chunk: &[u64],
        ordinal: u64,
    ) -> Result<Option<StoredRow>> {
        let first_rows = self.first_rows.as_ref();
        let Some(first) = first_rows.and_then(|first_rows| first_rows.get(dataset.id as usize))
        else {
            return Ok(None);
        };
        // Cannot overflow or exceed the rows: the grids of all datasets have exactly `row_count`
        // chunks in total.
        let row = self.stored_row(storage, access, first + ordinal)?;
        Ok(row.describes(dataset, chunk).then_some(row))
    }

    /// Finds the row with the given key: a dataset id and the ordinal of a chunk.
    fn row_by_lookup(
        &self,
        storage: &Storage,
        access: Access,
        datasets: &[Dataset],
        key: (u64, u64),
        location: &dyn Fn() -> ErrorLocation,
    ) -> Result<Option<StoredRow>> {
        let lookup = self.lookup(storage, access, datasets)?;
        let start = lookup.partition_point(|(id, ordinal, _)| (*id, *ordinal) < key);
        let mut rows = lookup[start..]
            .iter()
            .take_while(|(id, ordinal, _)| (*id, *ordinal) == key);
        let Some((_, _, row)) = rows.next() else {
            return Ok(None);
        };
        if let Some((_, _, second)) = rows.next() {
            return Err(Error::malformed(
                location(),
                "chunk index",
                format!("ambiguous: rows {row} and {second} both describe this chunk"),
                "one row per chunk",
            ));
        }
        self.stored_row(storage, access, *row).map(Some)
    }

    /// Returns the lookup table, which is built on first use. Rows that describe no chunk of any
    /// dataset are left out.
    fn lookup(
        &self,
        storage: &Storage,
        access: Access,
        datasets: &[Dataset],
    ) -> Result<Arc<Lookup>> {
        let mut guard = self.lookup.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lookup) = guard.as_ref() {
            return Ok(Arc::clone(lookup));
        }
        let mut entries = Vec::new();
        self.for_each_row(storage, access, |position, row| {
            let dataset = usize::try_from(row.dataset_id)
                .ok()
                .and_then(|id| datasets.get(id))
                .filter(|dataset| !dataset.chunk_shape.contains(&0));
            if let Some(dataset) = dataset
                && let Some(ordinal) = dataset.chunk_ordinal(&row.chunk[..dataset.shape.len()])
            {
                entries.push((dataset.id, ordinal, position));
            }
        })?;
        entries.sort_unstable();
        let lookup = Arc::new(entries);
        *guard = Some(Arc::clone(&lookup));
        Ok(lookup)
    }

    fn stored_row(&self, storage: &Storage, access: Access, position: u64) -> Result<StoredRow> {
        let mut bytes = [0; ROW_BYTES as usize];
        storage.copy_range(access, self.rows_offset + position * ROW_BYTES, &mut bytes)?;
        StoredRow::parse(storage.path(), &bytes)
    }

    fn for_each_row(
        &self,
        storage: &Storage,
        access: Access,
        visit: impl FnMut(u64, &StoredRow),
    ) -> Result<()> {
        self.for_rows(storage, access, self.row_count, visit)
    }

    /// Calls `visit` with the number and the contents of each of the first `most` rows.
    pub fn for_rows(
        &self,
        storage: &Storage,
        access: Access,
        most: u64,
        mut visit: impl FnMut(u64, &StoredRow),
    ) -> Result<()> {
        let mut position = 0;
        let end = self.row_count.min(most);
        while position < end {
            let count = (end - position).min(ROWS_PER_READ);
            let start = self.rows_offset + position * ROW_BYTES;
            let bytes = storage.read_range(access, start..start + count * ROW_BYTES)?;
            for (offset, row) in bytes.chunks_exact(ROW_BYTES as usize).enumerate() {
                visit(
                    position + offset as u64,
                    &StoredRow::parse(storage.path(), row)?,
                );
            }
            position += count;
        }
        Ok(())
    }
}

/// Returns the first row number of each dataset in the row order of the reference, if all datasets
/// together have exactly `row_count` chunks.
fn first_rows(datasets: &[Dataset], row_count: u64) -> Option<Vec<u64>> {
    let mut first_rows = Vec::with_capacity(datasets.len());
    let mut next = 0u64;
    for dataset in datasets {
        first_rows.push(next);
        next = next.checked_add(dataset.chunk_count()?)?;
    }
    (next == row_count).then_some(first_rows)
}

/// Checks the row of a chunk whose cells take `cell_bytes` bytes. The payload must end by
/// `payload_end`.
pub(crate) fn validate(
    row: &StoredRow,
    cell_bytes: u64,
    payload_end: u64,
    location: &dyn Fn() -> ErrorLocation,
) -> Result<ChunkRow> {
    let malformed = |field, found: String, expected: String| {
        Error::malformed(location(), field, found, expected)
    };
    let codec = match row.codec {
        0 => Codec::Raw,
        1 => Codec::Zstd,
        other => {
            return Err(malformed(
                "codec",
                other.to_string(),
                "0 (raw) or 1 (zstd)".to_string(),
            ));
        }
    };
    if row.raw_bytes != cell_bytes {
        return Err(malformed(
            "raw_byte_len",
            row.raw_bytes.to_string(),
            format!("{cell_bytes}, the bytes of the chunk's cells within the shape"),
        ));
    }
    if codec == Codec::Raw && row.stored_bytes != row.raw_bytes {
        return Err(malformed(
            "stored_byte_len",
            row.stored_bytes.to_string(),
            format!("{} as raw_byte_len, since the codec is raw", row.raw_bytes),
        ));
    }
    if codec == Codec::Zstd && row.raw_bytes > row.stored_bytes.saturating_mul(MAX_ZSTD_RATIO) {
        return Err(malformed(
            "stored_byte_len",
            row.stored_bytes.to_string(),
            format!("enough for zstd to decode to {} bytes", row.raw_bytes),
        ));
    }
    let end = row.payload_offset.checked_add(row.stored_bytes);
    if end.is_none_or(|end| end > payload_end) {
        return Err(malformed(
            "payload_offset + stored_byte_len",
            format!("{} + {}", row.payload_offset, row.stored_bytes),
            format!("at most {payload_end}, the end of the payloads"),
        ));
    }
    Ok(ChunkRow {
        payload_offset: row.payload_offset,
        raw_bytes: row.raw_bytes,
        stored_bytes: row.stored_bytes,
        codec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_budget_prefers_fixed_bytes() {
        let budget = |bytes, basis_points| MemoryBudget {
            bytes,
            basis_points,
        };
        assert_eq!(budget(0, 0).resolve(1000), 250);
        assert_eq!(budget(0, 5000).resolve(1000), 500);
        assert_eq!(budget(0, 65535).resolve(u64::MAX), u64::MAX);
        assert_eq!(budget(7, 5000).resolve(1000), 7);
    }
}
