//! Fetches the pages of a block from an object store.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{Result, internal_err};
use datafusion::error::DataFusionError;

use crate::error::Error;
use crate::format::io::remote::{FetchedRanges, fetch_ranges, runtime};
use crate::format::tatami::{TatamiFile, read_headers_ahead};
use crate::provider::adapters::tatami::blocks::{DocumentBlocks, PageBlock};
use crate::provider::source::{Fetch, FetchedBlock};

/// The maximum number of bytes of a column chunk that is read as a whole to find its pages, if some of them are
/// going to be read.
const MAX_WHOLE_CHUNK: u64 = 4 << 20;
/// The maximum number of bytes of a column chunk that is read as a whole to find its pages when a query is
/// planned, which may rule out most of them.
const MAX_PLANNED_CHUNK: u64 = 1 << 20;

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

/// Returns the fetch of the pages of a block, of these columns of the file. `bytes` is their estimated size.
pub(super) fn fetch(blocks: DocumentBlocks, block: u64, columns: Vec<usize>, bytes: u64) -> Fetch {
    Fetch {
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        fetched: Box::pin(async move {
            let pages = fetch_pages(blocks, block, columns).await?;
            Ok(Box::new(pages) as FetchedBlock)
        }),
    }
}

/// Reads the page headers of columns in row groups at the same time, given as pairs of a row group and a
/// column, if the file is in an object store. Planning needs them one after another.
fn read_ahead(file: &Arc<TatamiFile>, chunks: Vec<(usize, usize)>) -> Result<(), Error> {
    if file.storage().object().is_none() {
        return Ok(());
    }
    let read = read_headers_ahead(Arc::clone(file), chunks, MAX_PLANNED_CHUNK);
    runtime::wait(read).map_err(Error::io(file.path(), "read"))??;
    Ok(())
}

impl DocumentBlocks {
    /// Returns the chunks of columns of the file that have the rows of a block, as pairs of a row group and a
    /// column, with the chunk whose pages are the blocks.
    fn chunks_of(&self, block: u64, columns: &[usize]) -> Vec<(usize, usize)> {
        let group = self.group_of(block);
        let columns = columns.iter().copied().chain(self.paged);
        columns.map(|column| (group, column)).collect()
    }

    /// Reads the headers of the pages that are blocks, those of all row groups that hold these rows at the
    /// same time.
    pub fn read_ahead(&self, rows: impl Iterator<Item = u64>) -> Result<()> {
        let Some(column) = self.paged else {
            return Ok(());
        };
        let groups = self.file.row_groups();
        let mut found = Vec::new();
        for row in rows {
            let group = groups.partition_point(|group| group.first_row + group.rows <= row);
            if self.is_divided(group) && found.last() != Some(&(group, column)) {
                found.push((group, column));
            }
        }
        Ok(read_ahead(&self.file, found)?)
    }

    /// Returns `true` if a row group has more than one block.
    fn is_divided(&self, group: usize) -> bool {
        group < self.ends.len() && {
            let blocks = self.in_group(group);
            blocks.end - blocks.start > 1
        }
    }

    /// Reads the headers of the pages that the statistics of blocks need, at the same time.
    pub fn read_ahead_of(&self, columns: &[usize], blocks: &[u64]) -> Result<()> {
        let mut chunks = Vec::new();
        let mut last = None;
        for block in blocks {
            let group = self.group_of(*block);
            if last == Some(group) || !self.is_divided(group) || self.paged.is_none() {
                continue;
            }
            last = Some(group);
            chunks.extend(self.paged.map(|column| (group, column)));
            let stored = columns.iter().map(|column| self.columns[*column]);
            let has_pages = |column: &usize| {
                Some(*column) == self.file.schema().sort_key()
                    || self.file.row_groups()[group].chunks[*column].nulls > 0
            };
            chunks.extend(stored.filter(has_pages).map(|column| (group, column)));
        }
        Ok(read_ahead(&self.file, chunks)?)
    }
}

/// Finds and fetches pages. Dropping the future aborts the requests.
async fn fetch_pages(
    blocks: DocumentBlocks,
    block: u64,
    columns: Vec<usize>,
) -> Result<FetchedPages> {
    let file = Arc::clone(&blocks.file);
    let path = file.path().to_path_buf();
    let failed = |error| Error::io(&path, "read")(error);
    let Some(object) = file.storage().object().map(Arc::clone) else {
        return Ok(FetchedPages::default());
    };
    let chunks = blocks.chunks_of(block, &columns);
    let counted = read_headers_ahead(Arc::clone(&file), chunks, MAX_WHOLE_CHUNK).await?;
    // Reading the headers of pages waits for requests if they could not be read ahead.
    let located = runtime::spawn_blocking(move || {
        let block = blocks.block(block)?;
        Ok::<_, DataFusionError>(locate(&blocks.file, &block, &columns)?)
    });
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
