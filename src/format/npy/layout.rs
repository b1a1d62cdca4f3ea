//! Chunks of arrays that are stored as a whole: their shapes, and the order of their cells.

/// Maximum size of a chunk in bytes. The file has no chunks, so the chunk grid only divides reads.
const CHUNK_BYTES: u64 = 4 << 20;

/// Returns the chunk shape for writing a row-major array: each chunk is contiguous in the file.
#[cfg(any(feature = "cli", feature = "hdf5"))]
pub(crate) fn contiguous_chunk(shape: &[u64], size: u64) -> Vec<u64> {
    chunk_shape(shape, size, false)
}

/// Returns the shape of chunks that are contiguous in the file and at most [`CHUNK_BYTES`] long.
///
/// A chunk spans as many of the fastest axes as fit, and a slice of the next axis.
pub(super) fn chunk_shape(shape: &[u64], size: u64, fortran_order: bool) -> Vec<u64> {
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    if !fortran_order {
        axes.reverse();
    }
    let mut room = CHUNK_BYTES / size;
    let mut chunk = vec![1; shape.len()];
    for axis in axes {
        chunk[axis] = shape[axis].clamp(1, room.max(1));
        room = match chunk[axis] == shape[axis] {
            true => room / chunk[axis],
            // A chunk that also spanned slower axes would not be contiguous.
            false => 1,
        };
    }
    chunk
}

/// Reorders cells from column-major (first axis fastest) to row-major (last axis fastest).
pub(super) fn transposed(cells: &[u8], extents: &[u64], size: u64) -> Vec<u8> {
    let size = size as usize;
    // The distance in bytes between neighbours along each axis, in column-major order.
    let mut step = size;
    let strides: Vec<usize> = extents
        .iter()
        .map(|extent| {
            let stride = step;
            step *= *extent as usize;
            stride
        })
        .collect();
    let mut turned = Vec::with_capacity(cells.len());
    let (Some(last), Some(last_stride)) = (extents.last(), strides.last()) else {
        return cells.to_vec();
    };
    let mut position = vec![0u64; extents.len()];
    while turned.len() < cells.len() {
        let axes = position.iter().zip(&strides);
        let start: usize = axes.map(|(at, stride)| *at as usize * stride).sum();
        for number in 0..*last as usize {
            turned.extend_from_slice(&cells[start + number * last_stride..][..size]);
        }
        for axis in (0..extents.len() - 1).rev() {
            position[axis] += 1;
            if position[axis] < extents[axis] {
                break;
            }
            position[axis] = 0;
        }
    }
    turned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_contiguous() {
        assert_eq!(chunk_shape(&[1000, 512, 512], 4, false), [4, 512, 512]);
        assert_eq!(chunk_shape(&[512, 512, 1000], 4, true), [512, 512, 4]);
        assert_eq!(chunk_shape(&[3, 5_000_000], 1, false), [1, 4 << 20]);
        assert_eq!(chunk_shape(&[0, 7], 1, false), [1, 7]);
    }

    #[test]
    fn column_major_cells_are_transposed() {
        // The 2 x 3 array [[a, b, c], [d, e, f]].
        assert_eq!(transposed(b"adbecf", &[2, 3], 1), b"abcdef");
        assert_eq!(transposed(b"aaddbbeeccff", &[2, 3], 2), b"aabbccddeeff");
        assert_eq!(transposed(b"abc", &[3], 1), b"abc");
    }
}
