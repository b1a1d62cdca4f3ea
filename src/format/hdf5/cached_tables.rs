//! Chunk tables that are kept in a cache directory, so that a file's chunk indexes are read only once.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::format::hdf5::chunk_table::{ChunkLocation, ChunkTable};
use crate::format::hdf5::layout::Chunked;
use crate::format::io::cache::CacheDirectory;
use crate::format::io::identity::FileIdentity;
use crate::format::io::storage::Storage;

/// The first bytes of the keys, with the version of the entries.
const KIND: &str = "hdf5-chunks 2";
/// A file that was changed this recently may change again without a new time of its last change.
const MIN_AGE: Duration = Duration::from_secs(2);

/// The chunk tables of one file in a cache directory.
///
/// The key of a table has the path of the file, its [identity](FileIdentity), and the address of the
/// chunk index.
#[derive(Debug)]
pub(super) struct CachedTables {
    directory: Arc<CacheDirectory>,
    storage: Arc<Storage>,
    /// The identity of the file, read on first use; `None` if it cannot be read.
    identity: OnceLock<Option<FileIdentity>>,
}

impl CachedTables {
    /// Returns the tables of a file; `None` for an object of a store, and for a file that was changed
    /// within the last two seconds.
    pub fn of(storage: &Arc<Storage>, directory: Arc<CacheDirectory>) -> Option<Self> {
        let age = storage.modified()?.elapsed().ok()?;
        (age >= MIN_AGE).then(|| Self {
            directory,
            storage: Arc::clone(storage),
            identity: OnceLock::new(),
        })
    }

    fn identity(&self) -> Option<&FileIdentity> {
        let identity = self.identity.get_or_init(|| self.storage.identity().ok());
        identity.as_ref()
    }

    fn key(&self, chunked: &Chunked, shape: &[u64]) -> Option<Vec<u8>> {
        let FileIdentity {
            length,
            modified,
            sha256,
        } = self.identity()?;
        let Chunked {
            address,
            chunk_shape,
            chunk_bytes,
            ..
        } = chunked;
        let path = std::path::absolute(self.storage.path()).ok()?;
        let file = format!("{KIND}\0{length}\0{modified:?}\0{sha256}\0");
        let index = format!("\0{address:?} {shape:?} {chunk_shape:?} {chunk_bytes}");
        let path = path.as_os_str().as_encoded_bytes();
        Some([file.as_bytes(), path, index.as_bytes()].concat())
    }

    /// Returns the table of a dataset, if it is in the directory.
    pub fn get(&self, chunked: &Chunked, shape: &[u64]) -> Option<ChunkTable> {
        let bytes = self.directory.get(&self.key(chunked, shape)?)?;
        let (records, rest) = bytes.as_chunks::<{ Record::BYTES }>();
        let listed: Vec<_> = records.iter().map(Record::decode).collect();
        let ascends = listed.array_windows().all(|[a, b]| a.0 < b.0);
        (rest.is_empty() && ascends).then_some(ChunkTable::Listed(listed))
    }

    /// Stores the table of a dataset, unless the table follows from the dataset's header, or the file has
    /// changed since it was opened: the table may then have parts of both versions.
    pub fn put(&self, chunked: &Chunked, shape: &[u64], table: &ChunkTable) {
        let ChunkTable::Listed(listed) = table else {
            return;
        };
        let now = Storage::open(self.storage.path()).and_then(|storage| storage.identity());
        if let Some(key) = self.key(chunked, shape)
            && now.ok().as_ref() == self.identity()
        {
            let bytes: Vec<u8> = listed.iter().flat_map(Record::encode).collect();
            self.directory.put(&key, &bytes);
        }
    }
}

/// The ordinal and the location of a chunk.
struct Record;

impl Record {
    const BYTES: usize = 28;

    fn encode((ordinal, location): &(u64, ChunkLocation)) -> [u8; Self::BYTES] {
        let mut record = [0; Self::BYTES];
        record[..8].copy_from_slice(&ordinal.to_le_bytes());
        record[8..16].copy_from_slice(&location.offset.to_le_bytes());
        record[16..24].copy_from_slice(&location.size.to_le_bytes());
        record[24..].copy_from_slice(&location.filter_mask.to_le_bytes());
        record
    }

    fn decode(record: &[u8; Self::BYTES]) -> (u64, ChunkLocation) {
        let mut words = record.as_chunks::<8>().0.iter();
        let mut word = || words.next().map_or(0, |word| u64::from_le_bytes(*word));
        let (ordinal, offset, size) = (word(), word(), word());
        let mask = record
            .last_chunk()
            .map_or(0, |mask| u32::from_le_bytes(*mask));
        let location = ChunkLocation {
            offset,
            size,
            filter_mask: mask,
        };
        (ordinal, location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_decoded_as_encoded() {
        let location = ChunkLocation {
            offset: 1 << 40,
            size: 77,
            filter_mask: 5,
        };
        let record = (9, location);
        assert_eq!(Record::decode(&Record::encode(&record)), record);
    }
}
