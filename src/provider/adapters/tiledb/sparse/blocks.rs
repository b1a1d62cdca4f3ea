//! The data tiles of a sparse array as blocks.
//!
//! A cell *counts* if it is a row of the table: it is neither deleted, nor overwritten by a newer
//! cell, nor outside the time range that is read.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow::compute::interleave;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, internal_err};
use lru::LruCache;

use crate::error::Result as FormatResult;
use crate::format::tiledb::{Coordinates, Field, FieldKind, Fragment, Scalar, TileSummary};
use crate::provider::adapters::tiledb::columns::{Column, NullValues};
#[cfg(feature = "remote")]
use crate::provider::adapters::tiledb::fetching;
use crate::provider::adapters::tiledb::sparse::reader::SparseBlockReader;
use crate::provider::adapters::tiledb::stored::{StoredArray, null_values};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::axis_bounds::fold;
#[cfg(feature = "remote")]
use crate::provider::source::Fetch;
use crate::provider::source::{
    Availability, BlockList, BlockReader, BlockStatistics, ColumnBounds, PruningLabels, RowCount,
    sum_of_integers,
};

/// The data tiles of all fragments, in the order of the fragments.
#[derive(Debug, Clone)]
pub(in crate::provider::adapters::tiledb) struct SparseBlocks {
    pub(in crate::provider::adapters::tiledb) stored: Arc<StoredArray>,
    /// The index of the first block of each fragment, then the number of blocks.
    starts: Arc<[u64]>,
    /// The number of fragments that may have a selected cell.
    fragments: usize,
    /// The bounds of dimensions in the tiles of each fragment, read on first use.
    boxes: Arc<[OnceLock<TileBoxes>]>,
    /// The statistics of each attribute over all cells, read on first use.
    whole: Arc<[OnceLock<ColumnStatistics>]>,
    pub(super) selections: Selections,
}

/// The maximum number of fragments whose statistics are read for a query.
const MAX_SUMMARISED: usize = 256;

/// The cells that count, in the most recently read tiles. A scan with a filter reads a tile twice:
/// first the columns of the filter, then the others.
type Selections = Arc<Mutex<LruCache<(usize, u64), Option<BooleanArray>>>>;

/// The number of tiles whose selections are kept.
const MAX_SELECTIONS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// For each dimension, the min and the max coordinate in each tile of a fragment.
type TileBoxes = Vec<(ArrayRef, ArrayRef)>;

impl SparseBlocks {
    pub fn new(stored: &Arc<StoredArray>) -> Self {
        let fragments = stored.array().fragments();
        let mut starts = vec![0u64];
        for fragment in fragments {
            let end = starts
                .last()
                .map_or(0, |end| end.saturating_add(fragment.tiles()));
            starts.push(end);
        }
        Self {
            stored: Arc::clone(stored),
            starts: starts.into(),
            fragments: fragments.len(),
            boxes: vec![OnceLock::new(); fragments.len()].into(),
            whole: vec![OnceLock::new(); stored.attributes().len()].into(),
            selections: Arc::new(Mutex::new(LruCache::new(MAX_SELECTIONS))),
        }
    }

    /// Returns the same blocks, with the number of fragments that may have a selected cell.
    pub fn with_fragments(&self, fragments: usize) -> Self {
        Self {
            fragments,
            ..self.clone()
        }
    }

