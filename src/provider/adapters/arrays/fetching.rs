//! Fetches the chunks of a window from an object store.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};

use crate::error::{Error, ErrorLocation};
use crate::format::array::{self, ArrayFile, Dataset, FetchedChunk};
use crate::format::io::remote::runtime;
use crate::grid::{ChunkGrid, Window};
use crate::provider::adapters::arrays::array::StoredArray;
use crate::provider::source::{Fetch, FetchedBlock};

/// The maximum number of chunks of a window that are fetched ahead. Windows of more chunks are read
/// chunk by chunk.
const MAX_CHUNKS: u64 = 1024;

/// The fetched chunks of a window, by their indices.
#[derive(Debug, Default)]
pub(super) struct FetchedChunks(HashMap<Vec<u64>, FetchedChunk>);

impl FetchedChunks {
    /// Returns the chunks that [`fetch`] got; none if nothing was fetched.
    pub fn of(fetched: Option<FetchedBlock>) -> Result<Self> {
        let Some(fetched) = fetched else {
            return Ok(Self::default());
        };
        match fetched.downcast() {
            Ok(chunks) => Ok(*chunks),
            Err(_) => internal_err!("the fetched chunks are those of another source"),
        }
    }

    /// Takes a chunk; `None` if it was not fetched.
    pub fn take(&mut self, chunk: &[u64]) -> Option<FetchedChunk> {
        self.0.remove(chunk)
    }
}

/// Returns the fetch of a window's chunks; `None` if the array is in a local file.
pub(super) fn fetch(array: &Arc<StoredArray>, window: &Window) -> Option<Fetch> {
    let file = array.file();
    if !file.is_remote() {
        return None;
    }
    let touched = array.chunk_grid().chunks_in(window);
    let mut count = touched.iter().map(|range| range.end - range.start);
    let count = count.try_fold(1u64, |count, along| count.checked_mul(along));
    let count = count.filter(|count| *count <= MAX_CHUNKS)?;
    let chunks: Vec<_> = (0..count)
        .map(|number| ChunkGrid::nth_of(&touched, number))
        .collect();
    // The stored bytes are unknown before a request. They are rarely more than the decoded ones.
    let bytes = chunks
        .iter()
        .map(|chunk| array.dataset().chunk_bytes(array.dtype(), chunk));
    let bytes = bytes.fold(0, u64::saturating_add);
    let (file, dataset) = (Arc::clone(file), array.dataset().clone());
    Some(Fetch {
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        fetched: Box::pin(async move {
            let chunks = fetch_all(file, dataset, chunks).await?;
            Ok(Box::new(FetchedChunks(chunks)) as FetchedBlock)
        }),
    })
}

/// Locates and fetches chunks. Dropping the future aborts the requests.
async fn fetch_all(
    file: Arc<dyn ArrayFile>,
    dataset: Dataset,
    chunks: Vec<Vec<u64>>,
) -> Result<HashMap<Vec<u64>, FetchedChunk>, Error> {
    let path: PathBuf = file.path().to_path_buf();
    let failed = |error| Error::io(&path, "read")(error);
    // Locating may wait for the request of an index.
    let locate = move || {
        let located = chunks.into_iter().map(|chunk| {
            let located = file.locate(&dataset, &chunk)?;
            let location = ErrorLocation::chunk(file.path(), dataset.name(), &chunk);
            Ok((chunk, (located, location)))
        });
        located.collect::<Result<(Vec<_>, Vec<_>), Error>>()
    };
    let located = runtime::spawn_blocking(locate).map_err(failed)?;
    let (chunks, located) = located.await.map_err(failed)??;
    let fetched = runtime::spawn(array::fetch_all(located)).map_err(failed)?;
    let fetched = fetched.await.map_err(failed)??;
    Ok(chunks.into_iter().zip(fetched).collect())
}
