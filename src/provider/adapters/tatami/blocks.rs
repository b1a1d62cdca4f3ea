//! The pages and row groups of a `.tatami` file as blocks.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{BooleanArray, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, internal_err};

use crate::format::tatami::{ColumnChunk, Page, Scalar, TatamiFile, ValueBounds};
#[cfg(feature = "remote")]
use crate::provider::adapters::tatami::fetching::fetch;
use crate::provider::adapters::tatami::reader::DocumentReader;
use crate::provider::adapters::tatami::search::Searched;
use crate::provider::adapters::tatami::table::{BytesAs, TextOptions, blob_batch_rows};
use crate::provider::adapters::tatami::values::{column_bounds, scalar, to_scalar};
use crate::provider::catalog::settings::options::ReadOptions;
#[cfg(feature = "remote")]
use crate::provider::source::Fetch;
use crate::provider::source::{
    Availability, BlockGroups, BlockList, BlockReader, BlockStatistics, ColumnBounds,
    PruningLabels, RowCount,
};

/// A block: the rows of one page, or of a whole row group.
#[derive(Debug, Clone)]
pub(super) struct PageBlock {
    pub group: usize,
    /// The index of the page in its row group; 0 for a whole row group.
    pub page: usize,
    /// The rows, counted from the start of the row group.
    pub rows: Range<u64>,
}

/// The blocks of a `.tatami` file.
///
/// If the chunks of the columns that a scan reads have the same number of pages, a block has the rows of one
/// page of the first column. The page headers of a row group are read when one of its blocks is looked up, so
/// that row groups without a matching row are never read.
#[derive(Debug, Clone)]
pub(super) struct DocumentBlocks {
    pub(super) file: Arc<TatamiFile>,
    schema: SchemaRef,
    /// For each column of the table, its index in the file.
    pub(super) columns: Arc<[usize]>,
    text: TextOptions,
    /// The column of the file whose pages are the blocks.
    pub(super) paged: Option<usize>,
    /// The ordinal after the last block of each row group.
    pub(super) ends: Arc<[u64]>,
    /// For each row group, the length of the values that the scan reads, before compression.
    raw_bytes: Arc<[u64]>,
    /// The documents that calls of `matches` find.
    searched: Arc<[Searched]>,
}

impl DocumentBlocks {
    /// Cuts a file into blocks that suit a scan of the columns `read`, given by their indices in the file.
    pub fn new(
        file: Arc<TatamiFile>,
        schema: SchemaRef,
        columns: Arc<[usize]>,
        text: TextOptions,
        read: &[usize],
    ) -> Self {
        let mut end = 0;
        let ends = file.row_groups().iter().map(|group| {
            let mut pages = read.iter().map(|column| group.chunks[*column].pages);
            let first = pages.next().unwrap_or(1);
            end += match group.rows {
                0 => 0,
                _ if pages.all(|pages| pages == first) => first.max(1),
                _ => 1,
            };
            end
        });
        let raw_bytes = file.row_groups().iter().map(|group| {
            let columns = read.iter().map(|column| {
                let chunk = &group.chunks[*column];
                let blobs = file.blob_totals(*column).map_or(0, |totals| {
                    totals
                        .average()
                        .0
                        .saturating_mul(chunk.values - chunk.nulls)
                });
                chunk.raw_bytes.saturating_add(blobs)
            });
            columns.fold(0, u64::saturating_add)
        });
        Self {
            ends: ends.collect(),
            raw_bytes: raw_bytes.collect(),
            file,
            schema,
            columns,
            text,
            paged: read.first().copied(),
            searched: Arc::new([]),
        }
    }

    /// Sets the documents that calls of `matches` find.
    pub fn with_searched(mut self, searched: Vec<Searched>) -> Self {
        self.searched = searched.into();
        self
    }

    /// The documents that calls of `matches` find.
    pub fn searched(&self) -> &[Searched] {
        &self.searched
    }

    /// The blocks of a row group.
    pub(super) fn in_group(&self, group: usize) -> Range<u64> {
        let start = group.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[group]
    }

    /// Returns the pages whose rows are the blocks of a row group; `None` if the row group is one block.
    fn paged(&self, group: usize) -> Result<Option<&[Page]>> {
        let blocks = self.in_group(group);
        match self.paged {
            Some(column) if blocks.end - blocks.start > 1 => {
                Ok(Some(self.file.pages(group, column)?))
            }
            _ => Ok(None),
        }
    }

