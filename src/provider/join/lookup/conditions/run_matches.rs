//! Finds the matches of key indices among the runs of the build side's rows.

use std::ops::Range;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::provider::join::lookup::conditions::Conditions;
use crate::provider::join::lookup::conditions::run_index::RunIndex;
use crate::provider::join::lookup::conditions::runs::Runs;

/// The maximum number of consecutive numbers of the last set whose matches are listed together.
const MAX_SEGMENT: usize = 128;
/// The number of pairs above which such a list covers fewer numbers.
const MANY_PAIRS: usize = 1 << 20;
/// The average number of matches per row up to which the first set has an index of its rows.
const MAX_INDEXED: u64 = 16;

/// The runs of all rows of the build side in every set of axes. A row matches a key index if it
/// matches the number of the key index in each set.
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct RunMatches {
    sets: Vec<SetRuns>,
    /// The number of rows.
    rows: usize,
    /// The rows of each number of the first set; `None` if there are too many.
    first: Option<RowLists>,
    /// The index of the runs, if there is one set and matches are read as runs.
    index: Option<RunIndex>,
    /// Accounts for the memory of `first`, `index` and of a [`Line`] per partition.
    memory: MemoryReservation,
}

#[derive(Debug)]
struct SetRuns {
    runs: Runs,
    /// See [`AxisSet`](super::AxisSet).
    count: u32,
    stride: u32,
}

/// Lists of row numbers: list `n` is `rows[offsets[n]..offsets[n + 1]]`.
#[derive(Debug, Default)]
pub(in crate::provider::join::lookup) struct RowLists {
    pub offsets: Vec<u32>,
    pub rows: Vec<u32>,
}

/// The rows found for the previous key index of one reader. Consecutive key indices usually share
/// most of them.
#[derive(Debug, Default)]
pub(in crate::provider::join::lookup) struct Line {
    /// For each axis set but the last, the previous number in that set, and the rows that match the
    /// previous numbers of this set and of all sets before it.
    outer: Vec<(u32, Vec<u32>)>,
    /// The numbers of the last set whose matches are in `lists`.
    segment: Range<u32>,
    lists: RowLists,
    /// The row of a key index that is its own row number.
    pub cell: u32,
}

impl RowLists {
    /// Lists the rows of each number in `numbers`, which is a range of numbers of a set.
    fn update(
        &mut self,
        runs: &Runs,
        rows: impl DoubleEndedIterator<Item = u32> + Clone,
        numbers: Range<u32>,
    ) {
        let index = |number: u32| (number - numbers.start) as usize;
        self.offsets.clear();
        self.offsets.resize(numbers.len() + 1, 0);
        for row in rows.clone() {
            for run in runs.within(row as usize, numbers.clone()) {
                for count in &mut self.offsets[index(run.start)..index(run.end)] {
                    *count += 1;
                }
            }
        }
        // Each count becomes the end of its list.
        let mut end = 0;
        for count in &mut self.offsets {
            end += *count;
            *count = end;
        }
        self.rows.clear();
        self.rows.resize(end as usize, 0);
        // Each list is filled backwards, which turns its end offset into its start.
        for row in rows.rev() {
            for run in runs.within(row as usize, numbers.clone()) {
                for end in &mut self.offsets[index(run.start)..index(run.end)] {
                    *end -= 1;
                    self.rows[*end as usize] = row;
                }
            }
        }
    }

    /// Returns the list with this number.
    pub fn list(&self, number: usize) -> &[u32] {
        &self.rows[self.offsets[number] as usize..self.offsets[number + 1] as usize]
    }
}

impl RunMatches {
    /// Creates the matches of rows from their runs in the axis sets of `conditions`.
    /// `partitions` is the number of readers.
    ///
    /// # Errors
    /// Returns an error if the memory pool has no space.
    pub fn try_new(
        conditions: &Conditions,
        solved: Vec<Runs>,
        rows: usize,
        partitions: usize,
        memory: &MemoryReservation,
    ) -> Result<Self> {
        let memory = memory.new_empty();
        let sets = conditions
            .sets
            .iter()
            .zip(solved)
            .map(|(set, runs)| SetRuns {
                runs,
                count: set.count,
                stride: set.stride,
            });
        let sets: Vec<_> = sets.collect();
        let of_lists = MANY_PAIRS.min(rows * MAX_SEGMENT) + MAX_SEGMENT + rows;
        let of_line = rows * (sets.len() - 1) + of_lists;
        memory.try_grow(partitions * of_line * size_of::<u32>())?;
        let mut first = None;
        if let [set, _, ..] = sets.as_slice() {
            let pairs =
                (0..rows).fold(0u64, |pairs, row| pairs.saturating_add(set.runs.count(row)));
            let length = pairs.saturating_add(2 * u64::from(set.count));
            let is_small = pairs <= MAX_INDEXED * rows as u64 && pairs < u64::from(u32::MAX);
            if is_small && memory.try_grow(length as usize * size_of::<u32>()).is_ok() {
                let mut lists = RowLists::default();
                lists.update(&set.runs, 0..rows as u32, 0..set.count);
                first = Some(lists);
            }
        }
        Ok(Self {
            sets,
            rows,
            first,
            index: None,
            memory,
        })
    }

