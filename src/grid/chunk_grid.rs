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
///
/// The array need not start with a whole chunk. The *phase* of an axis is the number of cells of
/// the first chunk that lie before the array:
///
/// ```text
/// chunk_shape [4], phase [3], shape [7]
///
/// chunks      |  0        |  1        |  2        |
/// cells        .  .  .  0  1  2  3  4  5  6  .  .
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkGrid {
    shape: Vec<u64>,
    chunk_shape: Vec<u64>,
    phase: Vec<u64>,
}

/// The chunks along one axis of a [`ChunkGrid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisChunks {
    length: u64,
    extent: u64,
    /// The number of cells of the first chunk that belong to the array, before clipping.
    first: u64,
}

impl AxisChunks {
    /// Returns the chunks of `extent` cells along an axis of `length` cells, the first of which
    /// starts `phase` cells before the axis.
    pub fn new(length: u64, extent: u64, phase: u64) -> Self {
        debug_assert!(phase < extent);
        Self {
            length,
            extent,
            first: extent - phase,
        }
    }

    /// Returns the number of chunks.
    pub fn count(&self) -> u64 {
        match self.length.checked_sub(1) {
            Some(last) => self.chunk_at(last) + 1,
            None => 0,
        }
    }

    /// Returns the index of the chunk that contains a cell, given by its index along the axis.
    pub fn chunk_at(&self, index: u64) -> u64 {
        match index.checked_sub(self.first) {
            Some(behind) => behind / self.extent + 1,
            None => 0,
        }
    }

    /// Returns the indices in a chunk, clipped to the axis. `chunk` must be below [`Self::count`].
    pub fn range(&self, chunk: u64) -> Range<u64> {
        // In this order, no intermediate result exceeds the length of the axis.
        let (start, extent) = match chunk.checked_sub(1) {
            Some(before) => (self.first + before * self.extent, self.extent),
            None => (0, self.first),
        };
        start..start + (self.length - start).min(extent)
    }

    /// Returns the indices in consecutive chunks. `chunks` must not be empty.
    pub fn span(&self, chunks: &Range<u64>) -> Range<u64> {
        self.range(chunks.start).start..self.range(chunks.end - 1).end
    }

    /// Returns the lengths of the chunks, as far as they can differ between axes of the same
    /// length: the number of chunks, the length of the first, and that of all others but the last.
    fn cuts(&self) -> (u64, u64, u64) {
        let count = self.count();
        let first = if count > 1 { self.first } else { 0 };
        (count, first, if count > 2 { self.extent } else { 0 })
    }
}

impl ChunkGrid {
    /// Returns a grid over an array of this shape that starts with a whole chunk. Every extent in
    /// `chunk_shape` must be above zero.
    pub fn new(shape: Vec<u64>, chunk_shape: Vec<u64>) -> Self {
        debug_assert_eq!(shape.len(), chunk_shape.len());
        debug_assert!(!chunk_shape.contains(&0));
        Self {
            phase: vec![0; shape.len()],
            shape,
            chunk_shape,
        }
    }

    /// Moves the start of the first chunk before the array, by this number of cells along each
    /// axis. Each number must be below the extent of a chunk.
    pub fn with_phase(mut self, phase: Vec<u64>) -> Self {
        debug_assert_eq!(phase.len(), self.shape.len());
        self.phase = phase;
        self
    }