    /// Returns the index of the row group that holds a block.
    pub(super) fn group_of(&self, block: u64) -> usize {
        self.ends.partition_point(|end| *end <= block)
    }

    /// Returns a block by its ordinal.
    pub fn block(&self, block: u64) -> Result<PageBlock> {
        let group = self.group_of(block);
        let Some(row_group) = self.file.row_groups().get(group) else {
            return internal_err!("there is no block {block}");
        };
        let page = (block - self.in_group(group).start) as usize;
        let rows = match self.paged(group)? {
            Some(pages) => pages.get(page).map(Page::rows),
            None => Some(0..row_group.rows),
        };
        match rows {
            Some(rows) => Ok(PageBlock { group, page, rows }),
            None => internal_err!("row group {group} has no page {page}"),
        }
    }

    /// Returns the ordinal of the block that holds a row of the file, and the number of the first row after
    /// this block.
    pub fn block_of(&self, row: u64) -> Result<(u64, u64)> {
        let groups = self.file.row_groups();
        let group = groups.partition_point(|group| group.first_row + group.rows <= row);
        let Some(row_group) = groups.get(group) else {
            return internal_err!("there is no row {row}");
        };
        let page = self.paged(group)?.map_or(0, |pages| {
            pages.partition_point(|page| row_group.first_row + page.rows().end <= row)
        });
        let block = self.in_group(group).start + page as u64;
        Ok((block, row_group.first_row + self.block(block)?.rows.end))
    }

    fn chunk(&self, group: usize, column: usize) -> &ColumnChunk {
        &self.file.row_groups()[group].chunks[self.columns[column]]
    }

    /// Returns `true` if texts of the table may differ from the stored bytes, which zones and Bloom
    /// filters are about.
    fn is_changed(&self, column: usize) -> Result<bool> {
        let column_type = self.file.column_type(self.columns[column])?;
        Ok(self.text.of(column_type) == BytesAs::LossyText)
    }

    fn is_whole_group(&self, block: &PageBlock) -> bool {
        block.rows.end - block.rows.start == self.file.row_groups()[block.group].rows
    }

    /// Returns the part of the bytes of a row group that the rows of a block take. In an object store, the
    /// blocks of a row group count as equally large until their pages are known.
    fn proportional(&self, block: u64, bytes: u64) -> Result<u64> {
        #[cfg(feature = "remote")]
        if self.file.storage().object().is_some() {
            let group = self.group_of(block);
            let known = self
                .paged
                .map(|column| self.file.knows_pages(group, column));
            if known == Some(false) && group < self.ends.len() {
                let blocks = self.in_group(group);
                return Ok(bytes / (blocks.end - blocks.start).max(1));
            }
        }
        let block = self.block(block)?;
        let rows = self.file.row_groups()[block.group].rows.max(1);
        let bytes = u128::from(bytes) * u128::from(block.rows.end - block.rows.start);
        Ok((bytes / u128::from(rows)) as u64)
    }

    /// Returns the page of a column that holds exactly the rows of a block; `None` if there is none, or
    /// if the block is a whole row group.
    fn page(&self, block: &PageBlock, column: usize) -> Result<Option<&Page>> {
        if self.is_whole_group(block) {
            return Ok(None);
        }
        let pages = self.file.pages(block.group, self.columns[column])?;
        let page = pages.get(block.page);
        Ok(page.filter(|page| page.rows() == block.rows))
    }

