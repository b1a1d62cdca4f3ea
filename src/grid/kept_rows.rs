//! The rows of a window that a filter keeps.

use std::ops::Range;

use arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use arrow::compute::take;
use arrow::error::ArrowError;
use arrow::util::bit_chunk_iterator::BitChunks;
use multiversion::multiversion;

use crate::grid::cells::Cells;
use crate::grid::coordinates::Coordinates;

/// Kept rows are read range by range if the ranges have at least this many rows on average.
const MIN_ROWS_PER_RANGE: usize = 8;
/// Rows are gathered one by one if fewer than one row in this many is kept.
const MIN_ROWS_PER_KEPT: usize = 8;

/// The pattern of the rows that a filter keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptPattern {
    /// In ranges of many consecutive rows.
    Ranges,
    /// Few rows, in short ranges.
    Scattered,
    /// In any other way.
    Mixed,
}

impl KeptPattern {
    /// Returns the pattern of the rows for which `kept`, which has no nulls, is `true`.
    pub fn of(kept: &BooleanArray) -> Self {
        let (count, ranges) = count_ones_and_ranges(&kept.values().bit_chunks());
        if count >= ranges * MIN_ROWS_PER_RANGE {
            Self::Ranges
        } else if count < kept.len() / MIN_ROWS_PER_KEPT {
            Self::Scattered
        } else {
            Self::Mixed
        }
    }
}

/// Returns the number of ones, and of ranges of ones.
#[multiversion(targets("x86_64+popcnt"))]
fn count_ones_and_ranges(bits: &BitChunks<'_>) -> (usize, usize) {
    let (mut ones, mut ranges, mut before) = (0, 0, 0);
    for word in bits.iter_padded() {
        ones += word.count_ones() as usize;
        // Each range begins with a one after a zero.
        ranges += (word & !(word << 1 | before)).count_ones() as usize;
        before = word >> 63;
    }
    (ones, ranges)
}

/// Returns the length of the longest prefix in which at most `count` rows are kept.
pub fn prefix_keeping(kept: &BooleanArray, count: usize) -> usize {
    index_of_one(&kept.values().bit_chunks(), count).unwrap_or(kept.len())
}

/// Returns the index of the first one after `count` ones.
#[multiversion(targets("x86_64+popcnt"))]
fn index_of_one(bits: &BitChunks<'_>, count: usize) -> Option<usize> {
    let mut left = count;
    for (number, mut word) in bits.iter_padded().enumerate() {
        let ones = word.count_ones() as usize;
        if ones > left {
            (0..left).for_each(|_| word &= word - 1);
            return Some(number * 64 + word.trailing_zeros() as usize);
        }
        left -= ones;
    }
    None
}

/// Returns the rows of a range for which `kept`, which has no nulls, is `true`, as ranges of consecutive rows.
pub fn kept_ranges(rows: &Range<u64>, kept: &BooleanArray) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    // The start of a range that has no end yet.
    let mut start = None;
    let mut first = rows.start;
    // A word of zeros comes last if all words are full, so every range ends.
    for word in kept.values().bit_chunks().iter_padded() {
        // The bits that differ from those before them: where ranges start and end.
        let mut edges = word ^ (word << 1 | u64::from(start.is_some()));
        while edges != 0 {
            let row = first + u64::from(edges.trailing_zeros());
            match start.take() {
                Some(start) => ranges.push(start..row),
                None => start = Some(row),
            }
            edges &= edges - 1;
        }
        first += 64;
    }
    ranges
}

/// The rows of a range that a filter keeps, one by one.
#[derive(Debug)]
pub struct KeptRows {
    rows: Range<u64>,
    /// The index of each kept row within the range.
    kept: Vec<u32>,
}

/// The lines of kept rows. A line is the rows with the same indices along all axes but the last:
///
/// ```text
/// rows 0..12 of 3 lines   0 1 2 3   4 5 6 7   8 9 10 11
/// kept                      x   x     x         x
///
/// lines                   0, 0, 1, 2
/// within their lines      1, 3, 1, 1
/// ```
#[derive(Debug)]
pub struct KeptLines {
    /// The cells along all axes but the last, one per line.
    of_lines: Cells,
    /// The lines of the range.
    range: Range<u64>,
    /// The index of each kept row's line within `range`.
    lines: UInt32Array,
    /// The rows whose coordinates along the last axis are built, and the index of each kept row among them.
    built: Range<u64>,
    within: UInt32Array,
}

