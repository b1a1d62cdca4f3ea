//! Chunks in object stores: located first, then fetched, then decoded.

// Only Zarr has chunks in files of their own.
#![cfg_attr(not(feature = "zarr"), allow(dead_code))]

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{join_all, try_join_all};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::file::StoredChunk;
use crate::format::io::remote::{
    Part, RemoteObject, RemotePlace, Version, fetch, fetch_ranges, merged,
};

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
    Inline(Bytes),
    /// A range of an open file.
    InFile(Arc<RemoteObject>, Range<u64>),
    /// Several ranges of an open file, in ascending order. The bytes of the chunk are those of the ranges,
    /// one after another.
    Ranges(Arc<RemoteObject>, Vec<Range<u64>>),
    /// A file of its own, or a part of a file.
    File {
        place: RemotePlace,
        part: Part,
        /// The version that the file must have when the bytes are fetched.
        pinned: Option<Version>,
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
    /// The number of requests that this took. A request for several chunks counts for the first.
    pub requests: u64,
    /// The number of bytes that the requests fetched.
    pub bytes_fetched: u64,
}

impl LocatedChunk {
    /// Fetches the bytes, unless they are kept. Must run on the thread of requests.
    pub(crate) async fn fetch(self, location: ErrorLocation) -> Result<FetchedChunk> {
        self.without_request().await.request(location).await
    }

    /// Returns the chunk with its bytes, if they are in memory or in the cache of the session.
    async fn without_request(mut self) -> Self {
        if let ChunkBytes::InFile(object, range) = &self.bytes
            && let Some(bytes) = object.find(range).await
        {
            self.bytes = ChunkBytes::Inline(bytes);
        }
        self
    }

    /// Requests the bytes.
    async fn request(self, location: ErrorLocation) -> Result<FetchedChunk> {
        let mut stored = self.stored;
        let (bytes, requests, bytes_fetched) = match self.bytes {
            ChunkBytes::None => (None, 0, 0),
            ChunkBytes::Inline(bytes) => {
                stored.stored_bytes = bytes.len() as u64;
                (Some(bytes), 0, 0)
            }
            ChunkBytes::InFile(object, range) => {
                let bytes = object.fetch(range.clone()).await;
                let bytes = bytes.map_err(|error| error.at(&location))?;
                let length = bytes.len() as u64;
                object.keep([(range, bytes.clone())]).await;
                (Some(bytes), 1, length)
            }
            ChunkBytes::Ranges(object, ranges) => {
                let fetched = fetch_ranges(&object, &ranges).await;
                let fetched = fetched.map_err(|error| error.at(&location))?;
                let bytes = Bytes::from(fetched.parts.concat());
                (Some(bytes), fetched.requests, fetched.bytes_fetched)
            }
            ChunkBytes::File {
                place: file,
                part,
                pinned,
                most,
            } => {
                let path = file.path().to_path_buf();
                let fetched = fetch(file, part, pinned, most).await;
                match fetched.map_err(|error| in_chunk(error, &location, &path))? {
                    Some(answer) => {
                        stored.stored_bytes = answer.bytes.len() as u64;
                        (Some(answer.bytes), answer.requests, answer.bytes_fetched)
                    }
                    None => {
                        stored.stored_bytes = 0;
                        (None, 1, 0)
                    }
                }
            }
        };
        Ok(FetchedChunk {
            stored,
            bytes,
            requests,
            bytes_fetched,
        })
    }
}

/// Fetches several chunks at the same time. Chunks that are close to each other in a file take one
/// request. Must run on the thread of requests.
pub(crate) async fn fetch_all(
    chunks: Vec<(LocatedChunk, ErrorLocation)>,
) -> Result<Vec<FetchedChunk>> {
    let chunks = chunks
        .into_iter()
        .map(|(chunk, place)| async { (chunk.without_request().await, place) });
    let chunks = &join_all(chunks).await;
    let ranges = chunks.iter().map(|(chunk, _)| match &chunk.bytes {
        ChunkBytes::InFile(object, range) => Some((Arc::as_ptr(object) as usize, range.clone())),
        _ => None,
    });
    let requests = merged(&ranges.collect::<Vec<_>>());
    let fetches = requests.into_iter().map(|numbers| async move {
        let whole = match numbers.as_slice() {
            [one] => {
                let (chunk, location) = chunks[*one].clone();
                return Ok(vec![(*one, chunk.request(location).await?)]);
            }
            numbers => numbers
                .iter()
                .filter_map(|number| match &chunks[*number].0.bytes {
                    ChunkBytes::InFile(object, range) => Some((object, range)),
                    _ => None,
                }),
        };
        let whole: Vec<_> = whole.collect();
        let start = whole
            .iter()
            .map(|(_, range)| range.start)
            .min()
            .unwrap_or(0);
        let end = whole.iter().map(|(_, range)| range.end).max().unwrap_or(0);
        let Some((object, _)) = whole.first() else {
            return Ok(Vec::new());
        };
        let bytes = object.fetch(start..end).await?;
        let part = |range: &Range<u64>| {
            bytes.slice((range.start - start) as usize..(range.end - start) as usize)
        };
        // Kept one by one, since another query may need only some of the chunks.
        let parts = whole
            .iter()
            .map(|(_, range)| ((*range).clone(), part(range)));
        object.keep(parts).await;
        let fetched = numbers.iter().zip(&whole).enumerate();
        let fetched = fetched.map(|(ordinal, (number, (_, range)))| {
            let counted = u64::from(ordinal == 0);
            let chunk = FetchedChunk {
                stored: chunks[*number].0.stored,
                bytes: Some(part(range)),
                requests: counted,
                bytes_fetched: counted * (end - start),
            };
            (*number, chunk)
        });
        Ok::<_, Error>(fetched.collect())
    });
    let mut fetched: Vec<_> = try_join_all(fetches).await?.into_iter().flatten().collect();
    fetched.sort_by_key(|(number, _)| *number);
    Ok(fetched.into_iter().map(|(_, chunk)| chunk).collect())
}

/// Adds the dataset and the chunk to an error about the chunk's own file.
fn in_chunk(error: Error, location: &ErrorLocation, file: &Path) -> Error {
    error.at(&ErrorLocation {
        path: file.to_path_buf(),
        ..location.clone()
    })
}
