//! Sets of indices along one axis.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::BooleanBuffer;

use crate::grid::chunk_grid::AxisChunks;

/// A set of indices along an axis of known length, stored as sorted ranges that neither touch nor
/// overlap.
///
/// Memory grows with the number of ranges, not with the length of the axis, and cloning is cheap.
/// The *rank* of an index is the number of smaller indices in the set:
///
/// ```text
/// index   0 1 2 3 4 5 6 7 8 9
/// set     . . # # . . . # # .     ranges 2..4 and 7..9
/// rank        0 1       2 3
/// ```
///
/// ```
/// use tet_sql::grid::IndexSet;
///
/// let set = IndexSet::from_ranges(10, [2..4, 7..9]);
/// assert_eq!(set.count(), 4);
/// assert_eq!(set.nth(2), Some(7));
/// assert_eq!(set.rank(7), 2);
/// assert_eq!(set.to_string(), "4 of 10");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IndexSet {
    length: u64,
    count: u64,
    ranges: Arc<[Ranked]>,
}

/// A range of indices and the rank of its first index.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Ranked {
    start: u64,
    end: u64,
    rank: u64,
}

impl IndexSet {
    /// Returns the set of every index of an axis.
    pub fn all(length: u64) -> Self {
        Self::from_ranges(length, std::iter::once(0..length))
    }

    /// Returns the empty set of an axis.
    pub fn none(length: u64) -> Self {
        Self::from_ranges(length, std::iter::empty())
    }

    /// Returns the union of ranges in ascending order of their starts. Ranges may touch or overlap,
    /// and are clipped to the axis.
    pub fn from_ranges(length: u64, ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut builder = IndexSetBuilder::new(length);
        for range in ranges {
            builder.push(range);
        }
        builder.finish()
    }

    /// Returns the length of the axis.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the number of indices in the set.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns `true` if the set contains every index of the axis.
    pub fn is_all(&self) -> bool {
        self.count == self.length
    }