impl KeptRows {
    /// Returns the rows of a range for which `kept`, which has no nulls, is `true`; `None` if the range has 2^32
    /// rows or more.
    pub fn new(rows: Range<u64>, kept: &BooleanArray) -> Option<Self> {
        u32::try_from(rows.end - rows.start).ok()?;
        let mut numbers = vec![0; kept.true_count()];
        let found = kept.values().set_indices_u32();
        // A collected list would check its capacity for every row.
        numbers
            .iter_mut()
            .zip(found)
            .for_each(|(number, found)| *number = found);
        Some(Self {
            rows,
            kept: numbers,
        })
    }

    /// Returns the offset of each row's cell into the window, in row-major order.
    pub fn cells(&self, cells: &Cells) -> Vec<u64> {
        let mut runs = Vec::new();
        cells.runs(self.rows.clone(), &mut runs);
        let mut numbers = Vec::with_capacity(self.kept.len());
        let (mut rest, mut first) = (&self.kept[..], 0);
        for run in runs {
            let end = first + (run.end - run.start);
            let (of_run, others) = rest.split_at(rest.partition_point(|row| u64::from(*row) < end));
            numbers.extend(of_run.iter().map(|row| run.start + u64::from(*row) - first));
            (rest, first) = (others, end);
        }
        numbers
    }

    /// Returns the lines of the rows; `None` without axes, or without rows.
    pub fn lines(&self, cells: &Cells) -> Option<KeptLines> {
        let rows = &self.rows;
        let (length, of_lines) = cells.lines().filter(|(length, _)| *length > 0)?;
        let first = rows.start - rows.start % length;
        // The coordinates of a whole line are built if that is no more work than those of the range.
        let is_short = length <= rows.end - rows.start;
        let built = match is_short {
            true => first..first + length,
            false => rows.clone(),
        };
        let mut lines = Vec::with_capacity(self.kept.len());
        let mut within = Vec::with_capacity(self.kept.len());
        let mut rest = &self.kept[..];
        let (mut line, mut end) = (0, first + length - rows.start);
        while let Some(row) = rest.first() {
            if let Some(behind) = u64::from(*row).checked_sub(end) {
                let skipped = 1 + behind / length;
                (line, end) = (line + skipped, end + skipped * length);
            }
            let count = rest.iter().position(|row| u64::from(*row) >= end);
            let (of_line, others) = rest.split_at(count.unwrap_or(rest.len()));
            lines.extend(std::iter::repeat_n(line as u32, of_line.len()));
            // The first line may start before the range.
            let start = match is_short {
                true => end.wrapping_sub(length) as u32,
                false => 0,
            };
            within.extend(of_line.iter().map(|row| row.wrapping_sub(start)));
            rest = others;
        }
        Some(KeptLines {
            of_lines,
            range: rows.start / length..rows.end.div_ceil(length),
            lines: lines.into(),
            built,
            within: within.into(),
        })
    }
}

