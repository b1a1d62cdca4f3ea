//! The chunks of a grid as blocks.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use arrow::compute::{sum, take};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Int64Type, UInt64Type};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, internal_err};

use crate::grid::{Cells, ChunkSelection, IndexSet, Monotonicity, Selection, Window};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::axis_bounds::{AxisBounds, AxisSearch, axis_range, fold};
use crate::provider::planning::planned_blocks::segments;
use crate::provider::scan::chunk_walk::ChunkWalk;
use crate::provider::scan::grid::reader::GridReader;
use crate::provider::source::{
    Availability, BlockList, BlockReader, BlockStatistics, ColumnBounds, Fetch, GridSelection,
    GridSource, RowCount, sum_of_integers,
};

/// The number of chunks of a table up to which zone maps are always read.
const FEW_BLOCKS: u64 = 4096;
/// In larger tables, zone maps are read if at least one chunk in this many is selected.
const WORTHWHILE: u64 = 64;
/// The maximum number of blocks whose statistics are folded into the statistics of the column.
const MAX_FOLDED: u64 = 16 << 20;
/// The maximum number of chunks along an axis whose min and max coordinates are kept.
const MAX_AXIS_CHUNKS: u64 = 1 << 20;
/// The maximum length of an axis whose coordinates are read only for statistics.
pub(crate) const MAX_READ: u64 = 4 << 20;

/// The chunks of a grid that a selection intersects, as a list of blocks.
#[derive(Debug, Clone)]
pub(crate) struct GridBlocks {
    grid: Arc<dyn GridSource>,
    selection: Selection,
    chunks: ChunkSelection,
    /// For each axis, the min and max coordinates of its chunks, computed on first use.
    axis_bounds: Arc<[OnceLock<Option<AxisBounds>>]>,
    /// The walk over the chunks, created on first use; `None` if there are too many chunks, or
    /// none.
    walk: Arc<OnceLock<Option<ChunkWalk>>>,
}

impl GridBlocks {
    /// Creates the list of the chunks that contain a cell of `selection`.
    pub fn new(grid: &Arc<dyn GridSource>, selection: Selection) -> Self {
        Self {
            chunks: selection.chunks(grid.chunk_grid()),
            axis_bounds: vec![OnceLock::new(); grid.axes().len()].into(),
            walk: Arc::default(),
            grid: Arc::clone(grid),
            selection,
        }
    }

    fn walk(&self) -> Option<&ChunkWalk> {
        let grid = self.grid.chunk_grid();
        let walk = || ChunkWalk::try_new(grid, &self.chunks, &self.selection);
        self.walk.get_or_init(walk).as_ref()
    }

    /// Returns the statistics of an attribute in the blocks with these ordinals, exact if possible.
    fn chunk_statistics(
        &self,
        attribute: usize,
        blocks: &[u64],
        options: &ReadOptions,
    ) -> Result<Option<ColumnBounds>> {
        if let Some(all) = self.grid.chunk_statistics(attribute, options)?
            && let Some(walk) = self.walk()
        {
            let mut numbers = Vec::with_capacity(blocks.len());
            walk.visit(blocks, |step| numbers.push(step.number));
            let mut some = all.take(numbers)?;
            some.is_exact = some.nulls.null_count() == 0;
            return Ok(Some(some));
        }
        let windows = self.windows(blocks)?;
        self.grid.window_statistics(attribute, &windows, options)
    }

    fn windows(&self, blocks: &[u64]) -> Result<Vec<Window>> {
        blocks.iter().map(|block| self.window(*block)).collect()
    }

    /// Returns the cells of the chunk of a block, selected or not.
    pub fn window(&self, block: u64) -> Result<Window> {
        Ok(self.grid.chunk_grid().window(&self.chunk(block)?))
    }

    /// For each block, the rank of its chunk among the selected chunks along one axis.
    fn ranks(&self, axis: usize, blocks: &[u64]) -> UInt64Array {
        let mut behind = self.chunks.axes()[axis + 1..].iter();
        let behind = behind.try_fold(1u64, |behind, set| behind.checked_mul(set.count()));
        let count = self.chunks.axes()[axis].count().max(1);
        // A block comes before 2^64 others, so it has the first rank if these are too many.
        let rank = |block: &u64| behind.map_or(0, |behind| block / behind.max(1) % count);
        UInt64Array::from_iter_values(blocks.iter().map(rank))
    }

