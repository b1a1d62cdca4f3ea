//! Copies boxes of cells between row-major buffers. A box has a contiguous slice of every axis.

use crate::format::array::dataset::Dataset;
use crate::format::array::walk::next_indices;

/// A copy of a box of cells from one row-major box to another.
///
/// ```text
/// source_shape [4, 6]          target_shape [3, 4]
/// . . . . . .
/// . . a b c .                  . . . .
/// . . d e f .         ->       a b c .
/// . . . . . .                  d e f .
/// from [1, 2]  extents [2, 3]  to [1, 0]
/// ```
pub(crate) struct BoxCopy<'a> {
    pub source_shape: &'a [u64],
    /// The first index of the box along each axis of the source.
    pub from: &'a [u64],
    pub target_shape: &'a [u64],
    /// The first index of the box along each axis of the target.
    pub to: &'a [u64],
    /// The extents of the box.
    pub extents: &'a [u64],
    /// Bytes per cell.
    pub size: u64,
}

impl BoxCopy<'_> {
    /// Copies the cells of the box.
    ///
    /// The box must lie within both shapes, and the buffers must hold all cells of their shapes.
    pub fn run(&self, source: &[u8], target: &mut [u8]) {
        if self.extents.contains(&0) {
            return;
        }
        // Axes that the box covers in full in both shapes form one run with the next outer axis.
        let mut outer = self.extents.len();
        let mut run = self.size;
        while let Some(axis) = outer.checked_sub(1) {
            outer = axis;
            run *= self.extents[axis];
            let extent = self.extents[axis];
            if extent != self.source_shape[axis] || extent != self.target_shape[axis] {
                break;
            }
        }
        let run = run as usize;
        let mut position = vec![0; outer];
        loop {
            let (mut from, mut to) = (0, 0);
            for axis in 0..self.extents.len() {
                let offset = position.get(axis).copied().unwrap_or(0);
                from = from * self.source_shape[axis] + self.from[axis] + offset;
                to = to * self.target_shape[axis] + self.to[axis] + offset;
            }
            let (from, to) = ((from * self.size) as usize, (to * self.size) as usize);
            target[to..to + run].copy_from_slice(&source[from..from + run]);
            if !next_indices(&mut position, &self.extents[..outer]) {
                return;
            }
        }
    }
}

/// Copies the cells of one chunk out of a whole row-major array, replacing the contents of
/// `buffer`.
pub(crate) fn copy_chunk(
    dataset: &Dataset,
    size: u64,
    chunk: &[u64],
    cells: &[u8],
    buffer: &mut Vec<u8>,
) {
    let (from, extents) = dataset.chunk_bounds(chunk);
    // The chunk is part of `cells`, which is in memory, so its size fits a `usize`.
    buffer.resize((extents.iter().product::<u64>() * size) as usize, 0);
    let copy = BoxCopy {
        source_shape: &dataset.shape,
        from: &from,
        target_shape: &extents,
        to: &vec![0; extents.len()],
        extents: &extents,
        size,
    };
    copy.run(cells, buffer);
}