    /// Returns the ranges in ascending order. There is a gap between any two of them.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|range| range.start..range.end)
    }

    /// Returns the set as one range, or `None` if it is empty or has gaps.
    pub fn as_range(&self) -> Option<Range<u64>> {
        match self.ranges.as_ref() {
            [range] => Some(range.start..range.end),
            _ => None,
        }
    }

    /// Returns the smallest index.
    pub fn first(&self) -> Option<u64> {
        self.ranges.first().map(|range| range.start)
    }

    /// Returns the largest index.
    pub fn last(&self) -> Option<u64> {
        self.ranges.last().map(|range| range.end - 1)
    }

    /// Returns the index with this rank, or `None` if the rank is not below [`Self::count`].
    pub fn nth(&self, rank: u64) -> Option<u64> {
        let (range, offset) = self.locate(rank)?;
        Some(self.ranges[range].start + offset)
    }

    /// Returns the rank of `position`: the number of indices in the set that are below `position`,
    /// which need not be in the set itself.
    pub fn rank(&self, position: u64) -> u64 {
        let after = self.ranges.partition_point(|range| range.start < position);
        match after.checked_sub(1).map(|range| self.ranges[range]) {
            Some(range) => range.rank + position.min(range.end) - range.start,
            None => 0,
        }
    }

    /// Returns the ordinal of the range that contains the index with this rank, and the offset of
    /// the index in the range.
    fn locate(&self, rank: u64) -> Option<(usize, u64)> {
        if rank >= self.count {
            return None;
        }
        let range = self.ranges.partition_point(|range| range.rank <= rank) - 1;
        Some((range, rank - self.ranges[range].rank))
    }

    /// Finds the index with this rank. Returns the ordinal of its range, the index, and the end of
    /// the range.
    pub(crate) fn range_of_rank(&self, rank: u64) -> Option<(usize, u64, u64)> {
        let (range, offset) = self.locate(rank)?;
        let found = &self.ranges[range];
        Some((range, found.start + offset, found.end))
    }

    /// Returns the range with this ordinal.
    pub(crate) fn range(&self, number: usize) -> Option<Range<u64>> {
        self.ranges.get(number).map(|range| range.start..range.end)
    }

    /// Returns the indices whose ranks lie in `ranks`, as ranges.
    pub fn ranges_of_ranks(&self, ranks: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let ranks = ranks.start..ranks.end.min(self.count);
        let first = if ranks.is_empty() {
            self.ranges.len()
        } else {
            self.ranges
                .partition_point(|range| range.rank <= ranks.start)
                - 1
        };
        self.ranges[first..]
            .iter()
            .take_while(move |range| range.rank < ranks.end)
            .map(move |range| {
                let skip = ranks.start.saturating_sub(range.rank);
                let end = (range.start + (ranks.end - range.rank)).min(range.end);
                range.start + skip..end
            })
    }

    /// Returns `true` if `position` is in the set.
    pub fn contains(&self, position: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.start <= position);
        after > 0 && position < self.ranges[after - 1].end
    }

    /// Returns the indices within `window`, relative to its start. The result is a set of an axis
    /// as long as `window`.
    pub fn within(&self, window: Range<u64>) -> Self {
        let first = self
            .ranges
            .partition_point(|range| range.end <= window.start);
        let ranges = self.ranges[first..]
            .iter()
            .take_while(|range| range.start < window.end)
            .map(|range| {
                range.start.max(window.start) - window.start
                    ..range.end.min(window.end) - window.start
            });
        Self::from_ranges(window.end - window.start, ranges)
    }

    /// Returns the indices of the chunks that contain an index of the set.
    pub fn chunks(&self, chunks: AxisChunks) -> Self {
        Self::from_ranges(
            chunks.count(),
            self.ranges()
                .map(|range| chunks.chunk_at(range.start)..chunks.chunk_at(range.end - 1) + 1),
        )
    }

    /// Returns the indices in both sets, which must belong to the same axis.
    pub fn intersect(&self, other: &Self) -> Self {
        if self.is_all() {
            return other.clone();
        }
        if other.is_all() {
            return self.clone();
        }
        let mut builder = IndexSetBuilder::new(self.length);
        let (mut left, mut right) = (self.ranges().peekable(), other.ranges().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            builder.push(a.start.max(b.start)..a.end.min(b.end));
            if a.end <= b.end {
                left.next();
            } else {
                right.next();
            }
        }
        builder.finish()
    }

    /// Returns the indices in either set, both of which must belong to the same axis.
    pub fn union(&self, other: &Self) -> Self {
        let mut builder = IndexSetBuilder::new(self.length);
        let (mut left, mut right) = (self.ranges().peekable(), other.ranges().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a.start <= b.start => left.next(),
                (Some(_), None) => left.next(),
                (_, Some(_)) => right.next(),
                (None, None) => None,
            };
            match next {
                Some(range) => builder.push(range),
                None => return builder.finish(),
            }
        }
    }

    /// Returns the indices that are not in the set.
    pub fn complement(&self) -> Self {
        let mut builder = IndexSetBuilder::new(self.length);
        let mut next = 0;
        for range in self.ranges() {
            builder.push(next..range.start);
            next = range.end;
        }
        builder.push(next..self.length);
        builder.finish()
    }
}

impl fmt::Display for IndexSet {
    /// Writes `all`, or the number of indices and the length of the axis, as in `4 of 10`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            f.write_str("all")
        } else {
            write!(f, "{} of {}", self.count, self.length)
        }
    }
}

impl fmt::Debug for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ")?;
        f.debug_list().entries(self.ranges()).finish()
    }
}

/// Builds an [`IndexSet`] from ascending ranges.
#[derive(Debug)]
pub struct IndexSetBuilder {
    length: u64,
    count: u64,
    ranges: Vec<Ranked>,
}

impl fmt::Debug for Ranked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl IndexSetBuilder {
    /// Starts with an empty set of an axis of this length.
    pub fn new(length: u64) -> Self {
        Self {
            length,
            count: 0,
            ranges: Vec::new(),
        }
    }

    /// Adds a range, which must not start before the previous range does.
    pub fn push(&mut self, range: Range<u64>) {
        let (mut start, end) = (range.start, range.end.min(self.length));
        if let Some(last) = self.ranges.last_mut()
            && start <= last.end
        {
            start = last.end;
            if start < end {
                self.count += end - start;
                last.end = end;
            }
            return;
        }
        if start < end {
            self.ranges.push(Ranked {
                start,
                end,
                rank: self.count,
            });
            self.count += end - start;
        }
    }

