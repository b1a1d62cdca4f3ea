//! Walking over chunks and over the cells of one.

use crate::format::array::dataset::Dataset;

/// Steps to the next position of a row-major walk over `grid`; false after the last.
pub(crate) fn next_position(position: &mut [u64], grid: &[u64]) -> bool {
    for axis in (0..grid.len()).rev() {
        position[axis] += 1;
        if position[axis] < grid[axis] {
            return true;
        }
        position[axis] = 0;
    }
    false
}

/// Appends the cells of one chunk out of a whole row-major array.
pub(crate) fn copy_chunk(
    dataset: &Dataset,
    size: u64,
    chunk: &[u64],
    cells: &[u8],
    buffer: &mut Vec<u8>,
) {
    let (start, extent) = dataset.chunk_place(chunk);
    let last = extent.len() - 1;
    let run = (extent[last] * size) as usize;
    let mut row = vec![0; last];
    loop {
        let mut offset = 0;
        for (axis, (start, shape)) in start.iter().zip(&dataset.shape).enumerate() {
            let position = start + row.get(axis).copied().unwrap_or(0);
            offset = offset * shape + position;
        }
        let offset = (offset * size) as usize;
        buffer.extend_from_slice(&cells[offset..offset + run]);
        if !next_position(&mut row, &extent[..last]) {
            return;
        }
    }
}
