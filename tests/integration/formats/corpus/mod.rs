//! The files in `tests/data`, which the `tetration` crate wrote, against the NumPy arrays they were
//! made from.

mod converted;
mod dtypes;
mod specials;
mod weather;

use tet_sql::grid::Window;
use tet_sql::provider::source::GridSource;

use crate::support::cells::{Cell, OpenFile, assert_same};
use crate::support::npy::slice_indices;

/// Compares slices of a dataset with the same slices of its array: the whole array, every chunk,
/// and random boxes that cross chunk boundaries, some of them single cells.
fn assert_slices_same(file: &OpenFile, dataset: &str, expected: &[Cell]) {
    let grid = file.grid(dataset);
    let grid = grid.chunk_grid();
    let shape = grid.shape();
    let mut windows = vec![Window::new(shape.iter().map(|extent| 0..*extent).collect())];
    let mut chunk = vec![0; shape.len()];
    'chunks: loop {
        windows.push(grid.window(&chunk));
        for axis in (0..shape.len()).rev() {
            chunk[axis] += 1;
            if chunk[axis] * grid.chunk_shape()[axis] < shape[axis] {
                continue 'chunks;
            }
            chunk[axis] = 0;
        }
        break;
    }
    // Knuth's MMIX generator. Any sequence that is the same on every run would do. Large arrays get
    // fewer boxes.
    let mut state = 0x5eed_u64;
    let mut below = |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let count = if expected.len() > 10_000 { 12 } else { 40 };
    for number in 0..count {
        let ranges = shape.iter().map(|extent| {
            let start = below(*extent);
            let length = if number % 4 == 0 {
                1
            } else {
                1 + below(extent - start)
            };
            start..start + length
        });
        windows.push(Window::new(ranges.collect()));
    }
    for window in windows {
        assert_slice_same(file, dataset, &window, expected);
    }
}

/// Compares all cells of a dataset, read as one slice, with its array.
fn assert_whole_same(file: &OpenFile, dataset: &str, expected: &[Cell]) {
    let grid = file.grid(dataset);
    let ranges = grid.chunk_grid().shape().iter().map(|extent| 0..*extent);
    assert_slice_same(file, dataset, &Window::new(ranges.collect()), expected);
}

fn assert_slice_same(file: &OpenFile, dataset: &str, window: &Window, expected: &[Cell]) {
    let grid = file.grid(dataset);
    let positions = slice_indices(grid.chunk_grid().shape(), window.ranges());
    let slice: Vec<_> = positions
        .into_iter()
        .map(|position| expected[position])
        .collect();
    let what = format!("{dataset}{:?}", window.ranges());
    assert_same(&file.window(dataset, window), &slice, &what);
}
