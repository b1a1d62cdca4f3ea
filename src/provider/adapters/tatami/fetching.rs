//! Fetches the pages of a block from an object store.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{Result, internal_err};

use crate::error::Error;
use crate::format::io::remote::{FetchedRanges, fetch_ranges, runtime};
use crate::format::tatami::TatamiFile;
use crate::provider::adapters::tatami::blocks::PageBlock;
use crate::provider::source::{Fetch, FetchedBlock};

/// The maximum number of bytes of a column chunk that is fetched as a whole, because the headers of its pages
/// lie between them.
const MAX_WHOLE_CHUNK: u64 = 4 << 20;

/// The pages of a block.
#[derive(Debug, Default)]
pub(super) struct FetchedPages {
    /// The payloads, by their offsets in the file.
    pub payloads: Vec<(u64, Bytes)>,
    pub requests: u64,
    pub bytes_fetched: u64,
}

impl FetchedPages {
    /// Returns the pages that [`fetch`] got; none if nothing was fetched.
    pub fn of(fetched: Option<FetchedBlock>) -> Result<Self> {
        let Some(fetched) = fetched else {
            return Ok(Self::default());
        };
        match fetched.downcast() {
            Ok(pages) => Ok(*pages),
            Err(_) => internal_err!("the fetched pages are those of another source"),
        }
    }
}

/// Returns the fetch of the pages of a block, of these columns of the file; `None` if the file is not in an
/// object store. `bytes` is their estimated size.
pub(super) fn fetch(
    file: &Arc<TatamiFile>,
    block: PageBlock,
    columns: Vec<usize>,
    bytes: u64,
) -> Option<Fetch> {
    file.storage().object()?;
    let file = Arc::clone(file);
    Some(Fetch {
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        fetched: Box::pin(async move {
            let pages = fetch_pages(file, block, columns).await?;
            Ok(Box::new(pages) as FetchedBlock)
        }),
    })
}

/// Finds and fetches pages. Dropping the future aborts the requests.
async fn fetch_pages(
    file: Arc<TatamiFile>,
    block: PageBlock,
    columns: Vec<usize>,
) -> Result<FetchedPages, Error> {
    let path = file.path().to_path_buf();
    let failed = |error| Error::io(&path, "read")(error);
    let Some(object) = file.storage().object().map(Arc::clone) else {
        return Ok(FetchedPages::default());
    };
    let mut chunks = Vec::new();
    for column in &columns {
        let chunk = file.chunk(block.group, *column)?;
        let range = chunk.first_page_offset..chunk.end().unwrap_or(0);
        if range.end.saturating_sub(range.start) <= MAX_WHOLE_CHUNK {
            chunks.push(range);
        }
    }
    let whole = Arc::clone(&object);
    let prefetched = runtime::spawn(async move { whole.prefetch_all(chunks).await });
    let counted = prefetched.map_err(failed)?.await.map_err(failed)??;
    // Reading the headers of pages may wait for requests.
    let located = runtime::spawn_blocking(move || locate(&file, &block, &columns));
    let ranges = located.map_err(failed)?.await.map_err(failed)??;
    let fetched = runtime::spawn(async move {
        let fetched = fetch_ranges(&object, &ranges).await?;
        Ok::<_, Error>((ranges, fetched))
    });
    let (ranges, fetched) = fetched.map_err(failed)?.await.map_err(failed)??;
    let FetchedRanges {
        parts,
        requests,
        bytes_fetched,
    } = fetched;
    let (requests, bytes_fetched) = (requests + counted.0, bytes_fetched + counted.1);
    let offsets = ranges.into_iter().map(|range| range.start);
    Ok(FetchedPages {
        payloads: offsets.zip(parts).collect(),
        requests,
        bytes_fetched,
    })
}

/// Returns the ranges of the pages that hold rows of a block.
fn locate(
    file: &TatamiFile,
    block: &PageBlock,
    columns: &[usize],
) -> Result<Vec<Range<u64>>, Error> {
    let mut ranges = Vec::new();
    for column in columns {
        let pages = file.pages(block.group, *column)?.iter();
        let pages = pages.filter(|page| {
            let rows = page.rows();
            rows.start < block.rows.end && block.rows.start < rows.end
        });
        ranges.extend(pages.map(|page| page.payload()));
    }
    Ok(ranges)
}
