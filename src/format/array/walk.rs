//! Row-major walks over chunks or cells.

/// Advances to the next indices of a row-major walk over `grid`. Returns `false` after the last.
pub fn next_indices(position: &mut [u64], grid: &[u64]) -> bool {
    for axis in (0..grid.len()).rev() {
        position[axis] += 1;
        if position[axis] < grid[axis] {
            return true;
        }
        position[axis] = 0;
    }
    false
}
