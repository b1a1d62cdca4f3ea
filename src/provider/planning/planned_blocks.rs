//! The blocks that a scan reads: some of the selected blocks, in some order.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use datafusion::common::{ColumnStatistics, Result, internal_err};

use crate::grid::IndexSet;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::{BlockList, GridSelection, RowCount};

/// The maximum number of blocks in a segment.
const SEGMENT: usize = 32 << 10;

/// The blocks of a list that a scan reads, in the order in which it reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlockOrder {
    /// All blocks, in their own order.
    All,
    /// Some blocks, in ascending order of their ordinals.
    Ascending(IndexSet),
    /// Some blocks in any order, each at most once.
    Listed(Arc<[u64]>),
}

/// The selected blocks of a table, and those among them that a scan reads. The scan reads one block
/// per *step*; steps are numbered from zero:
///
/// ```text
/// blocks of the list   0   1   2   3   4   5
/// pruned                   x   x       x
/// steps of the plan    0           1       2
/// ```
#[derive(Debug, Clone)]
pub(crate) struct PlannedBlocks {
    list: Arc<dyn BlockList>,
    order: BlockOrder,
    /// The number of selected rows, computed on first use.
    rows: Arc<OnceLock<RowCount>>,
}

impl PlannedBlocks {
    /// Plans to read these blocks of a list.
    pub fn new(list: Arc<dyn BlockList>, order: BlockOrder) -> Self {
        Self {
            list,
            order,
            rows: Arc::default(),
        }
    }

    /// Returns the selected blocks of the table.
    pub fn list(&self) -> &Arc<dyn BlockList> {
        &self.list
    }

    /// Returns the blocks that are read, and their order.
    pub fn order(&self) -> &BlockOrder {
        &self.order
    }

    /// Keeps only the blocks of these steps.
    pub fn keep(&self, steps: &IndexSet) -> Result<Self> {
        let order = match &self.order {
            BlockOrder::All => BlockOrder::Ascending(steps.clone()),
            BlockOrder::Ascending(kept) => {
                let blocks = steps.ranges().flat_map(|steps| kept.ranges_of_ranks(steps));
                BlockOrder::Ascending(IndexSet::from_ranges(kept.length(), blocks))
            }
            BlockOrder::Listed(_) => self.list_blocks(steps.ranges().flatten())?,
        };
        Ok(Self::new(Arc::clone(&self.list), order))
    }

    /// Keeps only the blocks of these steps, in the given order.
    pub fn reorder(&self, steps: impl Iterator<Item = u64>) -> Result<Self> {
        let order = self.list_blocks(steps)?;
        Ok(Self::new(Arc::clone(&self.list), order))
    }

    fn list_blocks(&self, steps: impl Iterator<Item = u64>) -> Result<BlockOrder> {
        let blocks = steps.map(|step| self.block(step));
        Ok(BlockOrder::Listed(blocks.collect::<Result<_>>()?))
    }

    /// Returns the number of blocks that are read; `None` if 2^64 or more.
    pub fn count(&self) -> Option<u64> {
        match &self.order {
            BlockOrder::All => self.list.count(),
            BlockOrder::Ascending(kept) => Some(kept.count()),
            BlockOrder::Listed(blocks) => Some(blocks.len() as u64),
        }
    }

    /// Returns the block that is read in this step.
    pub fn block(&self, step: u64) -> Result<u64> {
        let block = match &self.order {
            BlockOrder::All => Some(step),
            BlockOrder::Ascending(kept) => kept.nth(step),
            BlockOrder::Listed(blocks) => blocks.get(step as usize).copied(),
        };
        match block {
            Some(block) => Ok(block),
            None => internal_err!(
                "step {step} is out of range: the scan reads {:?} blocks",
                self.count()
            ),
        }
    }

    /// Returns the blocks that are read in these steps.
    pub fn blocks(&self, steps: Range<u64>) -> Result<Vec<u64>> {
        match &self.order {
            BlockOrder::All => Ok(steps.collect()),
            BlockOrder::Ascending(kept) if steps.end <= kept.count() => {
                Ok(kept.ranges_of_ranks(steps).flatten().collect())
            }
            _ => steps.map(|step| self.block(step)).collect(),
        }
    }