    /// Returns the selected indices along one axis within a chunk, which is given by its index
    /// along that axis.
    fn in_chunk(&self, axis: usize, chunk: u64) -> IndexSet {
        let selected = &self.selection.axes()[axis];
        let chunk = self.grid.chunk_grid().axis(axis).range(chunk);
        let (within, start) = (selected.within(chunk.clone()), chunk.start);
        let ranges = within
            .ranges()
            .map(|range| range.start + start..range.end + start);
        IndexSet::from_ranges(selected.length(), ranges)
    }

    fn axis_bounds(&self, axis: usize) -> Result<Option<&AxisBounds>> {
        if self.chunks.axes()[axis].count() > MAX_AXIS_CHUNKS {
            return Ok(None);
        }
        if let Some(known) = self.axis_bounds[axis].get() {
            return Ok(known.as_ref());
        }
        let chunks = self.chunks.axes()[axis].ranges().flatten();
        let parts = chunks.map(|chunk| self.in_chunk(axis, chunk));
        let bounds = AxisBounds::new(&self.grid.axes()[axis], parts)?;
        Ok(self.axis_bounds[axis].get_or_init(|| bounds).as_ref())
    }

    /// Returns `true` if the selection contains every cell of every chunk that it intersects.
    fn holds_whole_chunks(&self) -> bool {
        let axes = self.selection.axes().iter().zip(self.chunks.axes());
        axes.zip(self.grid.chunk_grid().axes())
            .all(|((selected, chunks), axis)| {
                let spans = chunks.ranges().map(|chunks| axis.span(&chunks));
                let in_chunks: u64 = spans.map(|span| span.end - span.start).sum();
                selected.count() == in_chunks
            })
    }

    /// Returns the min, max and null count of an attribute, if they are known for every chunk and
    /// every chunk is selected as a whole.
    fn attribute_statistics(
        &self,
        attribute: usize,
        options: &ReadOptions,
    ) -> Result<Option<ColumnStatistics>> {
        let Some(count) = self.count().filter(|count| *count <= MAX_FOLDED) else {
            return Ok(None);
        };
        if count == 0 || !self.holds_whole_chunks() || !self.is_known(attribute, options) {
            return Ok(None);
        }
        let (mut min, mut max) = (Vec::new(), Vec::new());
        let mut nulls = 0;
        let mut total = None;
        let mut is_summed = true;
        for blocks in segments(count) {
            let blocks: Vec<u64> = blocks.collect();
            let known = self.chunk_statistics(attribute, &blocks, options)?;
            let Some(known) = known.filter(|known| known.is_exact) else {
                return Ok(None);
            };
            nulls += sum(&known.nulls).unwrap_or(0);
            match known.sums.as_ref().and_then(total_of) {
                Some(sums) => {
                    total = Some(match total {
                        None => sums,
                        Some(total) => i128::saturating_add(total, sums),
                    });
                }
                None => is_summed = false,
            }
            min.push(fold(&known.min, false)?);
            max.push(fold(&known.max, true)?);
        }
        let extreme = |values: Vec<ScalarValue>, descending| -> Result<_> {
            let values = ScalarValue::iter_to_array(values)?;
            let value = fold(&values, descending)?;
            // If no chunk has a value, there is neither min nor max. DataFusion handles that case
            // by itself.
            Ok(if value.is_null() {
                Precision::Absent
            } else {
                Precision::Exact(value)
            })
        };
        let min_value = extreme(min, false)?;
        // The sum of no values is null.
        let has_sum = is_summed && min_value != Precision::Absent;
        Ok(Some(ColumnStatistics {
            null_count: usize::try_from(nulls).map_or(Precision::Absent, Precision::Exact),
            min_value,
            max_value: extreme(max, true)?,
            sum_value: match total.filter(|_| has_sum) {
                Some(total) => {
                    sum_of_integers(self.grid.attributes()[attribute].data_type(), total)
                }
                None => Precision::Absent,
            },
            ..ColumnStatistics::new_unknown()
        }))
    }

    /// Returns `true` if there are statistics of an attribute and they are worth reading. Zone maps
    /// are read as a whole, which a query over a few of very many chunks should not wait for.
    fn is_known(&self, attribute: usize, options: &ReadOptions) -> bool {
        self.is_worth_reading() && self.grid.availability(attribute, options).is_known
    }

    fn is_worth_reading(&self) -> bool {
        self.total()
            .zip(self.count())
            .is_some_and(|(total, count)| {
                total <= FEW_BLOCKS || count.saturating_mul(WORTHWHILE) >= total
            })
    }