    /// Returns the bounds of a column in a block: from the page index if there is an entry for exactly
    /// these rows, or else from the zone of the row group.
    fn bounds(&self, block: &PageBlock, column: usize) -> Result<ValueBounds<'_>> {
        let stored = self.columns[column];
        if self.is_changed(column)? {
            return Ok(ValueBounds::new(self.file.column_type(stored)?, None));
        }
        if Some(stored) == self.file.schema().sort_key()
            && self.page(block, column)?.is_some()
            && let Some(entries) = self.file.page_index(block.group)?
            && let Some(entry) = entries.get(block.page)
        {
            return Ok(entry.value_bounds(self.file.column_type(stored)?));
        }
        Ok(self.file.bounds(block.group, stored)?)
    }

    /// Returns the number of nulls of a column in a block, if it is known without reading pages.
    fn nulls(&self, block: &PageBlock, column: usize) -> Result<Option<u64>> {
        let chunk = self.chunk(block.group, column);
        if chunk.nulls == 0 || self.is_whole_group(block) {
            return Ok(Some(chunk.nulls));
        }
        let page = self.page(block, column)?;
        Ok(page.map(|page| page.header.nulls.into()))
    }

    fn column_bounds(&self, column: usize, blocks: &[PageBlock]) -> Result<Option<ColumnBounds>> {
        if blocks.is_empty() {
            return Ok(None);
        }
        let mut all = Vec::with_capacity(blocks.len());
        let mut nulls = Vec::with_capacity(blocks.len());
        let mut is_exact = true;
        for block in blocks {
            let bounds = self.bounds(block, column)?;
            nulls.push(self.nulls(block, column)?);
            is_exact &= bounds.is_exact && self.is_whole_group(block);
            all.push(bounds);
        }
        let data_type = self.schema.field(column).data_type();
        column_bounds(&all, UInt64Array::from(nulls), is_exact, data_type).map(Some)
    }
}

impl BlockList for DocumentBlocks {
    fn total(&self) -> Option<u64> {
        Some(self.ends.last().copied().unwrap_or(0))
    }

    fn count(&self) -> Option<u64> {
        self.total()
    }

    fn rows(&self) -> RowCount {
        RowCount::Exact(self.file.rows())
    }

    fn rows_in(&self, blocks: &[u64]) -> Result<RowCount> {
        #[cfg(feature = "remote")]
        self.read_ahead_of(&[], blocks)?;
        let mut all = 0;
        for block in blocks {
            let PageBlock { rows, .. } = self.block(*block)?;
            all += rows.end - rows.start;
        }
        Ok(RowCount::Exact(all))
    }

    fn is_read(&self, columns: &[usize]) -> bool {
        !columns.is_empty()
    }

    fn block_bytes(&self, block: u64, _options: &ReadOptions) -> Result<u64> {
        let Some(group) = self.file.row_groups().get(self.group_of(block)) else {
            return internal_err!("there is no block {block}");
        };
        let blobs = group.chunks.iter().filter_map(|chunk| {
            let (_, average) = self.file.blob_totals(chunk.column)?.average();
            Some(average.saturating_mul(chunk.values - chunk.nulls))
        });
        let bytes = blobs.fold(group.total_bytes, u64::saturating_add);
        self.proportional(block, bytes)
    }

    fn block_cost(&self, block: u64, _options: &ReadOptions) -> Result<u64> {
        match self.raw_bytes.get(self.group_of(block)) {
            Some(bytes) => self.proportional(block, *bytes),
            None => internal_err!("there is no block {block}"),
        }
    }

    fn pruning_labels(&self) -> PruningLabels {
        PruningLabels {
            bounds: "pruned_by_page_index",
            value_index: "pruned_by_bloom",
            selected: Some("pruned_by_search_index"),
            ..PruningLabels::default()
        }
    }

    fn groups(&self) -> Option<BlockGroups> {
        let is_divided = self.total() != Some(self.file.row_groups().len() as u64);
        is_divided.then(|| BlockGroups {
            blocks: Arc::new(Self {
                ends: (1..=self.ends.len() as u64).collect(),
                paged: None,
                ..self.clone()
            }),
            ends: Arc::clone(&self.ends),
        })
    }

    fn column_statistics(&self, column: usize, options: &ReadOptions) -> Result<ColumnStatistics> {
        let mut statistics = ColumnStatistics::new_unknown();
        let groups = 0..self.file.row_groups().len();
        let nulls: u64 = groups
            .clone()
            .map(|group| self.chunk(group, column).nulls)
            .sum();
        statistics.null_count = Precision::Exact(nulls as usize);
        if !options.zone_maps || self.is_changed(column)? {
            return Ok(statistics);
        }
        let mut all: Option<(Scalar<'_>, Scalar<'_>)> = None;
        for group in groups {
            let chunk = self.chunk(group, column);
            if chunk.values == chunk.nulls {
                continue;
            }
            let bounds = self.file.bounds(group, self.columns[column])?;
            let (true, Some(min), Some(max)) = (bounds.is_exact, bounds.lower, bounds.upper) else {
                return Ok(statistics);
            };
            all = Some(match all {
                None => (min, max),
                Some((all_min, all_max)) => (
                    match min.compare(&all_min) {
                        Some(Ordering::Less) => min,
                        _ => all_min,
                    },
                    match max.compare(&all_max) {
                        Some(Ordering::Greater) => max,
                        _ => all_max,
                    },
                ),
            });
        }
        if let Some((min, max)) = all {
            let data_type = self.schema.field(column).data_type();
            let (min, max) = (scalar(Some(min), data_type)?, scalar(Some(max), data_type)?);
            if !min.is_null() && !max.is_null() {
                statistics.min_value = Precision::Exact(min);
                statistics.max_value = Precision::Exact(max);
            }
        }
        Ok(statistics)
    }