    /// Builds an index for [`Self::runs_in`], if there is one set and enough memory.
    pub fn with_index(mut self) -> Self {
        if let [set] = self.sets.as_slice() {
            self.index = RunIndex::of(&set.runs, set.count, &self.memory);
        }
        self
    }

    /// Returns the number of pairs of a key index and a row that matches it; saturates.
    pub fn pairs(&self) -> u64 {
        let of_row = |row: usize| {
            let counts = self.sets.iter().map(|set| set.runs.count(row));
            counts.fold(1, u64::saturating_mul)
        };
        (0..self.rows).map(of_row).fold(0, u64::saturating_add)
    }

    /// Returns the rows of each of `count` key indices.
    pub fn lists(&self, count: u32) -> RowLists {
        let mut lists = RowLists::default();
        if let [set] = self.sets.as_slice() {
            lists.update(&set.runs, 0..self.rows as u32, 0..count);
            return lists;
        }
        let mut line = Line::default();
        lists.offsets.push(0);
        for key in 0..count {
            lists.rows.extend_from_slice(self.rows_of(key, &mut line));
            lists.offsets.push(lists.rows.len() as u32);
        }
        lists
    }

    /// Returns the rows that match a key index, ascending.
    pub fn rows_of<'a>(&'a self, key: u32, line: &'a mut Line) -> &'a [u32] {
        let Some((last, outer)) = self.sets.split_last() else {
            return &[];
        };
        let is_same = self.update_outer(outer, key, line);
        let number = key / last.stride % last.count;
        if !(is_same && line.segment.contains(&number)) {
            let rows = line.outer.last().map(|(_, rows)| rows);
            let count = rows.map_or(self.rows, Vec::len);
            let length = (MANY_PAIRS / count.max(1)).clamp(1, MAX_SEGMENT) as u32;
            let start = number / length * length;
            line.segment = start..start.saturating_add(length).min(last.count);
            let segment = line.segment.clone();
            match rows {
                Some(rows) => {
                    let rows = rows.iter().copied();
                    line.lists.update(&last.runs, rows, segment);
                }
                None => line.lists.update(&last.runs, 0..self.rows as u32, segment),
            }
        }
        line.lists.list((number - line.segment.start) as usize)
    }

    /// Calls `found` for each run of key indices within `keys` that a row matches, with the row number and the run.
    pub fn runs_in(
        &self,
        keys: Range<u32>,
        line: &mut Line,
        mut found: impl FnMut(u32, Range<u32>),
    ) {
        if let Some(index) = &self.index {
            return index.runs_in(keys, found);
        }
        let Some((last, outer)) = self.sets.split_last() else {
            return;
        };
        // The numbers of the last set vary fastest, so that its stride is one.
        let mut key = keys.start;
        while key < keys.end {
            let number = key % last.count;
            let end = keys.end.min(key - number + last.count);
            self.update_outer(outer, key, line);
            let mut find = |row: u32| {
                for run in last.runs.within(row as usize, number..number + (end - key)) {
                    found(row, key + (run.start - number)..key + (run.end - number));
                }
            };
            match line.outer.last() {
                Some((_, rows)) => rows.iter().copied().for_each(find),
                None => (0..self.rows as u32).for_each(&mut find),
            }
            key = end;
        }
    }

    /// Finds the rows that match the numbers of a key index in these sets, which are all but the last. Returns `true` if
    /// the numbers are those of the previous key index.
    fn update_outer(&self, sets: &[SetRuns], key: u32, line: &mut Line) -> bool {
        let mut is_same = line.outer.len() == sets.len();
        line.outer.resize_with(sets.len(), Default::default);
        for (level, set) in sets.iter().enumerate() {
            let number = key / set.stride % set.count;
            let (before, rest) = line.outer.split_at_mut(level);
            let (known, rows) = &mut rest[0];
            if is_same && *known == number {
                continue;
            }
            is_same = false;
            *known = number;
            rows.clear();
            match (before.last(), &self.first) {
                (Some((_, candidates)), _) => {
                    let candidates = candidates.iter().copied();
                    rows.extend(candidates.filter(|row| set.matches(*row, number)));
                }
                (None, Some(first)) => rows.extend(first.list(number as usize)),
                (None, None) => {
                    let candidates = 0..self.rows as u32;
                    rows.extend(candidates.filter(|row| set.matches(*row, number)));
                }
            }
        }
        is_same
    }
}

impl SetRuns {
    fn matches(&self, row: u32, number: u32) -> bool {
        let mut found = self.runs.within(row as usize, number..number + 1);
        found.next().is_some()
    }
}