    /// Returns the number of cells along each axis.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the number of cells per chunk along each axis.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.chunk_shape
    }

    /// Returns the number of cells of the first chunk that lie before the array, along each axis.
    pub fn phase(&self) -> &[u64] {
        &self.phase
    }

    /// Returns the chunks along each axis.
    pub fn axes(&self) -> impl DoubleEndedIterator<Item = AxisChunks> + ExactSizeIterator + '_ {
        (0..self.shape.len()).map(|axis| self.axis(axis))
    }

    /// Returns the chunks along one axis.
    pub fn axis(&self, axis: usize) -> AxisChunks {
        AxisChunks::new(self.shape[axis], self.chunk_shape[axis], self.phase[axis])
    }

    /// Returns `true` if both grids cut the same shape into the same chunks. Chunks are compared
    /// after they are clipped to the shape.
    pub fn has_same_chunks(&self, other: &Self) -> bool {
        self.shape == other.shape
            && self
                .axes()
                .zip(other.axes())
                .all(|(one, other)| one.cuts() == other.cuts())
    }

    /// Returns the number of chunks, or `None` if there are 2^64 or more.
    pub fn count(&self) -> Option<u64> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.axes()
            .try_fold(1u64, |count, axis| count.checked_mul(axis.count()))
    }

    /// Returns the cells of a chunk, clipped to the shape. The chunk must be one of the grid.
    pub fn window(&self, chunk: &[u64]) -> Window {
        let ranges = chunk.iter().zip(self.axes());
        Window::new(ranges.map(|(chunk, axis)| axis.range(*chunk)).collect())
    }

    /// Returns the chunks that a window touches, as a range of chunk indices along each axis.
    pub fn chunks_in(&self, window: &Window) -> Vec<Range<u64>> {
        let ranges = window.ranges().iter().zip(self.axes());
        ranges
            .map(|(range, axis)| {
                let first = axis.chunk_at(range.start);
                match range.is_empty() {
                    true => first..first,
                    false => first..axis.chunk_at(range.end - 1) + 1,
                }
            })
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
        let starts = window.ranges().iter().zip(self.axes());
        let chunk: Vec<u64> = starts
            .map(|(range, axis)| axis.chunk_at(range.start))
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

    #[test]
    fn grids_with_a_phase_by_brute_force() {
        for (length, extent) in (0..12).flat_map(|length| (1..9).map(move |e| (length, e))) {
            for phase in 0..extent {
                let grid = ChunkGrid::new(vec![length], vec![extent]).with_phase(vec![phase]);
                let chunk_of: Vec<u64> = (0..length).map(|cell| (cell + phase) / extent).collect();
                let count = chunk_of.last().map_or(0, |last| last + 1);
                assert_eq!(grid.count(), Some(count));
                for chunk in 0..count {
                    let cells: Vec<u64> = (0..length)
                        .filter(|cell| chunk_of[*cell as usize] == chunk)
                        .collect();
                    let window = grid.window(&[chunk]);
                    assert_eq!(window.ranges()[0].clone().collect::<Vec<_>>(), cells);
                    assert_eq!(grid.chunk_equal_to(&window), Some(vec![chunk]));
                }
                for (start, end) in (0..length).flat_map(|s| (s + 1..=length).map(move |e| (s, e)))
                {
                    let window = Window::new(vec![start..end]);
                    let touched = chunk_of[start as usize]..chunk_of[end as usize - 1] + 1;
                    assert_eq!(grid.chunks_in(&window), std::slice::from_ref(&touched));
                    let span = grid.axis(0).span(&touched);
                    assert!(span.start <= start && end <= span.end);
                }
                let windows = |grid: &ChunkGrid| -> Vec<Window> {
                    let count = grid.count().unwrap();
                    (0..count).map(|chunk| grid.window(&[chunk])).collect()
                };
                for (other, phase) in (1..9).flat_map(|e| (0..e).map(move |phase| (e, phase))) {
                    let other = ChunkGrid::new(vec![length], vec![other]).with_phase(vec![phase]);
                    let are_same = windows(&grid) == windows(&other);
                    assert_eq!(grid.has_same_chunks(&other), are_same, "{grid:?} {other:?}");
                }
            }
        }
        let extreme = ChunkGrid::new(vec![u64::MAX], vec![u64::MAX]).with_phase(vec![1 << 63]);
        assert_eq!(extreme.count(), Some(2));
        assert_eq!(extreme.window(&[1]).ranges(), [(1 << 63) - 1..u64::MAX]);
    }
}
