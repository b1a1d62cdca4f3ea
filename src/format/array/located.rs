//! Chunks in object stores: located first, then fetched, then decoded.

// Only Zarr has chunks in files of their own.
#![cfg_attr(not(feature = "zarr"), allow(dead_code))]

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::file::StoredChunk;
use crate::format::io::remote::{Part, RemoteObject, RemotePlace, fetch};

/// Maximum number of bytes between two chunks that are fetched by one request.
const MAX_GAP_BYTES: u64 = 64 << 10;
/// Maximum number of bytes of a request for several chunks.
const MAX_REQUEST_BYTES: u64 = 8 << 20;

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
    /// A file of its own, or a part of a file. If the file has an entity tag, it must still have it
    /// when the bytes are fetched.
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
    /// The number of requests that this took. A request for several chunks counts for the first.
    pub requests: u64,
    /// The number of bytes that the requests fetched.
    pub bytes_fetched: u64,
}

impl LocatedChunk {
    /// Fetches the bytes. Must run on the thread of requests.
    pub(crate) async fn fetch(self, location: ErrorLocation) -> Result<FetchedChunk> {
        let mut stored = self.stored;
        let (bytes, requests) = match self.bytes {
            ChunkBytes::None => (None, 0),
            ChunkBytes::Inline(bytes) => {
                stored.stored_bytes = bytes.len() as u64;
                (Some(bytes), 0)
            }
            ChunkBytes::InFile(object, range) => {
                let fetched = object.fetch(range).await;
                let (bytes, requests) = fetched.map_err(|error| error.at(&location))?;
                (Some(bytes), requests)
            }
            ChunkBytes::File {
                place: file,
                part,
                etag,
                most,
            } => {
                let path = file.path().to_path_buf();
                let fetched = fetch(file, part, etag, most).await;
                let fetched = fetched.map_err(|error| in_chunk(error, &location, &path))?;
                let bytes = fetched.map(|fetched| fetched.bytes);
                stored.stored_bytes = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
                (bytes, 1)
            }
        };
        let length = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        Ok(FetchedChunk {
            stored,
            bytes,
            requests,
            bytes_fetched: length * requests,
        })
    }
}

/// Fetches several chunks at the same time. Chunks that are close to each other in a file take one
/// request. Must run on the thread of requests.
pub(crate) async fn fetch_all(
    chunks: Vec<(LocatedChunk, ErrorLocation)>,
) -> Result<Vec<FetchedChunk>> {
    let ranges = chunks.iter().map(|(chunk, _)| match &chunk.bytes {
        ChunkBytes::InFile(object, range) => Some((Arc::as_ptr(object) as usize, range.clone())),
        _ => None,
    });
    let requests = merged(&ranges.collect::<Vec<_>>());
    let chunks = &chunks;
    let fetches = requests.into_iter().map(|numbers| async move {
        let whole = match numbers.as_slice() {
            [one] => {
                let (chunk, location) = chunks[*one].clone();
                return Ok(vec![(*one, chunk.fetch(location).await?)]);
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
        let (bytes, requests) = Arc::clone(object).fetch(start..end).await?;
        let parts = numbers.iter().zip(&whole).enumerate();
        let parts = parts.map(|(ordinal, (number, (_, range)))| {
            let part = (range.start - start) as usize..(range.end - start) as usize;
            let counted = if ordinal == 0 { requests } else { 0 };
            let chunk = FetchedChunk {
                stored: chunks[*number].0.stored,
                bytes: Some(bytes.slice(part)),
                requests: counted,
                bytes_fetched: counted * (end - start),
            };
            (*number, chunk)
        });
        Ok::<_, Error>(parts.collect())
    });
    let mut fetched: Vec<_> = try_join_all(fetches).await?.into_iter().flatten().collect();
    fetched.sort_by_key(|(number, _)| *number);
    Ok(fetched.into_iter().map(|(_, chunk)| chunk).collect())
}

/// Groups the numbers of ranges that one request should cover, each with the file it is in. `None`
/// stands for a chunk with a request of its own.
fn merged(ranges: &[Option<(usize, Range<u64>)>]) -> Vec<Vec<usize>> {
    let in_files = (0..ranges.len()).filter(|number| ranges[*number].is_some());
    let mut order: Vec<usize> = in_files.collect();
    let key = |number: &usize| {
        ranges[*number]
            .as_ref()
            .map(|(file, range)| (*file, range.start))
    };
    order.sort_by_key(key);
    let others = (0..ranges.len()).filter(|number| ranges[*number].is_none());
    let mut groups: Vec<Vec<usize>> = others.map(|number| vec![number]).collect();
    let mut last: Option<(usize, Range<u64>)> = None;
    for number in order {
        let Some((file, range)) = ranges[number].clone() else {
            continue;
        };
        match (&mut last, groups.last_mut()) {
            (Some((of, covered)), Some(group))
                if *of == file
                    && range.start <= covered.end.saturating_add(MAX_GAP_BYTES)
                    && range.end.max(covered.end) - covered.start <= MAX_REQUEST_BYTES =>
            {
                covered.end = covered.end.max(range.end);
                group.push(number);
            }
            _ => {
                groups.push(vec![number]);
                last = Some((file, range));
            }
        }
    }
    groups
}

/// Adds the dataset and the chunk to an error about the chunk's own file.
fn in_chunk(error: Error, location: &ErrorLocation, file: &Path) -> Error {
    error.at(&ErrorLocation {
        path: file.to_path_buf(),
        ..location.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_of_a_file_are_one_request() {
        let near = 4 + MAX_GAP_BYTES;
        let far = near + 10 + MAX_GAP_BYTES + 1;
        let ranges = [
            Some((1, near..near + 10)),
            None,
            Some((1, 0..4)),
            Some((2, 4..8)),
            Some((1, far..far + 1)),
            Some((1, 2..3)),
        ];
        assert_eq!(merged(&ranges), [vec![1], vec![2, 5, 0], vec![4], vec![3]]);
        let large = [
            Some((1, 0..MAX_REQUEST_BYTES)),
            Some((1, MAX_REQUEST_BYTES..MAX_REQUEST_BYTES + 1)),
        ];
        assert_eq!(merged(&large).len(), 2);
        assert!(merged(&[]).is_empty());
    }
}