impl KeptLines {
    /// Returns the coordinates of the rows along an axis. `cells` must be those passed to [`KeptRows::lines`].
    pub fn coordinates(
        &self,
        cells: &Cells,
        axis: usize,
        coordinates: &Coordinates,
    ) -> Result<ArrayRef, ArrowError> {
        if axis < self.of_lines.dimensions() {
            let values = self
                .of_lines
                .coordinates(axis, coordinates, self.range.clone())?;
            return take(&values, &self.lines, None);
        }
        let values = cells.coordinates(axis, coordinates, self.built.clone())?;
        take(&values, &self.within, None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;
    use arrow::compute::filter;
    use arrow::datatypes::DataType;

    use super::*;
    use crate::grid::{IndexSet, Selection, Steps, Window};

    #[test]
    fn kept_rows_are_those_of_a_filter() {
        let texts = (0..7).map(|position| format!("p{position}"));
        let coordinates = [
            Coordinates::Steps(Steps::try_new(DataType::Int32, -3, 2, 5).unwrap()),
            Coordinates::Steps(Steps::try_new(DataType::Int64, 9, -1, 4).unwrap()),
            Coordinates::Values(Arc::new(StringArray::from_iter_values(texts))),
        ];
        let window = Window::new(vec![1..5, 0..4, 1..7]);
        let some = |length, ranges: &[Range<u64>]| IndexSet::from_ranges(length, ranges.to_vec());
        for selection in [
            Selection::all(&[5, 4, 7]),
            Selection::new(vec![
                some(5, &[1..2, 4..5]),
                some(4, &[1..3]),
                some(7, &[0..2, 3..4, 6..7]),
            ]),
        ] {
            let cells = Cells::new(&window, &selection);
            for start in 0..cells.rows() {
                for end in [start, start + 1, start + 3, start + 11, cells.rows()] {
                    let rows = start..end.clamp(start, cells.rows());
                    for step in [1, 2, 5] {
                        let kept = rows.clone().map(|row| row % step == 0 || row % 16 > 10);
                        let kept = BooleanArray::from(kept.collect::<Vec<_>>());
                        let found = KeptRows::new(rows.clone(), &kept).unwrap();
                        let mut runs = Vec::new();
                        cells.runs(rows.clone(), &mut runs);
                        let numbers = runs.into_iter().flatten().zip(kept.values());
                        let numbers = numbers.filter(|(_, kept)| *kept).map(|(cell, _)| cell);
                        assert_eq!(found.cells(&cells), numbers.collect::<Vec<_>>());
                        let found = found.lines(&cells).unwrap();
                        for (axis, coordinates) in coordinates.iter().enumerate() {
                            let all = cells.coordinates(axis, coordinates, rows.clone());
                            let expected = filter(&all.unwrap(), &kept).unwrap();
                            let found = found.coordinates(&cells, axis, coordinates).unwrap();
                            assert_eq!(&found, &expected, "{rows:?} {step} {axis}");
                            let ranges = kept_ranges(&rows, &kept);
                            let found = cells
                                .coordinates_of_ranges(axis, coordinates, &ranges)
                                .unwrap();
                            assert_eq!(&found, &expected, "{ranges:?} {axis}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn patterns_are_those_of_the_rows_one_by_one() {
        let mask = |kept: &dyn Fn(usize) -> bool, start: usize| {
            let kept: Vec<_> = (0..300).map(kept).collect();
            BooleanArray::from(kept).slice(start, 300 - start)
        };
        // Masks that start within a word.
        for start in [0, 5, 63, 64, 130] {
            let pattern = |kept: &dyn Fn(usize) -> bool| KeptPattern::of(&mask(kept, start));
            assert_eq!(pattern(&|_| true), KeptPattern::Ranges);
            assert_eq!(pattern(&|_| false), KeptPattern::Ranges);
            assert_eq!(pattern(&|row| row % 70 >= 55), KeptPattern::Ranges);
            assert_eq!(pattern(&|row| row % 9 == 0), KeptPattern::Scattered);
            assert_eq!(pattern(&|row| row % 8 < 7), KeptPattern::Mixed);
            let kept = mask(&|row| row % 70 >= 55 || row % 9 == 0, start);
            for count in 0..80 {
                let length = prefix_keeping(&kept, count);
                assert!(kept.slice(0, length).true_count() <= count);
                assert!(length == kept.len() || kept.slice(0, length + 1).true_count() > count);
            }
            let rows = 7..7 + kept.len() as u64;
            let ranges = kept_ranges(&rows, &kept);
            assert!(ranges.windows(2).all(|two| two[0].end < two[1].start));
            let expected = rows.zip(kept.values()).filter(|(_, kept)| *kept);
            let expected: Vec<_> = expected.map(|(row, _)| row).collect();
            assert_eq!(ranges.into_iter().flatten().collect::<Vec<_>>(), expected);
        }
    }
}
