//! Finds the chunks of a hierarchy in an object store.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::ChunkBytes;
use crate::format::io::identity::FileIdentity;
use crate::format::io::remote::{Found, Part, RemoteDirectory, Version};
use crate::format::zarr::MAX_CHUNK_BYTES;
use crate::format::zarr::array::ZarrArray;
use crate::format::zarr::codecs::shard::{ShardIndex, Shards};
use crate::format::zarr::local::{MAX_INDEX_BYTES, broken_index};
use crate::format::zarr::metadata::PlaceInShard;
use crate::format::zarr::walk::{Documents, Node};

/// The directory of a hierarchy in an object store, and the keys of its arrays.
#[derive(Debug)]
pub(in crate::format::zarr) struct RemoteFiles {
    directory: RemoteDirectory,
    /// The key of each array's directory, and the identity of its metadata documents.
    arrays: Vec<(String, FileIdentity)>,
    shards: Mutex<ShardCache>,
}

/// The shards whose indexes are in memory, by array and shard.
#[derive(Debug, Default)]
struct ShardCache {
    kept: HashMap<(usize, Vec<u64>), Arc<Mutex<ShardState>>>,
    bytes: usize,
}

/// A shard. The lock is held while its index is read, so that other readers wait for it.
#[derive(Debug)]
enum ShardState {
    Unread,
    Absent,
    Read(Arc<OpenShard>),
}

/// A shard with its index.
#[derive(Debug)]
struct OpenShard {
    index: ShardIndex,
    version: Version,
}

impl RemoteFiles {
    /// Creates the files of a hierarchy without arrays.
    pub fn new(directory: RemoteDirectory) -> Self {
        Self {
            directory,
            arrays: Vec::new(),
            shards: Mutex::default(),
        }
    }

    /// Returns the URL of the hierarchy.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Adds an array.
    pub fn push(&mut self, node: &Node) {
        let documents = match &node.documents {
            Documents::V2 { array, attributes } => format!("{array}{attributes}"),
            Documents::V3(document) => document.to_string(),
        };
        let bytes = documents.as_bytes();
        let identity = FileIdentity::new(bytes.len() as u64, None, [bytes]);
        self.arrays.push((node.name.clone(), identity));
    }

    /// Removes the array that was added last.
    pub fn pop(&mut self) {
        self.arrays.pop();
    }

    /// Returns the identity of an array's metadata documents.
    pub fn identity(&self, array: usize) -> FileIdentity {
        self.arrays[array].1.clone()
    }

    /// Returns the key of the file of a chunk or shard.
    fn key(&self, number: usize, array: &ZarrArray, chunk: &[u64]) -> String {
        let key = array.description.keys.key(chunk);
        match self.arrays[number].0.as_str() {
            "" => key,
            folder => format!("{folder}/{key}"),
        }
    }

    /// Returns where the bytes of a chunk are. Waits for the index of the shard, if there is one
    /// that has not been read yet.
    ///
    /// # Errors
    /// Fails if the index of the shard cannot be read, or is broken.
    pub fn locate(&self, number: usize, array: &ZarrArray, chunk: &[u64]) -> Result<ChunkBytes> {
        let at = |key: &str, part: Part, pinned| {
            Ok(match self.directory.find(key)? {
                Found::Absent => ChunkBytes::None,
                Found::Inline(bytes) => ChunkBytes::Inline(part.of(&bytes)),
                Found::At(place, whole) => ChunkBytes::File {
                    place,
                    part: part.within(whole),
                    pinned,
                    most: MAX_CHUNK_BYTES,
                },
            })
        };
        let Some(shards) = array.description.chain.shards() else {
            let key = self.key(number, array, chunk);
            return at(&key, Part::Whole, None);
        };
        let place = array.description.shard_of(chunk);
        let key = self.key(number, array, &place.shard);
        let Some(shard) = self.shard(number, array, shards, &place, &key)? else {
            return Ok(ChunkBytes::None);
        };
        let range = shard.index.range(place.ordinal, shard.version.size);
        let range = range.map_err(|found| {
            let location = ErrorLocation::chunk(self.path(), array.name(), chunk);
            broken_index(location, &found)
        })?;
        match range {
            None => Ok(ChunkBytes::None),
            Some((_, length)) if length > MAX_CHUNK_BYTES => Err(Error::malformed(
                ErrorLocation::chunk(self.path(), array.name(), chunk),
                "stored chunk",
                format!("{length} bytes"),
                format!("at most {MAX_CHUNK_BYTES} bytes"),
            )),
            Some((offset, length)) => {
                let part = Part::Range(offset, offset + length);
                at(&key, part, Some(shard.version.clone()))
            }
        }
    }

