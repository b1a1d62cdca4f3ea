//! The selected part of a grid: one set of positions per axis.

use std::fmt;

use crate::grid::chunk_grid::ChunkGrid;
use crate::grid::index_set::IndexSet;

/// The product of one [`IndexSet`] per axis. Exactly the cells whose position along every axis is in that axis's
/// set are selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    axes: Vec<IndexSet>,
}

impl Selection {
    /// All cells of a grid of this shape.
    pub fn all(shape: &[u64]) -> Self {
        Self {
            axes: shape.iter().map(|extent| IndexSet::all(*extent)).collect(),
        }
    }

    /// No cell of a grid of this shape.
    pub fn none(shape: &[u64]) -> Self {
        let none = |extent: &u64| IndexSet::from_ranges(*extent, []);
        Self {
            axes: shape.iter().map(none).collect(),
        }
    }

    /// The product of these sets, one per axis.
    pub fn new(axes: Vec<IndexSet>) -> Self {
        Self { axes }
    }

    /// The set of each axis.
    pub fn axes(&self) -> &[IndexSet] {
        &self.axes
    }

    /// Selected cells; `None` if there are 2^64 or more.
    pub fn count(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        self.axes
            .iter()
            .try_fold(1u64, |count, axis| count.checked_mul(axis.count()))
    }

    /// Whether no cell is selected.
    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(IndexSet::is_empty)
    }

    /// Whether every cell is selected.
    pub fn is_all(&self) -> bool {
        self.axes.iter().all(IndexSet::is_all)
    }

    /// Keeps only the positions of `set` along one axis.
    pub fn restrict(&mut self, axis: usize, set: &IndexSet) {
        self.axes[axis] = self.axes[axis].intersect(set);
    }

    /// Cells in both selections.
    pub fn intersect(&self, other: &Self) -> Self {
        self.zip(other, IndexSet::intersect)
    }

    /// The smallest product that holds both selections. It may hold more than the two: the union of two
    /// products is not a product.
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

    /// The chunks that hold a selected cell.
    pub fn chunks(&self, grid: &ChunkGrid) -> ChunkSelection {
        let axes: Vec<_> = self
            .axes
            .iter()
            .zip(grid.chunk_shape())
            .map(|(axis, extent)| axis.chunks(*extent))
            .collect();
        let count = Selection { axes: axes.clone() }.count();
        ChunkSelection { axes, count }
    }
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

/// The chunks that a selection touches, as a row-major sequence that is never spelled out: any of them is
/// found by arithmetic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkSelection {
    axes: Vec<IndexSet>,
    count: Option<u64>,
}

impl ChunkSelection {
    /// Touched chunk positions along each axis.
    pub fn axes(&self) -> &[IndexSet] {
        &self.axes
    }

    /// Chunks in the sequence; `None` if there are 2^64 or more.
    pub fn count(&self) -> Option<u64> {
        self.count
    }

    /// The chunk at a position of the sequence, which must be below its count.
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