    fn availability(&self, column: usize, options: &ReadOptions) -> Availability {
        let has_zone = |group| self.chunk(group, column).zone.is_some();
        Availability {
            is_known: options.zone_maps && (0..self.file.row_groups().len()).any(has_zone),
            unusable: None,
        }
    }

    fn statistics(
        &self,
        columns: &[usize],
        blocks: &[u64],
        _options: &ReadOptions,
    ) -> Result<BlockStatistics> {
        #[cfg(feature = "remote")]
        self.read_ahead_of(columns, blocks)?;
        let blocks = blocks.iter().map(|block| self.block(*block));
        let blocks: Vec<PageBlock> = blocks.collect::<Result<_>>()?;
        let rows = blocks.iter().map(|block| block.rows.end - block.rows.start);
        let columns = columns
            .iter()
            .map(|column| self.column_bounds(*column, &blocks));
        Ok(BlockStatistics {
            rows: UInt64Array::from_iter_values(rows),
            columns: columns.collect::<Result<_>>()?,
        })
    }

    fn contained(
        &self,
        column: usize,
        blocks: &[u64],
        values: &HashSet<ScalarValue>,
        _options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        let stored = self.columns[column];
        let is_changed = self.is_changed(column)?;
        // A value that has no stored form cannot be looked up, so no block can be ruled out.
        let searched: Option<Vec<_>> = values.iter().map(to_scalar).collect();
        let Some(searched) = searched.filter(|_| !is_changed) else {
            return Ok(None);
        };
        // The blocks of a row group share its Bloom filter.
        let mut last: Option<(usize, Option<bool>)> = None;
        let mut contained = Vec::with_capacity(blocks.len());
        for block in blocks {
            let group = self.group_of(*block);
            let answer = match last {
                Some((of_group, answer)) if of_group == group => answer,
                _ => {
                    let mut may_contain = self.file.bloom(group, stored)?.is_none();
                    for value in &searched {
                        may_contain = may_contain || self.file.may_contain(group, stored, value)?;
                    }
                    (!may_contain).then_some(false)
                }
            };
            last = Some((group, answer));
            contained.push(answer);
        }
        Ok(Some(BooleanArray::from(contained)))
    }

    fn batch_rows(&self, columns: &[usize], rows: usize) -> usize {
        let stored = columns.iter().map(|column| self.columns[*column]);
        rows.min(blob_batch_rows(&self.file, stored))
    }

    #[cfg(feature = "remote")]
    fn fetch(&self, block: u64, columns: &[usize], _options: &ReadOptions) -> Option<Fetch> {
        self.file.storage().object()?;
        let group = self.file.row_groups().get(self.group_of(block))?;
        let columns: Vec<_> = columns.iter().map(|column| self.columns[*column]).collect();
        let stored = columns
            .iter()
            .map(|column| group.chunks[*column].stored_bytes);
        let bytes = stored.fold(0, u64::saturating_add);
        let bytes = self.proportional(block, bytes).ok()?;
        Some(fetch(self.clone(), block, columns, bytes))
    }

    fn reader(
        &self,
        columns: &[usize],
        max_rows: usize,
        _options: &ReadOptions,
    ) -> Result<Box<dyn BlockReader>> {
        let columns = columns.iter().map(|column| self.columns[*column]);
        let reader = DocumentReader::try_new(
            &self.file,
            columns.collect(),
            self.clone(),
            self.text,
            max_rows,
        );
        Ok(Box::new(reader?))
    }
}
