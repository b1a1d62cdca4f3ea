//! The rows of a range that a filter keeps.

mod scattered;

use std::ops::Range;

use arrow::array::BooleanArray;
use arrow::util::bit_chunk_iterator::BitChunks;
use multiversion::multiversion;

pub use self::scattered::ScatteredRows;

/// Kept rows are listed as ranges if the ranges have at least this many rows on average.
const MIN_ROWS_PER_RANGE: usize = 8;
/// Kept rows are scattered if fewer than one row in this many is kept.
const MIN_ROWS_PER_KEPT: usize = 8;

/// The rows of a range that a filter keeps.
#[derive(Debug, Clone)]
pub struct KeptRows {
    rows: Range<u64>,
    mask: BooleanArray,
    count: usize,
    pattern: KeptPattern,
}

/// The pattern of the rows that a filter keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeptPattern {
    /// Ranges of many consecutive rows, ascending. There is a gap between any two of them.
    Ranges(Vec<Range<u64>>),
    /// Few rows, in short ranges.
    Scattered,
    /// Any other pattern.
    Mixed,
}

impl KeptRows {
    /// Creates the kept rows of a range. `mask` has one value per row of the range, without nulls, which is `true` if
    /// the row is kept.
    pub fn new(rows: Range<u64>, mask: BooleanArray) -> Self {
        debug_assert_eq!(mask.len() as u64, rows.end - rows.start);
        let (count, ranges) = count_ones_and_ranges(&mask.values().bit_chunks());
        let pattern = if count >= ranges * MIN_ROWS_PER_RANGE {
            KeptPattern::Ranges(ranges_of(rows.start, &mask, ranges))
        } else if count < mask.len() / MIN_ROWS_PER_KEPT {
            KeptPattern::Scattered
        } else {
            KeptPattern::Mixed
        };
        Self {
            rows,
            mask,
            count,
            pattern,
        }
    }

    /// Returns the range of rows that the mask covers.
    pub fn rows(&self) -> Range<u64> {
        self.rows.clone()
    }

    /// Returns one value per row of the range, without nulls: `true` if the row is kept.
    pub fn mask(&self) -> &BooleanArray {
        &self.mask
    }

    /// Returns the number of kept rows.
    pub fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn pattern(&self) -> &KeptPattern {
        &self.pattern
    }

    /// Returns the mask of some rows of the range.
    pub(crate) fn mask_of(&self, rows: &Range<u64>) -> BooleanArray {
        let start = (rows.start - self.rows.start) as usize;
        self.mask.slice(start, (rows.end - rows.start) as usize)
    }