    /// Returns the statistics of a coordinate column in the blocks with these ordinals.
    fn axis_statistics(&self, axis: usize, blocks: &[u64]) -> Result<Option<ColumnBounds>> {
        let Some(bounds) = self.axis_bounds(axis)? else {
            return Ok(None);
        };
        let ranks = self.ranks(axis, blocks);
        Ok(Some(ColumnBounds {
            min: take(&bounds.min, &ranks, None)?,
            max: take(&bounds.max, &ranks, None)?,
            nulls: UInt64Array::from(vec![0; blocks.len()]),
            sums: None,
            is_exact: true,
        }))
    }

    /// Returns the attributes among these columns.
    pub fn attributes(&self, columns: &[usize]) -> Vec<usize> {
        let dimensions = self.grid.axes().len();
        let columns = columns.iter();
        columns
            .filter_map(|column| column.checked_sub(dimensions))
            .collect()
    }

    /// Returns the grid.
    pub fn grid(&self) -> &dyn GridSource {
        self.grid.as_ref()
    }

    /// Returns the selected cells.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Returns the number of selected chunks along each axis. Every combination of them is a block.
    pub fn chunk_counts(&self) -> Vec<u64> {
        self.chunks.axes().iter().map(IndexSet::count).collect()
    }

    /// Returns the chunk of the block with this ordinal.
    pub fn chunk(&self, block: u64) -> Result<Vec<u64>> {
        match self.chunks.nth(block) {
            Some(chunk) => Ok(chunk),
            None => internal_err!(
                "block {block} is out of range: there are {:?} blocks",
                self.chunks.count()
            ),
        }
    }
}

impl BlockList for GridBlocks {
    fn total(&self) -> Option<u64> {
        self.grid.chunk_grid().count()
    }

    fn count(&self) -> Option<u64> {
        self.chunks.count()
    }

    fn rows(&self) -> RowCount {
        self.selection.count().into()
    }

    fn rows_in(&self, blocks: &[u64]) -> Result<RowCount> {
        let mut rows = Some(0u64);
        let mut add = |more| rows = rows.and_then(|rows| rows.checked_add(more));
        match self.walk().filter(|_| blocks.len() > 1) {
            Some(walk) => walk.visit(blocks, |step| add(step.rows)),
            None => {
                for block in blocks {
                    add(Cells::new(&self.window(*block)?, &self.selection).rows());
                }
            }
        }
        Ok(rows.into())
    }

    fn is_read(&self, columns: &[usize]) -> bool {
        let mut attributes = self.attributes(columns).into_iter();
        attributes.any(|attribute| self.grid.is_stored(attribute))
    }

    fn block_bytes(&self, block: u64, options: &ReadOptions) -> Result<u64> {
        self.grid.stored_bytes(&self.chunk(block)?, options)
    }

    fn block_cost(&self, block: u64, options: &ReadOptions) -> Result<u64> {
        self.grid.chunk_cost(&self.chunk(block)?, options)
    }

    fn slice(&self) -> Option<String> {
        let axes = self.grid.axes().iter().zip(self.selection.axes());
        let axes: Vec<_> = axes
            .map(|(axis, set)| format!("{}: {set}", axis.name()))
            .collect();
        Some(format!("[{}]", axes.join(", ")))
    }

    fn column_statistics(&self, column: usize, options: &ReadOptions) -> Result<ColumnStatistics> {
        let mut statistics = ColumnStatistics::new_unknown();
        let Some(axis) = self.grid.axes().get(column) else {
            let attribute = column - self.grid.axes().len();
            if let Some(known) = self.attribute_statistics(attribute, options)? {
                statistics = known;
            }
            if !self.grid.may_have_nulls(attribute, options) {
                statistics.null_count = Precision::Exact(0);
            }
            return Ok(statistics);
        };
        statistics.null_count = Precision::Exact(0);
        if axis.length() > MAX_READ && !axis.is_loaded() {
            return Ok(statistics);
        }
        let selected = &self.selection.axes()[column];
        if !self.selection.is_empty()
            && let Some((min, max)) = axis_range(axis, selected)?
        {
            statistics.min_value = Precision::Exact(min);
            statistics.max_value = Precision::Exact(max);
        }
        if axis.monotonicity()? != Monotonicity::None
            && let Ok(count) = usize::try_from(selected.count())
        {
            statistics.distinct_count = if self.selection.is_empty() {
                Precision::Exact(0)
            } else {
                Precision::Exact(count)
            };
        }
        Ok(statistics)
    }

    fn availability(&self, column: usize, options: &ReadOptions) -> Availability {
        match column.checked_sub(self.grid.axes().len()) {
            None => Availability {
                is_known: true,
                unusable: None,
            },
            Some(attribute) if self.is_worth_reading() => {
                self.grid.availability(attribute, options)
            }
            Some(_) => Availability::default(),
        }
    }

