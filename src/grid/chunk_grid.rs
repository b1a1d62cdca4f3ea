//! The regular grid of chunks over an array, and windows: boxes of cells.

use std::ops::Range;

/// A box of cells: a contiguous range of indices along each axis.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Window {
    ranges: Vec<Range<u64>>,
}

impl Window {
    /// Returns the box of these ranges, one per axis.
    pub fn new(ranges: Vec<Range<u64>>) -> Self {
        Self { ranges }
    }

    /// Returns the range of indices along each axis.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns the number of cells along each axis.
    pub fn shape(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + '_ {
        self.ranges.iter().map(|range| range.end - range.start)
    }

    /// Returns the number of cells in the box. The product cannot overflow: a window lies in an
    /// array whose cell count fits in 64 bits.
    pub fn cells(&self) -> u64 {
        self.shape().product()
    }
}

/// A regular grid of chunks over an array. Chunks at the border are clipped to the shape, and a
/// chunk may be longer than the array along an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkGrid {
    shape: Vec<u64>,
    chunk_shape: Vec<u64>,
}

impl ChunkGrid {
    /// Returns a grid over an array of this shape. Every extent in `chunk_shape` must be above
    /// zero.
    pub fn new(shape: Vec<u64>, chunk_shape: Vec<u64>) -> Self {
        debug_assert_eq!(shape.len(), chunk_shape.len());
        debug_assert!(!chunk_shape.contains(&0));
        Self { shape, chunk_shape }
    }

    /// Returns the number of cells along each axis.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the number of cells per chunk along each axis.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.chunk_shape
    }

    /// Returns `true` if both grids cut the same shape into the same chunks. Chunk extents are
    /// compared after they are clipped to the shape.
    pub fn has_same_chunks(&self, other: &Self) -> bool {
        let clipped = |grid: &Self| -> Vec<u64> {
            let extents = grid.chunk_shape.iter().zip(&grid.shape);
            extents
                .map(|(extent, length)| *extent.min(length))
                .collect()
        };
        self.shape == other.shape && clipped(self) == clipped(other)
    }

    /// Returns the number of chunks, or `None` if there are 2^64 or more.
    pub fn count(&self) -> Option<u64> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape
            .iter()
            .zip(&self.chunk_shape)
            .try_fold(1u64, |count, (extent, chunk)| {
                count.checked_mul(extent.div_ceil(*chunk))
            })
    }

    /// Returns the cells of a chunk, clipped to the shape. The chunk must be one of the grid.
    pub fn window(&self, chunk: &[u64]) -> Window {
        let ranges = chunk
            .iter()
            .zip(self.shape.iter().zip(&self.chunk_shape))
            .map(|(position, (extent, size))| {
                let start = position * size;
                start..start + (extent - start).min(*size)
            })
            .collect();
        Window::new(ranges)
    }

    /// Returns the chunks that a window touches, as a range of chunk indices along each axis.
    pub fn chunks_in(&self, window: &Window) -> Vec<Range<u64>> {
        window
            .ranges()
            .iter()
            .zip(&self.chunk_shape)
            .map(|(range, size)| range.start / size..range.end.div_ceil(*size))
            .collect()
    }

    /// Returns the indices of the `nth` element, in row-major order, of the box with these ranges.
    pub fn nth_of(ranges: &[Range<u64>], nth: u64) -> Vec<u64> {
        let mut rest = nth;
        let mut position = vec![0; ranges.len()];
        for (position, range) in position.iter_mut().zip(ranges).rev() {
            let extent = range.end - range.start;
            *position = range.start + rest % extent;
            rest /= extent;
        }
        position
    }

    /// Returns the chunk that has exactly the cells of the window, if there is one.
    pub fn chunk_equal_to(&self, window: &Window) -> Option<Vec<u64>> {
        let chunk: Vec<u64> = window
            .ranges()
            .iter()
            .zip(&self.chunk_shape)
            .map(|(range, size)| range.start / size)
            .collect();
        (self.window(&chunk) == *window).then_some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn border_chunks_are_clipped() {
        let grid = ChunkGrid::new(vec![7, 5], vec![3, 8]);
        assert_eq!(grid.count(), Some(3));
        assert_eq!(grid.window(&[0, 0]).ranges(), [0..3, 0..5]);
        assert_eq!(grid.window(&[2, 0]).ranges(), [6..7, 0..5]);
        assert_eq!(grid.window(&[2, 0]).cells(), 5);
        assert_eq!(
            grid.chunk_equal_to(&Window::new(vec![6..7, 0..5])),
            Some(vec![2, 0])
        );
        assert_eq!(grid.chunk_equal_to(&Window::new(vec![6..7, 0..4])), None);
        assert_eq!(grid.chunks_in(&Window::new(vec![2..4, 0..5])), [0..2, 0..1]);
    }

    #[test]
    fn extreme_extents() {
        assert_eq!(
            ChunkGrid::new(vec![0, u64::MAX], vec![1, 1]).count(),
            Some(0)
        );
        assert_eq!(ChunkGrid::new(vec![u64::MAX; 2], vec![1, 1]).count(), None);
        let grid = ChunkGrid::new(vec![u64::MAX], vec![u64::MAX]);
        assert_eq!(grid.window(&[0]).cells(), u64::MAX);
    }
}
