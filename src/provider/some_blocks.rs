//! Some of the blocks of a list.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use arrow::array::{BooleanArray, UInt64Array};
use datafusion::common::{ColumnStatistics, Result, ScalarValue, internal_err};

use crate::grid::IndexSet;
use crate::provider::options::ReadOptions;
use crate::provider::source::{
    BlockList, BlockReader, BlockStatistics, GridPart, Progress, ReadCounts,
};

/// The blocks at some positions of another list.
#[derive(Debug)]
pub(super) struct SomeBlocks {
    all: Arc<dyn BlockList>,
    kept: IndexSet,
    /// Counted when they are first asked for.
    rows: OnceLock<Option<u64>>,
}

impl SomeBlocks {
    /// The blocks of `all` at the positions `kept`.
    pub fn new(all: Arc<dyn BlockList>, kept: IndexSet) -> Self {
        Self {
            all,
            kept,
            rows: OnceLock::new(),
        }
    }

    fn position(&self, position: u64) -> Result<u64> {
        match self.kept.nth(position) {
            Some(position) => Ok(position),
            None => internal_err!("block {position} of {} was asked for", self.kept.count()),
        }
    }

    fn positions(&self, positions: &[u64]) -> Result<Vec<u64>> {
        let positions = positions.iter();
        positions.map(|position| self.position(*position)).collect()
    }
}

impl BlockList for SomeBlocks {
    fn total(&self) -> Option<u64> {
        self.all.total()
    }

    fn count(&self) -> Option<u64> {
        Some(self.kept.count())
    }

    fn rows(&self) -> Option<u64> {
        *self.rows.get_or_init(|| {
            let mut positions = self.kept.ranges().flatten();
            positions.try_fold(0u64, |rows, position| {
                rows.checked_add(self.all.block_rows(position).ok()?)
            })
        })
    }

    fn block_rows(&self, position: u64) -> Result<u64> {
        self.all.block_rows(self.position(position)?)
    }

    fn block_sizes(&self, positions: &[u64]) -> Result<Option<UInt64Array>> {
        self.all.block_sizes(&self.positions(positions)?)
    }

    fn block_bytes(&self, position: u64, options: &ReadOptions) -> Result<u64> {
        self.all.block_bytes(self.position(position)?, options)
    }

    fn slice(&self) -> Option<String> {
        self.all.slice()
    }

    fn column_statistics(&self, column: usize, options: &ReadOptions) -> Result<ColumnStatistics> {
        // What holds of all blocks bounds what holds of some.
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
        // Leaving blocks out leaves the others in order.
        self.all.ordering()
    }

    fn grid_parts(&self) -> Option<Vec<GridPart>> {
        let mut parts = self.all.grid_parts()?;
        let mut start = 0u64;
        for part in &mut parts {
            if part.kept.is_some() {
                return None;
            }
            let count = part.selection.chunks(part.grid.chunk_grid()).count()?;
            let end = start.checked_add(count)?;
            part.kept = Some(self.kept.within(start..end));
            start = end;
        }
        Some(parts)
    }

    fn reader(&self, columns: &[usize], options: &ReadOptions) -> Result<Box<dyn BlockReader>> {
        Ok(Box::new(SomeReader {
            kept: self.kept.clone(),
            reader: self.all.reader(columns, options)?,
        }))
    }
}

/// Reads the blocks at some positions of a list.
struct SomeReader {
    kept: IndexSet,
    reader: Box<dyn BlockReader>,
}

impl BlockReader for SomeReader {
    fn open(&mut self, position: u64) -> Result<()> {
        match self.kept.nth(position) {
            Some(position) => self.reader.open(position),
            None => internal_err!("block {position} of {} was asked for", self.kept.count()),
        }
    }

    fn next(&mut self, max_rows: usize) -> Result<Progress> {
        self.reader.next(max_rows)
    }

    fn counts(&self) -> ReadCounts {
        self.reader.counts()
    }
}