    /// Returns the first `max_count` kept rows from row `first` on, or all if there are fewer, as the kept rows of a range
    /// that ends before the next kept row.
    pub(crate) fn first_kept(&self, first: u64, max_count: usize) -> Self {
        if let KeptPattern::Ranges(ranges) = &self.pattern {
            let after = ranges.partition_point(|range| range.end <= first);
            let (mut left, mut part) = (max_count as u64, Vec::new());
            let mut end = self.rows.end;
            for range in &ranges[after..] {
                let start = range.start.max(first);
                let stop = range.end.min(start.saturating_add(left));
                if start < stop {
                    part.push(start..stop);
                }
                left -= stop - start;
                if stop < range.end {
                    end = stop;
                    break;
                }
            }
            return Self {
                rows: first..end,
                mask: self.mask_of(&(first..end)),
                count: max_count - left as usize,
                pattern: KeptPattern::Ranges(part),
            };
        }
        let rest = self.mask_of(&(first..self.rows.end));
        let (length, count) = prefix_of_ones(&rest.values().bit_chunks(), max_count);
        let length = length.min(rest.len());
        Self {
            rows: first..first + length as u64,
            mask: rest.slice(0, length),
            count,
            pattern: self.pattern.clone(),
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

/// Returns the length of the longest prefix with at most `max_count` ones, and the number of its ones. Bits that pad the
/// last word belong to the prefix.
#[multiversion(targets("x86_64+popcnt"))]
fn prefix_of_ones(bits: &BitChunks<'_>, max_count: usize) -> (usize, usize) {
    let (mut left, mut length) = (max_count, 0);
    for mut word in bits.iter_padded() {
        let ones = word.count_ones() as usize;
        if ones > left {
            (0..left).for_each(|_| word &= word - 1);
            return (length + word.trailing_zeros() as usize, max_count);
        }
        left -= ones;
        length += 64;
    }
    (length, max_count - left)
}

/// Returns the ranges of rows, from row `first` on, for which `mask` is `true`. `capacity` is their expected number.
fn ranges_of(first: u64, mask: &BooleanArray, capacity: usize) -> Vec<Range<u64>> {
    let mut ranges = Vec::with_capacity(capacity);
    // The start of a range that has no end yet.
    let mut start = None;
    let mut first = first;
    // A word of zeros comes last if all words are full, so every range ends.
    for word in mask.values().bit_chunks().iter_padded() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(is_kept: &dyn Fn(usize) -> bool, start: usize) -> KeptRows {
        let mask: Vec<_> = (0..300).map(is_kept).collect();
        let mask = BooleanArray::from(mask).slice(start, 300 - start);
        KeptRows::new(7..7 + mask.len() as u64, mask)
    }

    #[test]
    fn patterns_are_those_of_the_rows_one_by_one() {
        // Masks that start within a word.
        for start in [0, 5, 63, 64, 130] {
            let pattern = |is_kept: &dyn Fn(usize) -> bool| kept(is_kept, start).pattern;
            let all = 7..307 - start as u64;
            assert_eq!(pattern(&|_| true), KeptPattern::Ranges(vec![all]));
            assert_eq!(pattern(&|_| false), KeptPattern::Ranges(Vec::new()));
            assert_eq!(pattern(&|row| row % 9 == 0), KeptPattern::Scattered);
            assert_eq!(pattern(&|row| row % 8 < 7), KeptPattern::Mixed);
            let kept = kept(&|row| row % 70 >= 55, start);
            let KeptPattern::Ranges(ranges) = kept.pattern() else {
                panic!("{kept:?}");
            };
            assert!(ranges.windows(2).all(|two| two[0].end < two[1].start));
            let expected = kept.rows().zip(kept.mask().values());
            let expected: Vec<_> = expected
                .filter(|(_, kept)| *kept)
                .map(|(row, _)| row)
                .collect();
            assert_eq!(kept.count(), expected.len());
            assert_eq!(
                ranges.iter().cloned().flatten().collect::<Vec<_>>(),
                expected
            );
        }
    }

    #[test]
    fn parts_end_where_enough_rows_are_kept() {
        for start in [0, 5, 63, 64, 130] {
            for is_kept in [
                &(|row: usize| row % 70 >= 55) as &dyn Fn(usize) -> bool,
                &|row: usize| row.is_multiple_of(9),
                &|row: usize| row % 8 < 7,
                &|_| false,
                &|_| true,
            ] {
                let all = kept(is_kept, start);
                for max_count in [1, 2, 7, 20, 64, 500] {
                    let mut first = all.rows().start;
                    while first < all.rows().end {
                        let part = all.first_kept(first, max_count);
                        let rows = part.rows();
                        assert!(rows.start == first && rows.end > first);
                        assert_eq!(part.mask(), &all.mask_of(&rows));
                        assert_eq!(part.count(), part.mask().true_count());
                        assert!(part.count() <= max_count);
                        assert!(part.count() == max_count || rows.end == all.rows().end);
                        let next = rows.end < all.rows().end;
                        assert!(!next || all.mask_of(&(rows.end..rows.end + 1)).value(0));
                        if let KeptPattern::Ranges(ranges) = part.pattern() {
                            assert_eq!(ranges, &ranges_of(first, part.mask(), 0));
                        }
                        first = part.rows().end;
                    }
                }
            }
        }
    }
}
