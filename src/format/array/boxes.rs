//! Boxes of cells, and copies of one into another.

use crate::format::array::dataset::Dataset;
use crate::format::array::walk::next_position;

/// A copy of a box of cells out of one box into another; both are row-major.
pub(crate) struct BoxCopy<'a> {
    pub source_shape: &'a [u64],
    /// Where in the source.
    pub from: &'a [u64],
    pub target_shape: &'a [u64],
    /// Where in the target.
    pub to: &'a [u64],
    /// Extents of what is copied.
    pub extents: &'a [u64],
    /// Bytes of a cell.
    pub size: u64,
}

impl BoxCopy<'_> {
    /// What is copied lies within both shapes, and the slices have all cells of these.
    pub fn run(&self, source: &[u8], target: &mut [u8]) {
        if self.extents.contains(&0) {
            return;
        }
        // Inner axes that are whole in both are copied as one.
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
            if !next_position(&mut position, &self.extents[..outer]) {
                return;
            }
        }
    }
}

/// The cells of one chunk out of a whole row-major array, in place of what the buffer holds.
pub(crate) fn copy_chunk(
    dataset: &Dataset,
    size: u64,
    chunk: &[u64],
    cells: &[u8],
    buffer: &mut Vec<u8>,
) {
    let (from, extents) = dataset.chunk_place(chunk);
    // They are part of what is in memory.
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
