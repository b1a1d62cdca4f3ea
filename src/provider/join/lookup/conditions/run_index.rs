//! Finds the runs of all rows of the build side that touch a range of numbers.

use std::ops::Range;

use datafusion::execution::memory_pool::MemoryReservation;

use crate::provider::join::lookup::conditions::runs::{Run, Runs};

/// The length of a block of numbers.
const BLOCK: u32 = 256;

/// The runs of all rows in an [`AxisSet`](super::AxisSet), listed for each block of [`BLOCK`] numbers that they touch.
#[derive(Debug)]
pub(super) struct RunIndex {
    /// The runs of block `b` are `runs[offsets[b]..offsets[b + 1]]`.
    offsets: Vec<usize>,
    /// Rows and their runs.
    runs: Vec<(u32, Run)>,
}

impl RunIndex {
    /// Creates the index of runs of numbers below `count`. Returns `None` if the memory pool has no space.
    pub fn of(runs: &Runs, count: u32, memory: &MemoryReservation) -> Option<Self> {
        let all =
            || (0..runs.rows()).flat_map(|row| runs.of(row).iter().map(move |run| (row, *run)));
        let mut offsets = vec![0; count.div_ceil(BLOCK) as usize + 1];
        for (_, run) in all() {
            for block in blocks(run.start..run.end) {
                offsets[block + 1] += 1;
            }
        }
        let mut start = 0;
        for offset in &mut offsets {
            start += *offset;
            *offset = start;
        }
        memory
            .try_grow(start * size_of::<(u32, Run)>() + 2 * offsets.len() * size_of::<usize>())
            .ok()?;
        let mut next = offsets.clone();
        let mut listed = vec![(0, Run { start: 0, end: 0 }); start];
        for (row, run) in all() {
            for block in blocks(run.start..run.end) {
                listed[next[block]] = (row as u32, run);
                next[block] += 1;
            }
        }
        Some(Self {
            offsets,
            runs: listed,
        })
    }

    /// Calls `found` with the row of each run that touches these numbers, and with the numbers that they have in common,
    /// block by block.
    pub fn runs_in(&self, numbers: Range<u32>, mut found: impl FnMut(u32, Range<u32>)) {
        for block in blocks(numbers.clone()) {
            let Some(&[first, end]) = self.offsets.get(block..block + 2) else {
                return;
            };
            let start = numbers.start.max(block as u32 * BLOCK);
            let stop = numbers
                .end
                .min((block as u32).saturating_add(1).saturating_mul(BLOCK));
            for (row, run) in &self.runs[first..end] {
                let common = run.start.max(start)..run.end.min(stop);
                if !common.is_empty() {
                    found(*row, common);
                }
            }
        }
    }
}

/// Returns the blocks that a range of numbers touches.
fn blocks(numbers: Range<u32>) -> Range<usize> {
    match numbers.is_empty() {
        true => 0..0,
        false => (numbers.start / BLOCK) as usize..((numbers.end - 1) / BLOCK) as usize + 1,
    }
}
