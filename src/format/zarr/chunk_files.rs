//! The files that hold the stored bytes of chunks.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::handles::{self, Identity, SHARED};
use crate::format::io::storage::Storage;
use crate::format::zarr::MAX_CHUNK_BYTES;

/// Maximum number of memory-mapped files of a hierarchy.
const MAX_MAPPED_FILES: usize = 1024;

/// The location of a chunk's stored bytes.
pub(super) struct ChunkLocation {
    pub path: PathBuf,
    /// The identity of the file when the chunk was located.
    pub file: Identity,
    pub offset: u64,
    pub length: u64,
}

impl ChunkLocation {
    /// Reads the stored bytes, replacing the contents of a buffer.
    ///
    /// # Errors
    /// Fails if the bytes are more than 2 GiB, or cannot be read.
    pub fn read(&self, location: impl Fn() -> ErrorLocation, bytes: &mut Vec<u8>) -> Result<()> {
        if self.length > MAX_CHUNK_BYTES {
            let found = format!("{} bytes", self.length);
            return Err(Error::malformed(
                location(),
                "stored chunk",
                found,
                format!("at most {MAX_CHUNK_BYTES} bytes"),
            ));
        }
        let io = |action| {
            let location = location();
            move |error| Error::io(&self.path, action)(error).at(&location)
        };
        let mut file = handles::open(&self.path, &SHARED).map_err(io("open"))?;
        if self.offset > 0 {
            file.seek(SeekFrom::Start(self.offset))
                .map_err(io("read"))?;
        }
        // The buffer keeps its length from chunk to chunk, so only the bytes beyond it are cleared
        // here.
        bytes.resize(self.length as usize, 0);
        match file.read_exact(bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(Error::malformed(
                location(),
                "stored chunk",
                format!("fewer than {} bytes", self.length),
                format!("{} bytes, its length when it was located", self.length),
            )),
            read => read.map_err(io("read")),
        }
    }
}

/// The memory-mapped files of chunks and shards, each with its identity when it was located. The
/// process-wide pool limits how many of them are open.
#[derive(Debug, Default)]
pub(super) struct MappedFiles(Mutex<HashMap<PathBuf, (Identity, Arc<Storage>)>>);

impl MappedFiles {
    /// Opens the file of a chunk, unless it is open.
    pub fn open(&self, stored: &ChunkLocation) -> Result<Arc<Storage>> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((identity, storage)) = lock().get(&stored.path)
            && *identity == stored.file
        {
            return Ok(Arc::clone(storage));
        }
        let storage = Arc::new(Storage::open(&stored.path)?);
        let kept = (stored.file.clone(), Arc::clone(&storage));
        let mut files = lock();
        let old = match files.len() < MAX_MAPPED_FILES {
            true => Default::default(),
            false => std::mem::take(&mut *files),
        };
        let replaced = files.insert(stored.path.clone(), kept);
        // Files are closed without the lock, which other readers wait for.
        drop(files);
        drop((old, replaced));
        Ok(storage)
    }
}
