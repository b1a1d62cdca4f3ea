//! Values of rows whose groups are evenly spaced.

use std::ops::Range;

/// The maximum number of values of a block.
const BLOCK: usize = 1 << 18;
/// The number of values that a block has memory for at first.
const FIRST_CAPACITY: usize = 4096;
/// The maximum number of values of a run, so that runs are short compared with the groups of a block.
const RUN: usize = 1024;
/// The maximum distance between the groups of two rows of a run.
pub(super) const MAX_STRIDE: usize = 32;

/// Values of rows whose groups are evenly spaced, in the order of the rows.
///
/// The cells along an axis that a query groups by are such rows: each has another group than the one before. To add each
/// value to those of its group would access memory in another place for each. Here, the values are appended, and
/// distributed among the groups when all are known, for a range of groups at a time.
#[derive(Debug, Default)]
pub(super) struct SpacedRows<N> {
    blocks: Vec<Block<N>>,
    /// The sum of the capacities of all blocks.
    capacity: usize,
}

#[derive(Debug, Default)]
struct Block<N> {
    values: Vec<N>,
    runs: Vec<Run>,
    /// The maximum distance between the first and the last group of a run.
    widest: usize,
}

/// Consecutive rows of a block.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The group of the first row.
    first: usize,
    /// The distance between the groups of two rows, which is positive.
    stride: u32,
    /// The index of the first value in the block.
    start: u32,
    count: u32,
}

impl<N: Copy + Default> SpacedRows<N> {
    /// Adds rows. `first` is the group of the first one, and `stride` the positive distance between the groups of two
    /// rows, at most [`MAX_STRIDE`].
    pub fn push(&mut self, first: usize, stride: usize, values: &[N]) {
        for (number, values) in values.chunks(RUN).enumerate() {
            let block = self.with_room_for(values.len());
            block.runs.push(Run {
                first: first + number * RUN * stride,
                stride: stride as u32,
                start: block.values.len() as u32,
                count: values.len() as u32,
            });
            block.widest = block.widest.max((values.len() - 1) * stride);
            block.values.extend_from_slice(values);
        }
    }

    /// Returns the last block, with memory for `count` more values.
    fn with_room_for(&mut self, count: usize) -> &mut Block<N> {
        let last = self.blocks.last().map(|block| block.values.len());
        if last.is_none_or(|length| length + count > BLOCK) {
            self.blocks.push(Block::default());
        }
        let last = self.blocks.len() - 1;
        let values = &mut self.blocks[last].values;
        let (length, before) = (values.len(), values.capacity());
        if length + count > before {
            values.reserve_exact(grown(before).max(length + count) - length);
            self.capacity += values.capacity() - before;
        }
        &mut self.blocks[last]
    }

    /// Adds the rows of another accumulator.
    pub fn append(&mut self, mut other: Self) {
        self.capacity += other.capacity;
        self.blocks.append(&mut other.blocks);
    }

    /// Returns the number of bytes, after the next growth.
    pub fn bytes(&self) -> usize {
        let Some(last) = self.blocks.last() else {
            return 0;
        };
        let runs = self.blocks.iter().map(|block| block.runs.capacity());
        let growth = match last.values.capacity() {
            BLOCK.. => FIRST_CAPACITY,
            capacity => grown(capacity) - capacity,
        };
        (self.capacity + growth) * size_of::<N>() + runs.sum::<usize>() * size_of::<Run>()
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Sorts the runs by their first groups, so that [`Self::runs_of`] finds them.
    pub fn sort(&mut self) {
        for block in &mut self.blocks {
            block.runs.sort_unstable_by_key(|run| run.first);
        }
    }

    /// Returns the number of rows of a range of groups. The runs must be sorted.
    pub fn count(&self, groups: Range<usize>) -> usize {
        let mut count = 0;
        self.runs_of(groups, |_, _, values| count += values.len());
        count
    }

    /// Calls `add` for each row of a range of groups, with the index of its group in the range and its value. The runs must be
    /// sorted.
    pub fn for_each_in(&self, groups: Range<usize>, mut add: impl FnMut(usize, N)) {
        self.runs_of(groups, |mut index, stride, values| {
            for value in values {
                add(index, *value);
                index += stride;
            }
        });
    }

    /// Calls `add` for the part of each run in a range of groups, with the index of its first group in the range, its stride
    /// and its values.
    fn runs_of(&self, groups: Range<usize>, mut add: impl FnMut(usize, usize, &[N])) {
        for block in &self.blocks {
            let from = groups.start.saturating_sub(block.widest);
            let from = block.runs.partition_point(|run| run.first < from);
            let runs = block.runs[from..].iter();
            for run in runs.take_while(|run| run.first < groups.end) {
                let (start, stride) = (run.start as usize, run.stride as usize);
                let before = |group: usize| {
                    let rows = group.saturating_sub(run.first).div_ceil(stride);
                    rows.min(run.count as usize)
                };
                let rows = before(groups.start)..before(groups.end);
                if !rows.is_empty() {
                    let first = run.first + rows.start * stride - groups.start;
                    let values = &block.values[start + rows.start..start + rows.end];
                    add(first, stride, values);
                }
            }
        }
    }

    /// Calls `add` with the group and the value of each row. Releases memory on the way.
    pub fn drain(&mut self, mut add: impl FnMut(usize, N)) {
        self.capacity = 0;
        for block in self.blocks.drain(..) {
            for run in block.runs {
                let values = block.values[run.start as usize..].iter();
                for (number, value) in values.take(run.count as usize).enumerate() {
                    add(run.first + number * run.stride as usize, *value);
                }
            }
        }
    }
}

/// Returns the capacity of a full block of this capacity after it grows.
fn grown(capacity: usize) -> usize {
    (2 * capacity).clamp(FIRST_CAPACITY, BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_groups() {
        let mut rows = SpacedRows::default();
        let mut expected: Vec<Vec<u32>> = vec![Vec::new(); 300_000];
        let runs = [
            (0, 1, 5000),
            (7, 3, 900),
            (0, 32, 1),
            (120, 2, 20_000),
            (3, 1, 290_000),
            (50, 32, 900),
        ];
        for (number, (first, stride, count)) in runs.into_iter().enumerate() {
            let values: Vec<u32> = (0..count).map(|value| value * 8 + number as u32).collect();
            rows.push(first, stride, &values);
            for (row, value) in values.into_iter().enumerate() {
                expected[first + row * stride].push(value);
            }
        }
        rows.sort();
        let values: usize = expected.iter().map(Vec::len).sum();
        assert_eq!(rows.count(0..expected.len()), values);
        assert!(rows.bytes() >= 4 * values && rows.bytes() < 8 * values);
        expected
            .iter_mut()
            .for_each(|values| values.sort_unstable());
        for length in [1, 33, 7000, 300_000] {
            let mut start = 0;
            for expected in expected.chunks(length).take(2000) {
                let mut found = vec![Vec::new(); expected.len()];
                rows.for_each_in(start..start + expected.len(), |index, value| {
                    found[index].push(value)
                });
                found.iter_mut().for_each(|values| values.sort_unstable());
                assert!(found == expected, "{start} {length}");
                start += length;
            }
        }
        let mut found = vec![Vec::new(); expected.len()];
        rows.drain(|group, value| found[group].push(value));
        found.iter_mut().for_each(|values| values.sort_unstable());
        assert!(found == expected);
        assert!(rows.is_empty() && rows.bytes() == 0);
    }
}