    /// Returns the number of blocks.
    pub fn length(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Returns the blocks of each fragment.
    pub fn of_fragments(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.starts.windows(2).map(|two| two[0]..two[1])
    }

    /// Returns the fragment and the tile of a block.
    pub fn tile(&self, block: u64) -> Result<(usize, u64)> {
        let fragment = self.starts.partition_point(|start| *start <= block);
        match fragment.checked_sub(1) {
            Some(fragment) if block < self.length() => {
                Ok((fragment, block - self.starts[fragment]))
            }
            _ => internal_err!("there is no block {block}"),
        }
    }

    /// Returns `true` if the cells of a tile that count are known from reading it before.
    #[cfg(feature = "remote")]
    pub fn knows_selection(&self, fragment: usize, tile: u64) -> bool {
        let selections = self.selections.lock();
        selections.is_ok_and(|selections| selections.contains(&(fragment, tile)))
    }

    /// Returns the number of cells of a block, including cells that do not count.
    fn cells(&self, block: u64) -> Result<u64> {
        let (fragment, tile) = self.tile(block)?;
        Ok(self.stored.array().fragments()[fragment].cells(tile))
    }

    /// Returns the attribute of a column, or `None` for dimensions.
    fn attribute(&self, column: usize) -> Option<usize> {
        column.checked_sub(self.stored.dimensions().len())
    }

    /// Returns `true` if every cell of every fragment counts.
    fn is_exact(&self) -> bool {
        self.stored.array().sparse_cells().is_some()
    }

    /// Returns the bounds of all dimensions in the tiles of a fragment.
    fn boxes(&self, fragment: usize) -> FormatResult<&TileBoxes> {
        if let Some(known) = self.boxes[fragment].get() {
            return Ok(known);
        }
        let bounds = self.stored.array().fragments()[fragment].bounds()?;
        let sides = bounds.low.iter().zip(&bounds.high);
        let boxes = self.stored.dimensions().iter().zip(sides);
        let boxes = boxes.map(|(column, (low, high))| {
            Ok((coordinates(column, low)?, coordinates(column, high)?))
        });
        let boxes = boxes.collect::<FormatResult<_>>()?;
        Ok(self.boxes[fragment].get_or_init(|| boxes))
    }

    /// Returns the bounds of a dimension in blocks.
    fn dimension_bounds(&self, dimension: usize, blocks: &[u64]) -> Result<Option<ColumnBounds>> {
        let mut indices = Vec::with_capacity(blocks.len());
        let mut sources: Vec<(usize, &(ArrayRef, ArrayRef))> = Vec::new();
        for block in blocks {
            let (fragment, tile) = self.tile(*block)?;
            let known = sources.last().filter(|(last, _)| *last == fragment);
            if known.is_none() {
                sources.push((fragment, &self.boxes(fragment)?[dimension]));
            }
            indices.push((sources.len() - 1, tile as usize));
        }
        if sources.is_empty() {
            return Ok(None);
        }
        let side = |side: fn(&(ArrayRef, ArrayRef)) -> &ArrayRef| {
            let arrays: Vec<&dyn Array> = sources
                .iter()
                .map(|(_, bounds)| side(bounds).as_ref())
                .collect();
            interleave(&arrays, &indices)
        };
        Ok(Some(ColumnBounds {
            min: side(|bounds| &bounds.0)?,
            max: side(|bounds| &bounds.1)?,
            nulls: UInt64Array::from(vec![0; blocks.len()]),
            sums: None,
            is_exact: self.is_exact(),
        }))
    }

    /// Returns the stored statistics of an attribute in a block; `None` if there are none.
    fn summary(&self, attribute: usize, block: u64) -> Result<Option<&TileSummary>> {
        let (fragment, tile) = self.tile(block)?;
        let summaries = self.stored.summaries(fragment, attribute)?;
        Ok(summaries.and_then(|tiles| tiles.get(usize::try_from(tile).ok()?)))
    }

    /// Returns the bounds of an attribute in blocks.
    fn attribute_bounds(
        &self,
        attribute: usize,
        blocks: &[u64],
        nulls: NullValues,
    ) -> Result<Option<ColumnBounds>> {
        let column = &self.stored.attributes()[attribute];
        let is_whole = self.is_exact();
        let mut is_exact = is_whole;
        let (mut lows, mut highs, mut null_counts) = (Vec::new(), Vec::new(), Vec::new());
        for block in blocks {
            let summary = self.summary(attribute, *block)?;
            let low = summary.and_then(|summary| summary.minimum.as_ref());
            let high = summary.and_then(|summary| summary.maximum.as_ref());
            // The min `i64::MIN` is NaT, which is null.
            let has_not_a_time = column.has_not_a_time() && low == Some(&Scalar::Signed(i64::MIN));
            // A tile of floating-point numbers has bounds only if no number is NaN.
            let may_have_nan = column.is_float() && low.is_none() && nulls.nan;
            let count = summary.and_then(|summary| summary.null_count);
            let cells = self.cells(*block)?;
            let is_null = count == Some(cells);
            // If only some cells are null, it is unknown whether these are cells that count.
            let count = match is_whole || count == Some(0) || is_null {
                true => count.filter(|_| !has_not_a_time && (!may_have_nan || is_null)),
                false => None,
            };
            let has_exact_bounds = summary.is_some_and(|summary| summary.is_exact) || is_null;
            is_exact &= has_exact_bounds && count.is_some();
            null_counts.push(count);
            lows.push(low.filter(|_| high.is_some()));
            highs.push(high.filter(|_| low.is_some()));
        }
        Ok(Some(ColumnBounds {
            min: column.scalars(lows.into_iter())?,
            max: column.scalars(highs.into_iter())?,
            nulls: UInt64Array::from(null_counts),
            sums: None,
            is_exact,
        }))
    }

    /// Returns `true` if tiles may have usable statistics of an attribute.
    fn has_statistics(&self, attribute: usize) -> bool {
        use arrow::datatypes::DataType::{Boolean, Date32, Duration, Timestamp, Utf8};
        let column = self.stored.attributes().get(attribute);
        column.is_some_and(|column| {
            let data_type = column.data_type();
            let is_other = matches!(
                data_type,
                Boolean | Date32 | Duration(_) | Timestamp(..) | Utf8
            );
            column.enumeration().is_none() && (data_type.is_numeric() || is_other)
        })
    }
}

/// Returns the coordinates of tiles as an array.
fn coordinates(column: &Column, values: &Coordinates) -> FormatResult<ArrayRef> {
    let scalars: Vec<Option<Scalar>> = (0..values.len()).map(|tile| values.get(tile)).collect();
    column.scalars(scalars.iter().map(Option::as_ref))
}

impl BlockList for SparseBlocks {
    fn total(&self) -> Option<u64> {
        Some(self.length())
    }

