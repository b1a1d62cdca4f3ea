//! The files of a hierarchy in a directory: finds chunks in them, and detects replaced files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::handles::Identity;
use crate::format::io::identity::FileIdentity;
use crate::format::io::storage::Storage;
use crate::format::zarr::array::ZarrArray;
use crate::format::zarr::chunk_files::{ChunkLocation, MappedFiles};
use crate::format::zarr::codecs::shard::{ShardIndex, Shards};
use crate::format::zarr::root::{Root, Source};

/// Maximum size in bytes of the shard indexes in the cache.
pub(super) const MAX_INDEX_BYTES: usize = 64 << 20;

/// The directory of a hierarchy, and those of its arrays.
#[derive(Debug)]
pub(super) struct LocalFiles {
    root: Root,
    /// For each array, the directory of its chunks and the files of its metadata documents.
    folders: Vec<(PathBuf, Vec<Source>)>,
    indexes: Mutex<ShardIndexCache>,
    mapped_files: MappedFiles,
}

/// A cache of shard indexes, by array and shard.
///
/// Each index is kept with the identity of the file that it was read from, to detect replaced
/// files.
#[derive(Debug, Default)]
struct ShardIndexCache {
    kept: HashMap<(usize, Vec<u64>), (Identity, Arc<ShardIndex>)>,
    bytes: usize,
}

impl LocalFiles {
    /// Creates the files of a hierarchy without arrays.
    pub fn new(root: Root) -> Self {
        Self {
            root,
            folders: Vec::new(),
            indexes: Mutex::default(),
            mapped_files: MappedFiles::default(),
        }
    }

    /// Adds an array: the directory of its chunks and the files of its metadata documents.
    pub fn push(&mut self, folder: PathBuf, documents: Vec<Source>) {
        self.folders.push((folder, documents));
    }

    /// Removes the array that was added last.
    pub fn pop(&mut self) {
        self.folders.pop();
    }

    /// Returns the path of the hierarchy as the caller gave it.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Returns the absolute path of the hierarchy.
    pub fn absolute(&self) -> &Path {
        self.root.absolute()
    }

    /// Checks that the hierarchy was not replaced, and that an array's documents are unchanged.
    pub fn check_unchanged(&self, array: usize) -> Result<()> {
        self.root.check_unchanged(&self.folders[array].1)
    }

    /// Returns the identity of an array's metadata documents.
    pub fn identity(&self, array: usize) -> Result<FileIdentity> {
        self.root.identity(&self.folders[array].1)
    }

    /// Opens the file of a chunk for mapping.
    pub fn map(&self, stored: &ChunkLocation) -> Result<Arc<Storage>> {
        self.mapped_files.open(stored)
    }

    /// Returns the location of a chunk's bytes, or `None` if the chunk is absent.
    pub fn locate(
        &self,
        number: usize,
        array: &ZarrArray,
        chunk: &[u64],
    ) -> Result<Option<ChunkLocation>> {
        let described = &array.description;
        let Some(shards) = described.chain.shards() else {
            let found = self.root.find(&self.file(number, array, chunk))?;
            return Ok(found.map(|(path, metadata)| ChunkLocation {
                path,
                offset: 0,
                length: metadata.len(),
                file: Identity::of(&metadata),
            }));
        };
        let stored = described.shard_of(chunk);
        let Some((path, metadata)) = self.root.find(&self.file(number, array, &stored.shard))?
        else {
            return Ok(None);
        };
        let length = metadata.len();
        let identity = Identity::of(&metadata);
        let broken = |found: String| {
            let location = ErrorLocation::chunk(self.root.path(), &array.name, chunk);
            broken_index(location, &found)
        };
        let key = (number, stored.shard);
        let index = self.index(array, key, shards, &stored.grid, &path, identity.clone())?;
        let range = index.range(stored.ordinal, length).map_err(broken)?;
        Ok(range.map(|(offset, size)| ChunkLocation {
            path,
            file: identity,
            offset,
            length: size,
        }))
    }

    fn index(
        &self,
        array: &ZarrArray,
        key: (usize, Vec<u64>),
        shards: &Shards,
        grid: &[u64],
        path: &Path,
        identity: Identity,
    ) -> Result<Arc<ShardIndex>> {
        let length = identity.length;
        let lock = || self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, index)) = lock().kept.get(&key)
            && *of == identity
        {
            return Ok(Arc::clone(index));
        }
        let location = || ErrorLocation::dataset(path, &array.name);
        let broken = |found: String| broken_index(location(), &found);
        let (offset, size) = shards.index_range(grid, length).map_err(broken)?;
        let stored = ChunkLocation {
            path: path.to_path_buf(),
            file: identity.clone(),
            offset,
            length: size,
        };
        let mut bytes = Vec::new();
        stored.read(location, &mut bytes)?;
        let index = Arc::new(shards.index(bytes).map_err(broken)?);
        let mut indexes = lock();
        if indexes.bytes + index.bytes() > MAX_INDEX_BYTES {
            *indexes = ShardIndexCache::default();
        }
        indexes.bytes += index.bytes();
        let replaced = indexes.kept.insert(key, (identity, Arc::clone(&index)));
        indexes.bytes -= replaced.map_or(0, |(_, replaced)| replaced.bytes());
        Ok(index)
    }

    /// Returns the path of the file of a chunk or shard.
    fn file(&self, number: usize, array: &ZarrArray, chunk: &[u64]) -> PathBuf {
        let key = array.description.keys.key(chunk);
        self.folders[number].0.join(key)
    }
}

/// The error for an unusable index of a shard.
pub(super) fn broken_index(location: ErrorLocation, found: &str) -> Error {
    let expected = "the offset and length of each chunk";
    Error::malformed(
        location,
        "shard index",
        format!("broken ({found})"),
        expected,
    )
}