    /// Adds the set bits of a mask over the indices from `offset` on.
    pub fn push_mask(&mut self, offset: u64, mask: &BooleanBuffer) {
        for (start, end) in mask.set_slices() {
            self.push(offset + start as u64..offset + end as u64);
        }
    }

    /// Returns the number of ranges so far, which determines the memory that the set takes.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the set.
    pub fn finish(self) -> IndexSet {
        IndexSet {
            length: self.length,
            count: self.count,
            ranges: self.ranges.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[Range<u64>]) -> IndexSet {
        IndexSet::from_ranges(20, ranges.iter().cloned())
    }

    fn positions(set: &IndexSet) -> Vec<u64> {
        set.ranges().flatten().collect()
    }

    /// Returns all subsets of a short axis, as sets and as plain lists of indices.
    fn subsets() -> Vec<(IndexSet, Vec<u64>)> {
        (0u64..64)
            .map(|bits| {
                let positions: Vec<_> = (0..6).filter(|bit| bits >> bit & 1 == 1).collect();
                let set = IndexSet::from_ranges(6, positions.iter().map(|p| *p..p + 1));
                (set, positions)
            })
            .collect()
    }

    #[test]
    fn ranges_are_joined_and_clipped() {
        let set = set(&[1..3, 3..5, 4..6, 18..30]);
        assert_eq!(set.ranges().collect::<Vec<_>>(), [1..6, 18..20]);
        assert_eq!(set.count(), 7);
        assert_eq!((set.first(), set.last()), (Some(1), Some(19)));
    }

    #[test]
    fn algebra_agrees_with_plain_lists() {
        let subsets = subsets();
        for (a, a_positions) in &subsets {
            assert_eq!(positions(a), *a_positions);
            let inverse: Vec<_> = (0..6).filter(|p| !a_positions.contains(p)).collect();
            assert_eq!(positions(&a.complement()), inverse);
            for (rank, position) in a_positions.iter().enumerate() {
                assert_eq!(a.nth(rank as u64), Some(*position));
                assert!(a.contains(*position));
            }
            assert_eq!(a.nth(a.count()), None);
            for position in 0..=6 {
                let below = a_positions.iter().filter(|p| **p < position).count();
                assert_eq!(a.rank(position), below as u64);
            }
            for (b, b_positions) in &subsets {
                let both: Vec<_> = (0..6)
                    .filter(|p| a_positions.contains(p) && b_positions.contains(p))
                    .collect();
                let either: Vec<_> = (0..6)
                    .filter(|p| a_positions.contains(p) || b_positions.contains(p))
                    .collect();
                assert_eq!(positions(&a.intersect(b)), both);
                assert_eq!(positions(&a.union(b)), either);
            }
        }
    }

    #[test]
    fn windows_chunks_and_ranks_agree_with_plain_lists() {
        for (set, all) in subsets() {
            for start in 0..6 {
                for end in start..=6 {
                    let expected: Vec<_> = all
                        .iter()
                        .filter(|p| (start..end).contains(*p))
                        .map(|p| p - start)
                        .collect();
                    let window = set.within(start..end);
                    assert_eq!(positions(&window), expected);
                    assert_eq!(window.length(), end - start);
                    let ranks: Vec<_> = set.ranges_of_ranks(start..end).flatten().collect();
                    let expected: Vec<_> = all
                        .iter()
                        .copied()
                        .skip(start as usize)
                        .take((end - start) as usize)
                        .collect();
                    assert_eq!(ranks, expected);
                }
            }
            for (extent, phase) in (1..8).flat_map(|e| (0..e).map(move |phase| (e, phase))) {
                let mut expected: Vec<_> = all.iter().map(|p| (p + phase) / extent).collect();
                expected.dedup();
                let chunks = AxisChunks::new(set.length(), extent, phase);
                assert_eq!(positions(&set.chunks(chunks)), expected);
            }
        }
    }

    #[test]
    fn masks() {
        let mut builder = IndexSetBuilder::new(10);
        builder.push_mask(0, &BooleanBuffer::from(vec![true, false, true, true]));
        builder.push_mask(4, &BooleanBuffer::from(vec![true, false]));
        assert_eq!(builder.finish().ranges().collect::<Vec<_>>(), [0..1, 2..5]);
    }
}
