//! Subsets and reorderings of a list of blocks.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use arrow::array::{BooleanArray, UInt64Array};
use datafusion::common::{ColumnStatistics, Result, ScalarValue, internal_err};

use crate::grid::IndexSet;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::pruning::segments;
use crate::provider::source::{
    BlockList, BlockReader, BlockStatistics, GridSelection, Progress, ReadCounts,
};

/// Ordinals of the blocks that are kept from another list.
#[derive(Debug, Clone)]
pub(crate) enum BlockOrdinals {
    /// In ascending order.
    Ascending(IndexSet),
    /// In any order, each ordinal at most once.
    Ordered(Arc<[u64]>),
}

impl BlockOrdinals {
    fn count(&self) -> u64 {
        match self {
            Self::Ascending(set) => set.count(),
            Self::Ordered(positions) => positions.len() as u64,
        }
    }

    fn nth(&self, nth: u64) -> Result<u64> {
        let found = match self {
            Self::Ascending(set) => set.nth(nth),
            Self::Ordered(positions) => positions.get(nth as usize).copied(),
        };
        match found {
            Some(position) => Ok(position),
            None => internal_err!("block {nth} of {} was asked for", self.count()),
        }
    }
}

/// A subset of another list of blocks, possibly in a different order.
#[derive(Debug)]
pub(crate) struct BlockSubset {
    all: Arc<dyn BlockList>,
    kept: BlockOrdinals,
    /// The number of selected rows, computed on first use.
    rows: OnceLock<Option<u64>>,
}

impl BlockSubset {
    /// Creates the list of the blocks `kept` of `all`.
    pub fn new(all: Arc<dyn BlockList>, kept: BlockOrdinals) -> Self {
        Self {
            all,
            kept,
            rows: OnceLock::new(),
        }
    }

    fn positions(&self, positions: &[u64]) -> Result<Vec<u64>> {
        // A run of consecutive ordinals is resolved at once, which is faster than one by one.
        if let (BlockOrdinals::Ascending(set), [first, .., last]) = (&self.kept, positions)
            && positions.windows(2).all(|two| two[0] + 1 == two[1])
            && *last < set.count()
        {
            return Ok(set.ranges_of_ranks(*first..last + 1).flatten().collect());
        }
        let positions = positions.iter();
        positions.map(|position| self.kept.nth(*position)).collect()
    }
}

impl BlockList for BlockSubset {
    fn total(&self) -> Option<u64> {
        self.all.total()
    }

    fn count(&self) -> Option<u64> {
        Some(self.kept.count())
    }

    fn rows(&self) -> Option<u64> {
        *self.rows.get_or_init(|| {
            segments(self.kept.count()).try_fold(0u64, |rows, segment| {
                rows.checked_add(self.rows_of(&segment).ok()??)
            })
        })
    }

    fn block_rows(&self, position: u64) -> Result<u64> {
        self.all.block_rows(self.kept.nth(position)?)
    }

    fn rows_of(&self, positions: &[u64]) -> Result<Option<u64>> {
        self.all.rows_of(&self.positions(positions)?)
    }

    fn block_sizes(&self, positions: &[u64]) -> Result<Option<UInt64Array>> {
        self.all.block_sizes(&self.positions(positions)?)
    }

    fn block_bytes(&self, position: u64, options: &ReadOptions) -> Result<u64> {
        self.all.block_bytes(self.kept.nth(position)?, options)
    }

    fn slice(&self) -> Option<String> {
        self.all.slice()
    }

    fn column_statistics(&self, column: usize, options: &ReadOptions) -> Result<ColumnStatistics> {
        // Bounds of all blocks are bounds of a subset, but no longer exact.
        Ok(self.all.column_statistics(column, options)?.to_inexact())
    }

    fn unusable_statistics(&self, options: &ReadOptions) -> Option<String> {
        self.all.unusable_statistics(options)
    }

    fn has_statistics(&self, column: usize, options: &ReadOptions) -> bool {
        self.all.has_statistics(column, options)
    }

    fn block_statistics(
        &self,
        column: usize,
        positions: &[u64],
        options: &ReadOptions,
    ) -> Result<Option<BlockStatistics>> {
        let positions = self.positions(positions)?;
        self.all.block_statistics(column, &positions, options)
    }

    fn contained(
        &self,
        column: usize,
        positions: &[u64],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        let positions = self.positions(positions)?;
        self.all.contained(column, &positions, values, options)
    }

    fn ordering(&self) -> Vec<(usize, bool)> {
        match self.kept {
            // A subset keeps the order of the whole.
            BlockOrdinals::Ascending(_) => self.all.ordering(),
            BlockOrdinals::Ordered(_) => Vec::new(),
        }
    }

    fn grid_selections(&self) -> Option<Vec<GridSelection>> {
        let BlockOrdinals::Ascending(kept) = &self.kept else {
            return None;
        };
        let mut parts = self.all.grid_selections()?;
        let mut start = 0u64;
        for part in &mut parts {
            if part.kept.is_some() {
                return None;
            }
            let count = part.selection.chunks(part.grid.chunk_grid()).count()?;
            let end = start.checked_add(count)?;
            part.kept = Some(kept.within(start..end));
            start = end;
        }
        Some(parts)
    }

    fn reader(&self, columns: &[usize], options: &ReadOptions) -> Result<Box<dyn BlockReader>> {
        Ok(Box::new(BlockSubsetReader {
            kept: self.kept.clone(),
            reader: self.all.reader(columns, options)?,
        }))
    }
}

/// Reads the kept blocks of another list.
struct BlockSubsetReader {
    kept: BlockOrdinals,
    reader: Box<dyn BlockReader>,
}

impl BlockReader for BlockSubsetReader {
    fn open(&mut self, position: u64) -> Result<()> {
        self.reader.open(self.kept.nth(position)?)
    }

    fn next(&mut self, max_rows: usize) -> Result<Progress> {
        self.reader.next(max_rows)
    }

    fn counts(&self) -> ReadCounts {
        self.reader.counts()
    }
}
