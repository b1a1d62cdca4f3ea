//! Fills and crops row-major buffers of cells.

use crate::format::array::boxes::BoxCopy;
use crate::format::array::dataset::checked_product;

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
    fn fill_replaces_the_contents() {
        for (cell, total) in [(vec![0, 0], 6), (vec![1, 2, 3], 12), (vec![1, 2], 0)] {
            for mut buffer in [Vec::new(), vec![9; 20]] {
                fill(&mut buffer, &cell, total);
                assert_eq!(buffer, cell.repeat(total as usize / cell.len()));
            }
        }
    }
}
