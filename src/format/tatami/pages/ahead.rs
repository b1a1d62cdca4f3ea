//! Reads the headers of pages from an object store ahead of their use.
//!
//! The headers of a chunk lie between the payloads of its pages, so that each header is found by reading the
//! one before. A chunk that is not large is read as a whole, by one request, which neighbouring chunks share.
//! The headers of large chunks are read one after another, those of several chunks at the same time.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::io::parallel::call_all;
use crate::format::io::remote::runtime;
use crate::format::tatami::file::TatamiFile;
use crate::format::tatami::layout::record::RECORD_HEADER_BYTES;

/// The maximum number of bytes that are read at a time.
const MAX_BYTES_AT_A_TIME: u64 = 8 << 20;
/// An estimate of the bytes that a page takes in the page index.
const PAGE_INDEX_ENTRY_BYTES: u64 = 64;

/// Reads the headers of the pages of chunks, given as pairs of a row group and a column, unless the file
/// knows them. Chunks of at most `max_whole` bytes are read as a whole. Returns the number of requests and
/// of the bytes that they fetched, apart from those for large chunks.
///
/// # Errors
/// Fails if a request fails. Malformed headers are reported by [`TatamiFile::pages`].
pub(crate) async fn read_headers_ahead(
    file: Arc<TatamiFile>,
    mut chunks: Vec<(usize, usize)>,
    max_whole: u64,
) -> Result<(u64, u64)> {
    let path = file.path().to_path_buf();
    let failed = |error| Error::io(&path, "read")(error);
    let Some(object) = file.storage().object().map(Arc::clone) else {
        return Ok((0, 0));
    };
    chunks.sort_unstable();
    chunks.dedup();
    chunks.retain(|(group, column)| !file.knows_pages(*group, *column));
    if chunks.is_empty() {
        return Ok((0, 0));
    }
    // Other blocks of the row groups wait for the same headers.
    let mut guards = Vec::new();
    for group in file.reading_ahead(chunks.iter().map(|(group, _)| *group)) {
        guards.push(group.lock().await);
    }
    chunks.retain(|(group, column)| !file.knows_pages(*group, *column));
    let (mut requests, mut bytes_fetched) = (0, 0);
    let mut chunks = chunks.as_slice();
    while !chunks.is_empty() {
        let (mut ranges, mut bytes, mut count) = (Vec::new(), 0, 0);
        for (group, column) in chunks {
            let chunk = file.chunk(*group, *column)?;
            let start = chunk.first_page_offset;
            let end = chunk.end().unwrap_or(start);
            let is_whole = end.saturating_sub(start) <= max_whole;
            // The page index lies behind the pages of its chunk.
            let index = chunk.page_index.filter(|index| is_whole && *index >= end);
            let index_bytes = RECORD_HEADER_BYTES
                .saturating_add(chunk.pages.saturating_mul(PAGE_INDEX_ENTRY_BYTES));
            let end = match index {
                Some(index) if index - end <= RECORD_HEADER_BYTES => index
                    .saturating_add(index_bytes)
                    .min(file.header().footer_offset.max(end)),
                _ => end,
            };
            let length = if is_whole {
                end.saturating_sub(start)
            } else {
                0
            };
            if count > 0 && bytes + length > MAX_BYTES_AT_A_TIME {
                break;
            }
            if length > 0 {
                ranges.push(start..end);
            }
            bytes += length;
            count += 1;
        }
        let (read, rest) = chunks.split_at(count);
        chunks = rest;
        let whole = Arc::clone(&object);
        let fetched = runtime::spawn(async move { whole.prefetch_all(ranges).await });
        let fetched = fetched.map_err(failed)?.await.map_err(failed)??;
        requests += fetched.0;
        bytes_fetched += fetched.1;
        let (file, read) = (Arc::clone(&file), read.to_vec());
        let parsed = runtime::spawn_blocking(move || {
            call_all(file.path(), &read, |(group, column)| {
                // A fault is found again, and reported, when the pages are used.
                let _ = file.pages(*group, *column);
                Ok(())
            })
        });
        parsed.map_err(failed)?.await.map_err(failed)??;
    }
    Ok((requests, bytes_fetched))
}
