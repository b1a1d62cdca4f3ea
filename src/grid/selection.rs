//! Selections: the chosen indices of all axes of a grid.

use std::fmt;
use std::ops::Range;

use crate::grid::chunk_grid::ChunkGrid;
use crate::grid::index_set::IndexSet;

/// The selected cells of a grid: the product of one [`IndexSet`] per axis.
///
/// A cell is selected if its index along every axis is in the set of that axis. For example, the
/// sets {1, 2, 7} and {2, 3, 4, 5} select 12 cells of a grid of 8 x 10 cells, which is cut into
/// chunks of 3 x 4 cells:
///
/// ```text
///     0 1 2 3   4 5 6 7   8 9
/// 0   . . . . | . . . . | . .
/// 1   . . # # | # # . . | . .     # selected cell
/// 2   . . # # | # # . . | . .
///     --------+---------+----
/// 3   . . . . | . . . . | . .
/// 4   . . . . | . . . . | . .     The selection touches chunks [0, 0], [0, 1],
/// 5   . . . . | . . . . | . .     [2, 0] and [2, 1]. No other chunk is read.
///     --------+---------+----
/// 6   . . . . | . . . . | . .
/// 7   . . # # | # # . . | . .
/// ```
///
/// The touched chunks are a product of index sets too, so they are never listed:
///
/// ```
/// use tet_sql::grid::{ChunkGrid, IndexSet, Selection};
///
/// let selection = Selection::new(vec![
///     IndexSet::from_ranges(8, [1..3, 7..8]),
///     IndexSet::from_ranges(10, [2..6]),
/// ]);
/// assert_eq!(selection.count(), Some(12));
///
/// let chunks = selection.chunks(&ChunkGrid::new(vec![8, 10], vec![3, 4]));
/// assert_eq!(chunks.count(), Some(4));
/// assert_eq!(chunks.nth(2), Some(vec![2, 0]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    axes: Vec<IndexSet>,
}

impl Selection {
    /// Selects every cell of a grid of this shape.
    pub fn all(shape: &[u64]) -> Self {
        Self {
            axes: shape.iter().map(|extent| IndexSet::all(*extent)).collect(),
        }
    }

    /// Selects no cell of a grid of this shape.
    pub fn none(shape: &[u64]) -> Self {
        let none = |extent: &u64| IndexSet::from_ranges(*extent, []);
        Self {
            axes: shape.iter().map(none).collect(),
        }
    }

    /// Selects the product of these sets, one per axis.
    pub fn new(axes: Vec<IndexSet>) -> Self {
        Self { axes }
    }

    /// Returns the index set of each axis.
    pub fn axes(&self) -> &[IndexSet] {
        &self.axes
    }

    /// Returns the number of selected cells, or `None` if there are 2^64 or more.
    pub fn count(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        self.axes
            .iter()
            .try_fold(1u64, |count, axis| count.checked_mul(axis.count()))
    }

    /// Returns `true` if no cell is selected.
    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(IndexSet::is_empty)
    }

    /// Returns `true` if every cell is selected.
    pub fn is_all(&self) -> bool {
        self.axes.iter().all(IndexSet::is_all)
    }

    /// Intersects the index set of one axis with `set`.
    pub fn restrict(&mut self, axis: usize, set: &IndexSet) {
        self.axes[axis] = self.axes[axis].intersect(set);
    }

    /// Returns the cells in both selections.
    pub fn intersect(&self, other: &Self) -> Self {
        self.zip(other, IndexSet::intersect)
    }

    /// Returns the smallest product that contains both selections. The result may select more cells
    /// than their union, which need not be a product.
    pub fn bounding_union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        self.zip(other, IndexSet::union)
    }

    fn zip(&self, other: &Self, combine: impl Fn(&IndexSet, &IndexSet) -> IndexSet) -> Self {
        let axes = self
            .axes
            .iter()
            .zip(&other.axes)
            .map(|(left, right)| combine(left, right))
            .collect();
        Self { axes }
    }

    /// Returns the chunks that hold a selected cell.
    pub fn chunks(&self, grid: &ChunkGrid) -> ChunkSelection {
        let axes: Vec<_> = self
            .axes
            .iter()
            .zip(grid.axes())
            .map(|(axis, chunks)| axis.chunks(chunks))
            .collect();
        let count = Selection { axes: axes.clone() }.count();
        ChunkSelection { axes, count }
    }
}

/// The cells of some chunks.
impl Selection {
    /// Returns the selected cells of some of the chunks that the selection intersects, if these cells
    /// are a product: along each axis, the chunks have a range of indices, and all combinations of these
    /// indices are among them. `chunks` are ordinals among the chunks that the selection intersects.
    ///
    /// ```
    /// use tet_sql::grid::{ChunkGrid, IndexSet, Selection};
    ///
    /// let (grid, all) = (ChunkGrid::new(vec![6, 8], vec![3, 4]), Selection::all(&[6, 8]));
    /// let second_row = all.of_chunks(&grid, &IndexSet::from_ranges(4, [2..4])).unwrap();
    /// assert_eq!(second_row.axes()[0].as_range(), Some(3..6));
    /// let second_column = all.of_chunks(&grid, &IndexSet::from_ranges(4, [1..2, 3..4])).unwrap();
    /// assert_eq!(second_column.axes()[1].as_range(), Some(4..8));
    /// assert!(all.of_chunks(&grid, &IndexSet::from_ranges(4, [1..3])).is_none());
    /// ```
    pub fn of_chunks(&self, grid: &ChunkGrid, chunks: &IndexSet) -> Option<Self> {
        let (Some(first), Some(last), false) = (chunks.first(), chunks.last(), self.is_empty())
        else {
            return Some(Self::none(grid.shape()));
        };
        let touched = self.chunks(grid);
        touched.count()?;
        let counts: Vec<u64> = touched.axes().iter().map(IndexSet::count).collect();
        // The first and the last chunk of a product have the bounds along all axes.
        let bounds = bounds(&counts, first, last)?;
        if ordinals(&counts, &bounds, chunks)? != *chunks {
            return None;
        }
        let mut narrowed = self.clone();
        for (axis, (own, bounds)) in touched.axes().iter().zip(bounds).enumerate() {
            let along = grid.axis(axis);
            let (first, last) = (own.nth(bounds.start)?, own.nth(bounds.end - 1)?);
            let window = along.range(first).start..along.range(last).end;
            narrowed.restrict(axis, &IndexSet::from_ranges(grid.shape()[axis], [window]));
        }
        Some(narrowed)
    }
}

