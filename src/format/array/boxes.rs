//! Fills, crops and copies boxes of cells in row-major buffers. A box has a contiguous slice of every axis.

use crate::format::array::dataset::{Dataset, checked_product};
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

/// Returns `total` bytes filled with copies of a cell.
pub(crate) fn repeated(cell: &[u8], total: u64) -> Vec<u8> {
    if cell.iter().all(|byte| *byte == 0) {
        // Zeroed memory comes from the system, which clears a page only when it is first touched.
        return vec![0; total as usize];
    }
    cell.repeat(total as usize / cell.len())
}

/// Fills a buffer with `total` bytes of copies of a cell. Reuses the buffer's memory if it
/// suffices.
pub(crate) fn fill(buffer: &mut Vec<u8>, cell: &[u8], total: u64) {
    let total = total as usize;
    if buffer.capacity() < total {
        *buffer = repeated(cell, total as u64);
        return;
    }
    buffer.clear();
    buffer.extend_from_slice(&cell[..cell.len().min(total)]);
    while buffer.len() < total {
        buffer.extend_from_within(..buffer.len().min(total - buffer.len()));
    }
}

/// Keeps the first `extents` cells along each axis. `spare` is a scratch buffer.
pub(crate) fn crop(
    cells: &mut Vec<u8>,
    shape: &[u64],
    extents: &[u64],
    size: u64,
    spare: &mut Vec<u8>,
) {
    let total = checked_product(extents)
        .and_then(|cells| cells.checked_mul(size))
        .unwrap_or(0) as usize;
    if shape.get(1..) == extents.get(1..) {
        cells.truncate(total);
        return;
    }
    spare.resize(total, 0);
    let origin = vec![0; extents.len()];
    let copy = BoxCopy {
        source_shape: shape,
        from: &origin,
        target_shape: extents,
        to: &origin,
        extents,
        size,
    };
    copy.run(cells, spare);
    std::mem::swap(cells, spare);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_cropped() {
        let cropped = |shape: &[u64], extents: &[u64], size| {
            let mut cells = (0..12).collect();
            // The contents of the scratch buffer must not leak into the result.
            crop(&mut cells, shape, extents, size, &mut vec![77; 20]);
            cells
        };
        assert_eq!(cropped(&[3, 4], &[2, 3], 1), [0, 1, 2, 4, 5, 6]);
        assert_eq!(cropped(&[3, 2, 2], &[2, 2, 2], 1), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(cropped(&[3, 2], &[2, 1], 2), [0, 1, 4, 5]);
        assert_eq!(cropped(&[12], &[2], 1), [0, 1]);
        assert_eq!(cropped(&[], &[], 12).len(), 12);
    }

    #[test]
    fn fill_replaces_what_was_there() {
        for (cell, total) in [(vec![0, 0], 6), (vec![1, 2, 3], 12), (vec![1, 2], 0)] {
            for mut buffer in [Vec::new(), vec![9; 20]] {
                fill(&mut buffer, &cell, total);
                assert_eq!(buffer, cell.repeat(total as usize / cell.len()));
            }
        }
    }
}
