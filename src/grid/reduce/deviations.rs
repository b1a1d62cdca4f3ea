//! Squared deviations from the mean.
//!
//! Cells are read twice while they are in the cache: once for their mean, then for their deviations
//! from it. This is precise whatever the mean is. Partial results are merged by the formulas of
//! Chan, Golub and LeVeque (1979).

use multiversion::multiversion;

use crate::grid::reduce::cell::{Cell, Keep};
use crate::grid::reduce::kernel_input::{KernelInput, prefetch};

/// The number of columns that are processed at once.
const TILE: usize = 256;
/// The maximum number of rows that are processed at once. With few rows, merging would dominate the
/// cost.
const MAX_ROWS: usize = 64;
/// The number of cells of a row that are read in two passes.
const LOOK: usize = 4096;
/// The number of partial sums per row.
const WIDTH: usize = 32;

/// The count, mean and sum of squared deviations of some cells.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Deviation {
    /// The number of kept cells.
    pub count: u64,
    /// The mean of the cells.
    pub mean: f64,
    /// The sum of squared deviations from the mean.
    pub squares: f64,
}

impl Deviation {
    /// Adds the cells that `other` describes.
    pub fn merge(&mut self, other: Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other;
            return;
        }
        let count = self.count + other.count;
        let (mine, theirs, all) = (self.count as f64, other.count as f64, count as f64);
        let apart = other.mean - self.mean;
        self.mean += apart * theirs / all;
        self.squares += other.squares + apart * apart * mine * theirs / all;
        self.count = count;
    }
}

/// Deviations by column: cell `i` of every row goes to group `i` after the group of the base.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn deviation_columns<C: Cell, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    deviations: &mut [Deviation],
) {
    piece.for_each_rows::<MAX_ROWS, MAX_ROWS>(|group, rows| {
        for at in (0..piece.length).step_by(TILE) {
            let width = (piece.length - at).min(TILE);
            let mut counts = [0u64; TILE];
            let mut means = [0.0; TILE];
            for row in rows {
                let cells = &row[at..][..width];
                prefetch(cells, piece.ahead.max(size_of_val(cells)));
                for ((bytes, mean), count) in cells.iter().zip(&mut means).zip(&mut counts) {
                    let cell = C::load(*bytes);
                    let keeps = keep.keeps(cell);
                    *mean += if keeps { cell.to_f64() } else { 0.0 };
                    *count += u64::from(keeps);
                }
            }
            for (mean, count) in means.iter_mut().zip(&counts) {
                *mean /= *count as f64;
            }
            let mut squares = [0.0; TILE];
            for row in rows {
                let cells = row[at..][..width].iter();
                for ((bytes, mean), squares) in cells.zip(&means).zip(&mut squares) {
                    let cell = C::load(*bytes);
                    let apart = cell.to_f64() - mean;
                    *squares += if keep.keeps(cell) { apart * apart } else { 0.0 };
                }
            }
            let targets = &mut deviations[group + at..][..width];
            for (i, target) in targets.iter_mut().enumerate() {
                target.merge(Deviation {
                    count: counts[i],
                    mean: means[i],
                    squares: squares[i],
                });
            }
        }
    });
}

/// Deviations by row: all cells of a row go to the group of its base.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn deviation_rows<C: Cell, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    deviations: &mut [Deviation],
) {
    piece.for_each_rows::<MAX_ROWS, MAX_ROWS>(|group, rows| {
        for row in rows {
            for cells in row.chunks(LOOK) {
                let mut deviation = None;
                if K::KEEPS_NUMBERS {
                    // A NaN among the cells makes the sum NaN.
                    let sum = add_up::<C>(cells, piece.ahead, |cell| cell.to_f64());
                    deviation = (!sum.is_nan()).then(|| {
                        let mean = sum / cells.len() as f64;
                        let square = |cell: C| (cell.to_f64() - mean) * (cell.to_f64() - mean);
                        Deviation {
                            count: cells.len() as u64,
                            mean,
                            squares: add_up::<C>(cells, 0, square),
                        }
                    });
                }
                let deviation = deviation.unwrap_or_else(|| {
                    let kept = |cell: C, term: f64| if keep.keeps(cell) { term } else { 0.0 };
                    let count = add_up::<C>(cells, piece.ahead, |cell| kept(cell, 1.0));
                    let mean = add_up::<C>(cells, 0, |cell| kept(cell, cell.to_f64())) / count;
                    let square = |cell: C| {
                        let apart = cell.to_f64() - mean;
                        kept(cell, apart * apart)
                    };
                    Deviation {
                        count: count as u64,
                        mean,
                        squares: add_up::<C>(cells, 0, square),
                    }
                });
                deviations[group].merge(deviation);
            }
        }
    });
}

#[inline(always)]
fn add_up<C: Cell>(cells: &[C::Bytes], ahead: usize, term: impl Fn(C) -> f64) -> f64 {
    let mut sums = [0.0; WIDTH];
    let (blocks, rest) = cells.as_chunks::<WIDTH>();
    for block in blocks {
        prefetch(block, ahead);
        for i in 0..WIDTH {
            sums[i] += term(C::load(block[i]));
        }
    }
    for cell in rest {
        sums[0] += term(C::load(*cell));
    }
    sums.iter().sum()
}
