//! Chunks in object stores: located first, then fetched, then decoded.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::file::StoredChunk;
use crate::format::io::remote::{Part, RemoteObject, RemotePlace, fetch};

/// The stored form of a chunk, and the bytes to fetch for it.
#[derive(Debug, Clone)]
pub struct LocatedChunk {
    /// The stored form. The number of stored bytes is unknown, and zero, if the chunk is a file.
    pub stored: StoredChunk,
    /// The bytes.
    pub(crate) bytes: ChunkBytes,
}

/// The place of a chunk's stored bytes.
#[derive(Debug, Clone)]
pub(crate) enum ChunkBytes {
    /// The chunk needs no bytes: it is absent, or its cells are known.
    None,
    /// The bytes themselves.
    #[cfg(feature = "zarr")]
    Inline(Bytes),
    /// A range of an open file.
    InFile(Arc<RemoteObject>, Range<u64>),
    /// A file of its own, or a part of a file. If the file has an entity tag, it must still have it
    /// when the bytes are fetched.
    #[cfg(feature = "zarr")]
    File {
        place: RemotePlace,
        part: Part,
        etag: Option<String>,
        /// The maximum number of bytes.
        most: u64,
    },
}

/// A chunk whose stored bytes are in memory.
#[derive(Debug, Clone)]
pub struct FetchedChunk {
    /// The stored form.
    pub stored: StoredChunk,
    /// The stored bytes; `None` if the chunk is absent or needs none.
    pub(crate) bytes: Option<Bytes>,
    /// The number of requests that this took.
    pub requests: u64,
}

impl FetchedChunk {
    /// Returns the number of bytes that were fetched.
    pub fn bytes_fetched(&self) -> u64 {
        match (self.requests, &self.bytes) {
            (0, _) | (_, None) => 0,
            (_, Some(bytes)) => bytes.len() as u64,
        }
    }
}

impl LocatedChunk {
    /// Fetches the bytes. Must run on the thread of requests.
    pub(crate) async fn fetch(self, place: ErrorLocation) -> Result<FetchedChunk> {
        let mut stored = self.stored;
        let (bytes, requests) = match self.bytes {
            ChunkBytes::None => (None, 0),
            #[cfg(feature = "zarr")]
            ChunkBytes::Inline(bytes) => {
                stored.stored_bytes = bytes.len() as u64;
                (Some(bytes), 0)
            }
            ChunkBytes::InFile(object, range) => {
                let fetched = object.fetch(range).await;
                let (bytes, requests) = fetched.map_err(|error| error.at(&place))?;
                (Some(bytes), requests)
            }
            #[cfg(feature = "zarr")]
            ChunkBytes::File {
                place: file,
                part,
                etag,
                most,
            } => {
                let path = file.path().to_path_buf();
                let fetched = fetch(file, part, etag, most).await;
                let fetched = fetched.map_err(|error| in_chunk(error, &place, &path))?;
                let bytes = fetched.map(|fetched| fetched.bytes);
                stored.stored_bytes = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
                (bytes, 1)
            }
        };
        Ok(FetchedChunk {
            stored,
            bytes,
            requests,
        })
    }
}

/// Adds the dataset and the chunk to an error about the chunk's own file.
#[cfg(feature = "zarr")]
fn in_chunk(error: Error, place: &ErrorLocation, file: &Path) -> Error {
    error.at(&ErrorLocation {
        path: file.to_path_buf(),
        ..place.clone()
    })
}