/// Returns the range along each axis between two ordinals of a grid; `None` if one is empty.
fn bounds(counts: &[u64], mut first: u64, mut last: u64) -> Option<Vec<Range<u64>>> {
    let mut unit: u64 = counts.iter().product();
    let bounds = counts.iter().map(|count| {
        unit /= count;
        let bounds = first / unit..last / unit + 1;
        (first, last) = (first % unit, last % unit);
        (!bounds.is_empty()).then_some(bounds)
    });
    bounds.collect()
}

/// Returns the ordinals of the product of ranges along the axes of a grid; `None` if their number is not
/// that of `expected`.
fn ordinals(counts: &[u64], bounds: &[Range<u64>], expected: &IndexSet) -> Option<IndexSet> {
    let lengths = bounds.iter().map(|bounds| bounds.end - bounds.start);
    let total = lengths.clone().try_fold(1, u64::checked_mul)?;
    if total != expected.count() {
        return None;
    }
    // The axes after `cut` are whole, so that the ordinals of several indices along `cut` are a range.
    let is_whole = |axis: usize| bounds[axis] == (0..counts[axis]);
    let cut = (0..counts.len()).rev().find(|axis| !is_whole(*axis));
    let cut = cut.unwrap_or(0);
    let inner: u64 = counts.iter().skip(cut + 1).product();
    let outer: u64 = lengths.take(cut).product();
    let range = |mut number: u64| {
        let (mut start, mut unit) = (0, inner * counts.get(cut).copied().unwrap_or(1));
        for (bounds, count) in bounds[..cut].iter().zip(counts).rev() {
            let length = bounds.end - bounds.start;
            start += (bounds.start + number % length) * unit;
            number /= length;
            unit *= count;
        }
        match bounds.get(cut) {
            Some(bounds) => start + bounds.start * inner..start + bounds.end * inner,
            None => start..start + 1,
        }
    };
    let ranges = (0..outer).map(range);
    Some(IndexSet::from_ranges(expected.length(), ranges))
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, axis) in self.axes.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{axis}")?;
        }
        Ok(())
    }
}

/// The chunks that a [`Selection`] touches, in row-major order. The sequence is never listed: each
/// chunk is computed from its ordinal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkSelection {
    axes: Vec<IndexSet>,
    count: Option<u64>,
}

impl ChunkSelection {
    /// Returns the touched chunk indices along each axis.
    pub fn axes(&self) -> &[IndexSet] {
        &self.axes
    }

    /// Returns the number of touched chunks, or `None` if there are 2^64 or more.
    pub fn count(&self) -> Option<u64> {
        self.count
    }

    /// Returns the chunk with this ordinal in row-major order, or `None` if the ordinal is not
    /// below [`Self::count`].
    pub fn nth(&self, position: u64) -> Option<Vec<u64>> {
        let mut rest = position;
        let mut chunk = vec![0; self.axes.len()];
        for (axis, set) in self.axes.iter().enumerate().rev() {
            if set.is_empty() {
                return None;
            }
            chunk[axis] = set.nth(rest % set.count())?;
            rest /= set.count();
        }
        (rest == 0).then_some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_a_product() {
        let grid = ChunkGrid::new(vec![10, 10], vec![3, 4]);
        let selection = Selection::new(vec![
            IndexSet::from_ranges(10, [0..1, 9..10]),
            IndexSet::from_ranges(10, [4..6]),
        ]);
        assert_eq!(selection.count(), Some(4));
        assert_eq!(selection.to_string(), "2 of 10, 2 of 10");
        let chunks = selection.chunks(&grid);
        assert_eq!(chunks.count(), Some(2));
        assert_eq!(chunks.nth(0), Some(vec![0, 1]));
        assert_eq!(chunks.nth(1), Some(vec![3, 1]));
        assert_eq!(chunks.nth(2), None);
    }

    #[test]
    fn union_is_a_bounding_product() {
        let one = Selection::new(vec![
            IndexSet::from_ranges(4, [0..1]),
            IndexSet::from_ranges(4, [0..1]),
        ]);
        let two = Selection::new(vec![
            IndexSet::from_ranges(4, [2..3]),
            IndexSet::from_ranges(4, [2..3]),
        ]);
        assert_eq!(one.bounding_union(&two).count(), Some(4));
        let none = Selection::new(vec![IndexSet::none(4), IndexSet::all(4)]);
        assert_eq!(one.bounding_union(&none), one);
    }

    #[test]
    fn huge_grids_are_counted_with_care() {
        let shape = [1 << 40, 1 << 40];
        assert_eq!(Selection::all(&shape).count(), None);
        let grid = ChunkGrid::new(shape.to_vec(), vec![1, 1]);
        assert_eq!(Selection::all(&shape).chunks(&grid).count(), None);
    }
}