    fn count(&self) -> Option<u64> {
        self.total()
    }

    fn rows(&self) -> RowCount {
        let array = self.stored.array();
        if let Some(cells) = array.sparse_cells() {
            return RowCount::Exact(cells);
        }
        let cells = array
            .fragments()
            .iter()
            .map(|fragment| fragment.sparse_cells());
        RowCount::AtMost(cells.fold(0, u64::saturating_add))
    }

    fn rows_in(&self, blocks: &[u64]) -> Result<RowCount> {
        let cells = blocks.iter().map(|block| self.cells(*block));
        let cells = cells.sum::<Result<u64>>()?;
        Ok(match self.is_exact() {
            true => RowCount::Exact(cells),
            false => RowCount::AtMost(cells),
        })
    }

    fn is_read(&self, columns: &[usize]) -> bool {
        !columns.is_empty() || !self.is_exact()
    }

    fn block_bytes(&self, block: u64, _options: &ReadOptions) -> Result<u64> {
        let (fragment, _) = self.tile(block)?;
        let fragment = &self.stored.array().fragments()[fragment];
        Ok(fragment.stored_bytes() / fragment.tiles().max(1))
    }

    fn parts(&self) -> Option<(&'static str, usize, usize)> {
        Some(("fragments", self.fragments, self.boxes.len()))
    }

    fn pruning_labels(&self) -> PruningLabels {
        PruningLabels {
            bounds: "pruned_by_rtree",
            ..PruningLabels::default()
        }
    }

    fn column_statistics(&self, column: usize, options: &ReadOptions) -> Result<ColumnStatistics> {
        let mut statistics = ColumnStatistics::new_unknown();
        let Some(attribute) = self.attribute(column) else {
            statistics.null_count = Precision::Exact(0);
            // The stored box of a consolidated fragment may be larger than the box of its cells.
            let is_single =
                |fragment: &Fragment| fragment.timestamps().0 == fragment.timestamps().1;
            let mut fragments = self.stored.array().fragments().iter();
            if self.is_exact()
                && fragments.all(is_single)
                && let Some((min, max)) = self.stored.coordinate_range(column)?
            {
                statistics.min_value = Precision::Exact(min);
                statistics.max_value = Precision::Exact(max);
            }
            return Ok(statistics);
        };
        let column = &self.stored.attributes()[attribute];
        let nulls = null_values(options);
        if !column.may_have_nulls(nulls) {
            statistics.null_count = Precision::Exact(0);
        }
        let are_few = self.boxes.len() <= MAX_SUMMARISED;
        let is_useful = are_few && options.zone_maps && self.is_exact();
        if is_useful && self.has_statistics(attribute) {
            let kept = &self.whole[attribute];
            if let Some(known) = kept.get() {
                return Ok(known.clone());
            }
            self.whole_statistics(attribute, &mut statistics)?;
            // Without bounds, the null count depends on options of the session.
            if statistics.min_value != Precision::Absent {
                return Ok(kept.get_or_init(|| statistics).clone());
            }
        }
        Ok(statistics)
    }