    /// Returns the number of selected rows in the blocks that are read.
    pub fn rows(&self) -> RowCount {
        *self.rows.get_or_init(|| {
            let Some(count) = self.count().filter(|_| self.order != BlockOrder::All) else {
                return self.list.rows();
            };
            let mut rows = RowCount::Exact(0);
            for steps in segments(count) {
                let more = self
                    .blocks(steps)
                    .and_then(|blocks| self.list.rows_in(&blocks));
                rows = rows + more.unwrap_or(RowCount::Unknown);
                if rows == RowCount::Unknown {
                    break;
                }
            }
            rows
        })
    }

    /// Returns the number of selected rows in the block of this step.
    pub fn rows_at(&self, step: u64) -> Result<RowCount> {
        self.list.rows_in(&[self.block(step)?])
    }

    /// Returns the number of stored bytes of the block of this step.
    pub fn bytes_at(&self, step: u64, options: &ReadOptions) -> Result<u64> {
        self.list.block_bytes(self.block(step)?, options)
    }

    /// Returns the cost of reading the block of this step.
    pub fn cost_at(&self, step: u64, options: &ReadOptions) -> Result<u64> {
        self.list.block_cost(self.block(step)?, options)
    }

    /// Returns the statistics of a column over the selected rows of the blocks that are read.
    pub fn column_statistics(
        &self,
        column: usize,
        options: &ReadOptions,
    ) -> Result<ColumnStatistics> {
        let statistics = self.list.column_statistics(column, options)?;
        Ok(match self.order {
            BlockOrder::All => statistics,
            // Bounds of all blocks are bounds of some of them, but no longer exact.
            BlockOrder::Ascending(_) | BlockOrder::Listed(_) => statistics.to_inexact(),
        })
    }

    /// Returns the columns by which the rows are sorted, each with `true` if it is in descending
    /// order.
    pub fn ordering(&self) -> Vec<(usize, bool)> {
        match self.order {
            BlockOrder::All | BlockOrder::Ascending(_) => self.list.ordering(),
            BlockOrder::Listed(_) => Vec::new(),
        }
    }

    /// Returns the blocks as chunks of grids; `None` if the blocks are not chunks, or are not in
    /// the order of the grids.
    pub fn grid_selections(&self) -> Option<Vec<GridSelection>> {
        let mut grids = self.list.grid_selections()?;
        let kept = match &self.order {
            BlockOrder::All => return Some(grids),
            BlockOrder::Ascending(kept) => kept,
            BlockOrder::Listed(_) => return None,
        };
        let mut start = 0u64;
        for grid in &mut grids {
            let count = grid.selection.chunks(grid.grid.chunk_grid()).count()?;
            let end = start.checked_add(count)?;
            grid.kept = Some(kept.within(start..end));
            start = end;
        }
        Some(grids)
    }

    /// Returns the blocks as [`Self::grid_selections`] does, but as whole selections wherever the cells
    /// of the chunks that are read are a product. A task of a cluster reads such chunks of each grid.
    pub fn narrowed_selections(&self) -> Option<Vec<GridSelection>> {
        let mut grids = self.grid_selections()?;
        for grid in &mut grids {
            let kept = grid.kept.as_ref();
            let narrowed =
                kept.and_then(|kept| grid.selection.of_chunks(grid.grid.chunk_grid(), kept));
            if let Some(narrowed) = narrowed {
                grid.selection = narrowed;
                grid.kept = None;
            }
        }
        Some(grids)
    }
}

/// Splits the range `0..count` into ranges of at most [`SEGMENT`] ordinals.
pub(crate) fn segments(count: u64) -> impl Iterator<Item = Range<u64>> {
    (0..count)
        .step_by(SEGMENT)
        .map(move |start| start..count.min(start + SEGMENT as u64))
}
