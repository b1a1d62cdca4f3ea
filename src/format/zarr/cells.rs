//! Sizes, copies and type conversions of boxes of cells.

use serde_json::Value;

use crate::format::array::{BoxCopy, Dtype, checked_product};
use crate::format::zarr::metadata::element::CellKind;

/// Returns the bytes of a box of cells of `size` bytes each, or `None` on overflow.
///
/// The result is zero if any extent is zero, however large the others are.
pub(super) fn byte_count(shape: &[u64], size: u64) -> Option<u64> {
    checked_product(shape)?.checked_mul(size)
}

/// Parses a JSON list of at most `most` unsigned integers.
pub(super) fn extents(value: &Value, most: usize) -> Option<Vec<u64>> {
    let list = value.as_array().filter(|list| list.len() <= most)?;
    list.iter().map(Value::as_u64).collect()
}

/// Returns `total` bytes filled with copies of a cell.
pub(super) fn repeated(cell: &[u8], total: u64) -> Vec<u8> {
    if cell.iter().all(|byte| *byte == 0) {
        // Zeroed memory comes from the system, which clears a page only when it is first touched.
        return vec![0; total as usize];
    }
    cell.repeat(total as usize / cell.len())
}

/// Fills a buffer with `total` bytes of copies of a cell. Reuses the buffer's memory if it
/// suffices.
pub(super) fn fill(buffer: &mut Vec<u8>, cell: &[u8], total: u64) {
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

/// Returns the extents of a chunk, clipped to the array's shape. The chunk must be in the grid.
pub(super) fn clipped(shape: &[u64], chunk_shape: &[u64], chunk: &[u64]) -> Vec<u64> {
    let axes = shape.iter().zip(chunk_shape).zip(chunk);
    axes.map(|((extent, size), position)| (extent - position * size).min(*size))
        .collect()
}

/// Copies a box of cells into a larger box, starting at `origin`.
pub(super) fn place(
    source: &[u8],
    source_shape: &[u64],
    target: &mut [u8],
    target_shape: &[u64],
    origin: &[u64],
    size: u64,
) {
    let copy = BoxCopy {
        source_shape,
        from: &vec![0; origin.len()],
        target_shape,
        to: origin,
        extents: source_shape,
        size,
    };
    copy.run(source, target);
}

/// Keeps the first `extents` cells along each axis. `spare` is a scratch buffer.
pub(super) fn crop(
    cells: &mut Vec<u8>,
    shape: &[u64],
    extents: &[u64],
    size: u64,
    spare: &mut Vec<u8>,
) {
    let total = byte_count(extents, size).unwrap_or(0) as usize;
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

/// Converts stored cells in the machine's byte order to little-endian cells of the dataset's type.
pub(super) fn convert(kind: &CellKind, dtype: Dtype, cells: &mut Vec<u8>) {
    match kind {
        CellKind::Boolean => {
            for byte in cells {
                *byte = u8::from(*byte != 0);
            }
        }
        _ if cfg!(target_endian = "big") => {
            for cell in cells.chunks_exact_mut(dtype.size() as usize) {
                cell.reverse();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_in_boxes() {
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
        let mut target = vec![9; 12];
        place(&[1, 2, 3, 4], &[2, 2], &mut target, &[3, 4], &[1, 2], 1);
        assert_eq!(target, [9, 9, 9, 9, 9, 9, 1, 2, 9, 9, 3, 4]);
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

    #[test]
    fn sizes_that_do_not_fit() {
        assert_eq!(byte_count(&[1 << 40, 1 << 40], 1), None);
        assert_eq!(byte_count(&[1 << 40, 1 << 40, 0], 8), Some(0));
        assert_eq!(byte_count(&[], 8), Some(8));
        assert_eq!(clipped(&[5, 3], &[2, 4], &[2, 0]), [1, 3]);
    }
}