    fn availability(&self, column: usize, options: &ReadOptions) -> Availability {
        let is_known = match self.attribute(column) {
            None => true,
            Some(attribute) => {
                let column = &self.stored.attributes()[attribute];
                let is_known = self.has_statistics(attribute) || column.enumeration().is_some();
                options.zone_maps && is_known
            }
        };
        Availability {
            is_known,
            unusable: None,
        }
    }

    fn statistics(
        &self,
        columns: &[usize],
        blocks: &[u64],
        options: &ReadOptions,
    ) -> Result<BlockStatistics> {
        let is_exact = self.is_exact();
        let rows = blocks.iter().map(|block| match is_exact {
            true => self.cells(*block).map(Some),
            false => Ok(None),
        });
        let columns = columns.iter().map(|column| match self.attribute(*column) {
            None => self.dimension_bounds(*column, blocks),
            Some(attribute) if options.zone_maps && self.has_statistics(attribute) => {
                self.attribute_bounds(attribute, blocks, null_values(options))
            }
            Some(_) => Ok(None),
        });
        Ok(BlockStatistics {
            rows: rows.collect::<Result<_>>()?,
            columns: columns.collect::<Result<_>>()?,
        })
    }

    fn contained(
        &self,
        column: usize,
        blocks: &[u64],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        let Some(attribute) = self.attribute(column).filter(|_| options.zone_maps) else {
            return Ok(None);
        };
        let bounds = blocks.iter().map(|block| {
            let summary = self.summary(attribute, *block)?;
            let low = summary.and_then(|summary| summary.minimum.clone());
            let high = summary.and_then(|summary| summary.maximum.clone());
            Ok(low.zip(high))
        });
        self.stored.attributes()[attribute].contained(values, bounds)
    }

    #[cfg(feature = "remote")]
    fn fetch(&self, block: u64, columns: &[usize], _options: &ReadOptions) -> Option<Fetch> {
        fetching::of_block(self, block, columns)
    }

    fn reader(
        &self,
        columns: &[usize],
        max_rows: usize,
        options: &ReadOptions,
    ) -> Result<Box<dyn BlockReader>> {
        let nulls = null_values(options);
        let reader = SparseBlockReader::try_new(self.clone(), columns, max_rows, nulls)?;
        Ok(Box::new(reader))
    }
}

impl SparseBlocks {
    /// Sets the statistics of an attribute over all cells from the statistics of whole fragments.
    /// Every cell must count.
    fn whole_statistics(&self, attribute: usize, statistics: &mut ColumnStatistics) -> Result<()> {
        let array = self.stored.array();
        let column = &self.stored.attributes()[attribute];
        let mut summaries = Vec::new();
        for (number, fragment) in array.fragments().iter().enumerate() {
            if fragment.tiles() == 0 {
                continue;
            }
            let Some(Field {
                kind: FieldKind::Attribute(index),
                ..
            }) = array.attribute_in(number, attribute)?
            else {
                return Ok(());
            };
            let Some(summary) = fragment.summary(index)? else {
                return Ok(());
            };
            let is_null = summary.null_count == Some(fragment.sparse_cells());
            let has_not_a_time = column.has_not_a_time()
                && summary
                    .minimum
                    .as_ref()
                    .is_none_or(|low| *low == Scalar::Signed(i64::MIN));
            if summary.null_count.is_none() || !(summary.is_exact || is_null) || has_not_a_time {
                return Ok(());
            }
            summaries.push(summary);
        }
        let lows = summaries.iter().map(|summary| summary.minimum.as_ref());
        let highs = summaries.iter().map(|summary| summary.maximum.as_ref());
        let (lows, highs) = (column.scalars(lows)?, column.scalars(highs)?);
        let null_count = summaries
            .iter()
            .filter_map(|summary| summary.null_count)
            .sum::<u64>();
        statistics.null_count = Precision::Exact(null_count as usize);
        if lows.null_count() < lows.len() {
            let extremes = (fold(&lows, false)?, fold(&highs, true)?);
            statistics.min_value = Precision::Exact(extremes.0);
            statistics.max_value = Precision::Exact(extremes.1);
        }
        let sums = summaries
            .iter()
            .map(|summary| summary.sum.as_ref().and_then(Scalar::integer));
        let is_summed = column.datatype().is_integer() && null_count == 0;
        if let Some(sum) = sums
            .sum::<Option<i128>>()
            .filter(|_| is_summed && !summaries.is_empty())
        {
            statistics.sum_value = sum_of_integers(column.data_type(), sum);
        }
        Ok(())
    }
}
