//! The numbers of an axis set that match each row of the build side, as runs.

use std::ops::Range;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

/// For each row of the build side, ascending and disjoint runs of numbers of an
/// [`AxisSet`](super::AxisSet) or of an axis.
///
/// ```text
/// row 0: numbers 3, 4, 5 and 9      offsets   0    2  2    3
/// row 1: none                       runs      3..6  9..10  0..7
/// row 2: numbers 0 to 6
/// ```
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct Runs {
    offsets: Vec<usize>,
    runs: Vec<Run>,
    /// Accounts for the memory of `offsets` and `runs`.
    memory: MemoryReservation,
}

/// The numbers from `start` to `end`, without `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::provider::join::lookup) struct Run {
    pub start: u32,
    pub end: u32,
}

impl Run {
    /// Returns the number of numbers in the run.
    pub fn length(self) -> u64 {
        u64::from(self.end) - u64::from(self.start)
    }
}

impl Runs {
    /// Creates the runs of zero rows. `rows` is the number of rows that will be added. The memory is
    /// accounted for like that of `memory`.
    pub fn new(rows: usize, memory: &MemoryReservation) -> Result<Self> {
        let memory = memory.new_empty();
        memory.try_grow((rows + 1) * size_of::<usize>())?;
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Ok(Self {
            offsets,
            runs: Vec::new(),
            memory,
        })
    }

    /// Creates other runs of zero rows, whose memory is accounted for in the same way.
    pub fn another(&self, rows: usize) -> Result<Self> {
        Self::new(rows, &self.memory)
    }

    /// Returns a copy of the runs of some rows.
    pub fn slice(&self, rows: Range<usize>) -> Result<Self> {
        let mut slice = self.another(rows.len())?;
        for row in rows {
            slice.copy_row(self.of(row))?;
        }
        Ok(slice)
    }

    /// Adds the runs of further rows.
    pub fn append(&mut self, others: &Self) -> Result<()> {
        (0..others.rows()).try_for_each(|row| self.copy_row(others.of(row)))
    }

    fn copy_row(&mut self, runs: &[Run]) -> Result<()> {
        for run in runs {
            self.push(run.start..run.end)?;
        }
        self.end_row();
        Ok(())
    }

    /// Adds numbers to the runs of the next row. They must be above those that the row already has.
    pub fn push(&mut self, run: Range<u32>) -> Result<()> {
        if run.is_empty() {
            return Ok(());
        }
        let start = self.offsets.last().copied().unwrap_or(0);
        if let [.., last] = &mut self.runs[start..]
            && last.end == run.start
        {
            last.end = run.end;
            return Ok(());
        }
        if self.runs.len() == self.runs.capacity() {
            let more = self.runs.len().max(64);
            self.memory.try_grow(more * size_of::<Run>())?;
            self.runs.reserve_exact(more);
        }
        self.runs.push(Run {
            start: run.start,
            end: run.end,
        });
        Ok(())
    }

    /// Ends the runs of the next row.
    pub fn end_row(&mut self) {
        self.offsets.push(self.runs.len());
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the runs of a row.
    pub fn of(&self, row: usize) -> &[Run] {
        &self.runs[self.offsets[row]..self.offsets[row + 1]]
    }

    /// Returns the number of numbers that match a row.
    pub fn count(&self, row: usize) -> u64 {
        self.of(row).iter().map(|run| run.length()).sum()
    }

    /// Returns the runs of a row within a range of numbers.
    pub fn within(&self, row: usize, range: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        let runs = self.of(row);
        let first = match runs {
            [_] => 0,
            runs => runs.partition_point(|run| run.end <= range.start),
        };
        let runs = runs[first..].iter();
        let runs = runs.map(move |run| run.start.max(range.start)..run.end.min(range.end));
        runs.take_while(|run| !run.is_empty())
    }
}