    /// Reads the bytes of a chunk; `None` if the chunk is absent.
    ///
    /// # Errors
    /// Fails if the chunk cannot be located or read.
    pub fn read(&self, number: usize, array: &ZarrArray, chunk: &[u64]) -> Result<Option<Bytes>> {
        let (place, part, pinned, most) = match self.locate(number, array, chunk)? {
            ChunkBytes::File {
                place,
                part,
                pinned,
                most,
            } => (place, part, pinned, most),
            ChunkBytes::Inline(bytes) => return Ok(Some(bytes)),
            _ => return Ok(None),
        };
        let at = |error: Error| {
            error.at(&ErrorLocation {
                path: place.path().to_path_buf(),
                ..ErrorLocation::chunk(self.path(), array.name(), chunk)
            })
        };
        let read = RemoteDirectory::new(place.clone()).read("", part, pinned, most);
        Ok(read.map_err(at)?.map(|part| part.bytes))
    }

    /// Returns the number of bytes that a chunk takes in the store; 0 for an absent chunk.
    ///
    /// # Errors
    /// Fails if the chunk cannot be located or read.
    pub fn stored_bytes(&self, number: usize, array: &ZarrArray, chunk: &[u64]) -> Result<u64> {
        match self.locate(number, array, chunk)? {
            ChunkBytes::File {
                part: Part::Range(start, end),
                ..
            } => Ok(end - start),
            ChunkBytes::File { place, .. } => RemoteDirectory::new(place).size(),
            ChunkBytes::Inline(bytes) => Ok(bytes.len() as u64),
            _ => Ok(0),
        }
    }

    /// Returns a shard, whose index is read on first use; `None` if the shard is absent.
    fn shard(
        &self,
        number: usize,
        array: &ZarrArray,
        shards: &Shards,
        place: &PlaceInShard,
        key: &str,
    ) -> Result<Option<Arc<OpenShard>>> {
        let lock = || self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let state = {
            let mut cache = lock();
            let state = cache.kept.entry((number, place.shard.clone()));
            Arc::clone(state.or_insert_with(|| Arc::new(Mutex::new(ShardState::Unread))))
        };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            ShardState::Absent => return Ok(None),
            ShardState::Read(shard) => return Ok(Some(Arc::clone(shard))),
            ShardState::Unread => {}
        }
        let shown = self.directory.place(key).path().to_path_buf();
        let broken =
            |found: String| broken_index(ErrorLocation::dataset(&shown, array.name()), &found);
        let (length, is_first) = shards.index_length(&place.grid).map_err(broken)?;
        let part = match is_first {
            true => Part::Range(0, length),
            false => Part::Last(length),
        };
        let Some(read) = self.directory.read(key, part, None, length)? else {
            *state = ShardState::Absent;
            return Ok(None);
        };
        if read.bytes.len() as u64 != length {
            return Err(broken(format!(
                "a shard of {} bytes is too short for its index of {length} bytes",
                read.version.size
            )));
        }
        let index = shards.index(read.bytes.to_vec()).map_err(broken)?;
        let mut cache = lock();
        if cache.bytes + index.bytes() > MAX_INDEX_BYTES {
            *cache = ShardCache::default();
        }
        cache.bytes += index.bytes();
        drop(cache);
        let shard = Arc::new(OpenShard {
            index,
            version: read.version,
        });
        *state = ShardState::Read(Arc::clone(&shard));
        Ok(Some(shard))
    }
}