    fn statistics(
        &self,
        columns: &[usize],
        blocks: &[u64],
        options: &ReadOptions,
    ) -> Result<BlockStatistics> {
        let mut rows = Vec::with_capacity(blocks.len());
        match self.walk() {
            Some(walk) => walk.visit(blocks, |step| rows.push(step.cells)),
            None => rows.extend(self.windows(blocks)?.iter().map(Window::cells)),
        }
        let columns =
            columns
                .iter()
                .map(|column| match column.checked_sub(self.grid.axes().len()) {
                    None => self.axis_statistics(*column, blocks),
                    Some(attribute) if self.is_known(attribute, options) => {
                        self.chunk_statistics(attribute, blocks, options)
                    }
                    Some(_) => Ok(None),
                });
        Ok(BlockStatistics {
            columns: columns.collect::<Result<_>>()?,
            rows: rows.into(),
        })
    }

    fn contained(
        &self,
        column: usize,
        blocks: &[u64],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        if let Some(attribute) = column.checked_sub(self.grid.axes().len()) {
            if !self.is_known(attribute, options) {
                return Ok(None);
            }
            let windows = self.windows(blocks)?;
            return self.grid.contained(attribute, &windows, values, options);
        }
        let values = values.iter().filter(|value| !value.is_null()).cloned();
        let Ok(values) = ScalarValue::iter_to_array(values) else {
            return Ok(None);
        };
        let axis = &self.grid.axes()[column];
        let Some(search) = AxisSearch::new(axis, &values)? else {
            return Ok(None);
        };
        // Many blocks share a chunk index along the axis, so search once per rank.
        let ranks = self.ranks(column, blocks);
        let mut by_rank: HashMap<u64, Option<bool>> = HashMap::new();
        for rank in ranks.values() {
            if let Entry::Vacant(vacant) = by_rank.entry(*rank)
                && let Some(chunk) = self.chunks.axes()[column].nth(*rank)
            {
                vacant.insert(search.contained(axis, &self.in_chunk(column, chunk))?);
            }
        }
        let answers = ranks
            .values()
            .iter()
            .map(|rank| by_rank.get(rank).copied().flatten());
        Ok(Some(answers.collect()))
    }

    fn ordering(&self) -> Vec<(usize, bool)> {
        // Rows are read chunk by chunk. Ahead of the last axis with more than one chunk, an axis
        // with several selected indices per chunk starts over in every chunk, which ends the
        // ordering.
        let last_cut = self
            .chunks
            .axes()
            .iter()
            .rposition(|chunks| chunks.count() > 1)
            .unwrap_or(0);
        let mut ordering = Vec::new();
        for (number, axis) in self.grid.axes().iter().enumerate() {
            let one_per_chunk =
                self.chunks.axes()[number].count() == self.selection.axes()[number].count();
            if number < last_cut && !one_per_chunk {
                break;
            }
            match axis.monotonicity() {
                Ok(Monotonicity::Ascending) => ordering.push((number, false)),
                Ok(Monotonicity::Descending) => ordering.push((number, true)),
                Ok(Monotonicity::None) | Err(_) => break,
            }
        }
        ordering
    }

    fn grid_selections(&self) -> Option<Vec<GridSelection>> {
        Some(vec![GridSelection {
            grid: Arc::clone(&self.grid),
            selection: self.selection.clone(),
            kept: None,
            file: None,
        }])
    }

    fn fetch(&self, block: u64, columns: &[usize], options: &ReadOptions) -> Option<Fetch> {
        let attributes = self.attributes(columns);
        let window = self.window(block).ok().filter(|_| !attributes.is_empty())?;
        self.grid.fetch(&window, &attributes, options)
    }

    fn reader(
        &self,
        columns: &[usize],
        max_rows: usize,
        options: &ReadOptions,
    ) -> Result<Box<dyn BlockReader>> {
        Ok(Box::new(GridReader::try_new(
            self, columns, max_rows, options,
        )?))
    }
}

/// Returns the total of sums of integers; `None` if one is unknown, or if they are not integers.
fn total_of(sums: &ArrayRef) -> Option<i128> {
    if sums.null_count() > 0 {
        return None;
    }
    fn total<T: ArrowPrimitiveType<Native: Into<i128>>>(sums: &ArrayRef) -> i128 {
        let sums = sums.as_primitive::<T>().values();
        sums.iter().map(|sum| (*sum).into()).sum()
    }
    match sums.data_type() {
        DataType::Int64 => Some(total::<Int64Type>(sums)),
        DataType::UInt64 => Some(total::<UInt64Type>(sums)),
        _ => None,
    }
}
