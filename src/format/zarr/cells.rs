//! Sizes, copies and type conversions of boxes of cells.

use serde_json::Value;

use crate::format::array::{BoxCopy, Dtype, checked_product};
pub(super) use crate::format::array::{crop, fill, repeated};
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
        let mut target = vec![9; 12];
        place(&[1, 2, 3, 4], &[2, 2], &mut target, &[3, 4], &[1, 2], 1);
        assert_eq!(target, [9, 9, 9, 9, 9, 9, 1, 2, 9, 9, 3, 4]);
    }

    #[test]
    fn sizes_that_do_not_fit() {
        assert_eq!(byte_count(&[1 << 40, 1 << 40], 1), None);
        assert_eq!(byte_count(&[1 << 40, 1 << 40, 0], 8), Some(0));
        assert_eq!(byte_count(&[], 8), Some(8));
        assert_eq!(clipped(&[5, 3], &[2, 4], &[2, 0]), [1, 3]);
    }
}
