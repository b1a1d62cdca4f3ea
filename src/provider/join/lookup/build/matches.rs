//! The rows of the build side that match each key index.

use arrow::array::UInt32Array;
use arrow::buffer::BooleanBuffer;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::provider::join::lookup::conditions::run_matches::{Line, RowLists, RunMatches};
use crate::provider::join::lookup::keys::NO_KEY;

/// The number of key indices up to which the rows are always in a table over all key indices.
const DENSE: usize = 1 << 20;
/// Above [`DENSE`], the maximum number of key indices per row for such a table. For more, rows are
/// found by binary search.
const SPARSE: usize = 16;
/// The maximum number of pairs of key indices and rows in a table made of runs.
const MAX_LISTED_PAIRS: u64 = 1 << 24;
/// The row number of a key index without a row.
pub(in crate::provider::join::lookup) const NO_ROW: u32 = u32::MAX;

/// The row numbers of each key index.
#[derive(Debug)]
pub(in crate::provider::join::lookup) enum Matches {
    /// At most one row per key index. Key indices without a row have [`NO_ROW`].
    One(Vec<u32>),
    /// The rows of key index `k` are `rows[offsets[k]..offsets[k + 1]]`.
    Many { offsets: Vec<u32>, rows: Vec<u32> },
    /// Few rows for many key indices: the key indices of the rows, ascending, and the row numbers
    /// in the same order.
    Sparse { keys: Vec<u32>, rows: Vec<u32> },
    /// Runs of key indices for each row.
    Runs(RunMatches),
    /// The row number of a key index is the key index itself, if its bit is set.
    Cells(BooleanBuffer),
}

impl Matches {
    pub fn bytes(&self) -> usize {
        let (some, others) = match self {
            Self::One(rows) => (rows.len(), 0),
            Self::Many { offsets, rows } => (offsets.len(), rows.len()),
            Self::Sparse { keys, rows } => (keys.len(), rows.len()),
            // Runs account for their memory themselves.
            Self::Runs(_) | Self::Cells(_) => (0, 0),
        };
        (some + others) * size_of::<u32>()
    }

    /// Returns the matches in a table over all key indices if there are few, else the runs.
    pub fn of_runs(runs: RunMatches, count: u32, memory: &MemoryReservation) -> Self {
        let pairs = runs.pairs();
        let bytes = (u64::from(count) + 1 + pairs) as usize * size_of::<u32>();
        if count as usize > DENSE || pairs > MAX_LISTED_PAIRS || memory.try_grow(bytes).is_err() {
            return Self::Runs(runs);
        }
        let RowLists { offsets, rows } = runs.lists(count);
        if offsets.windows(2).any(|ends| ends[1] - ends[0] > 1) {
            return Self::Many { offsets, rows };
        }
        let one = offsets.windows(2);
        let one = one.map(|ends| rows[ends[0] as usize..ends[1] as usize].first());
        Self::One(one.map(|row| row.copied().unwrap_or(NO_ROW)).collect())
    }

    /// Groups row numbers by key index. `indices` has the key index of each row, and `count` is the
    /// number of key indices.
    pub fn new(indices: &[u32], count: usize) -> Self {
        if count > DENSE && count / SPARSE > indices.len() {
            let rows = 0..indices.len() as u32;
            let mut rows: Vec<u32> = rows
                .filter(|row| indices[*row as usize] != NO_KEY)
                .collect();
            rows.sort_by_key(|row| indices[*row as usize]);
            let keys = rows.iter().map(|row| indices[*row as usize]).collect();
            return Self::Sparse { keys, rows };
        }
        let mut rows = vec![NO_ROW; count];
        let mut is_unique = true;
        for (row, index) in indices.iter().enumerate() {
            if *index == NO_KEY {
                continue;
            }
            let known = &mut rows[*index as usize];
            if *known != NO_ROW {
                is_unique = false;
                break;
            }
            *known = row as u32;
        }
        if is_unique {
            return Self::One(rows);
        }
        drop(rows);
        let mut offsets = vec![0; count + 1];
        for index in indices.iter().filter(|index| **index != NO_KEY) {
            offsets[*index as usize + 1] += 1;
        }
        for key in 0..count {
            offsets[key + 1] += offsets[key];
        }
        let mut next = offsets.clone();
        let mut rows = vec![0; offsets[count] as usize];
        for (row, index) in indices.iter().enumerate() {
            if *index != NO_KEY {
                let end = &mut next[*index as usize];
                rows[*end as usize] = row as u32;
                *end += 1;
            }
        }
        Self::Many { offsets, rows }
    }

    /// Returns the row number of each of `keys`, which are key indices, and `true` if all of them
    /// have a row. Key indices without a row have [`NO_ROW`]. Returns `None` if [`Self::rows_of`]
    /// has to be used instead: key indices may have several rows, or there is no table.
    pub fn only_rows(&self, keys: &UInt32Array) -> Option<(Vec<u32>, bool)> {
        let rows = match self {
            Matches::One(rows) => rows,
            Matches::Cells(present) => {
                let mut have_all = true;
                let keys = keys.values().iter();
                let rows = keys.map(|key| match present.value(*key as usize) {
                    true => *key,
                    false => {
                        have_all = false;
                        NO_ROW
                    }
                });
                return Some((rows.collect(), have_all));
            }
            _ => return None,
        };
        let found: Vec<u32> = keys
            .values()
            .iter()
            .map(|key| rows[*key as usize])
            .collect();
        let have_all = !found.contains(&NO_ROW);
        Some((found, have_all))
    }

    /// Returns the row numbers of a key index. `line` caches what previous calls by the same reader
    /// have found.
    pub fn rows_of<'a>(&'a self, key: u32, line: &'a mut Line) -> &'a [u32] {
        match self {
            Matches::Runs(runs) => runs.rows_of(key, line),
            Matches::Cells(present) => {
                line.cell = key;
                let row = std::slice::from_ref(&line.cell);
                if present.value(key as usize) {
                    row
                } else {
                    &[]
                }
            }
            Matches::One(rows) => {
                let row = &rows[key as usize..=key as usize];
                if row[0] == NO_ROW { &[] } else { row }
            }
            Matches::Many { offsets, rows } => {
                &rows[offsets[key as usize] as usize..offsets[key as usize + 1] as usize]
            }
            Matches::Sparse { keys, rows } => {
                let start = keys.partition_point(|other| *other < key);
                let count = keys[start..].partition_point(|other| *other == key);
                &rows[start..start + count]
            }
        }
    }
}

/// Returns one bit per row number, which is set unless the row number is [`NO_ROW`].
pub(in crate::provider::join::lookup) fn is_row(rows: &[u32]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(rows.len(), |row| rows[row] != NO_ROW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_key_index() {
        let one = Matches::new(&[2, NO_KEY, 0], 4);
        assert!(matches!(&one, Matches::One(rows) if rows == &[2, NO_ROW, 0, NO_ROW]));
        let many = Matches::new(&[2, 0, NO_KEY, 2], 4);
        assert!(
            matches!(&many, Matches::Many { offsets, rows } if offsets == &[0, 1, 1, 3, 3] && rows == &[1, 0, 3])
        );
    }
}
