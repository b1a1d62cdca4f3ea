//! Least and greatest cells.

use multiversion::multiversion;

use crate::grid::reduce::cell::{Cell, Keep};
use crate::grid::reduce::piece::Piece;

/// Results that a run is looked at for.
const WIDTH: usize = 64;
/// Columns that are worked on at once.
const TILE: usize = 1024;
/// Columns for which less is set up.
const NARROW: usize = 64;
/// Cells of a run between two looks at its result.
const LOOK: usize = 4096;

/// Where the least or greatest cells of each group go.
#[derive(Debug)]
pub struct Extremes<'a, C> {
    /// To start from the opposite end of all numbers.
    pub found: &'a mut [C],
    /// Whether a cell that counts is where `found` starts from: only for such a group does it matter. Empty as long
    /// as there is none.
    pub seen: &'a mut Vec<bool>,
}

#[inline(always)]
fn start<C: Cell, const MAX: bool>() -> C {
    if MAX { C::LEAST } else { C::GREATEST }
}

/// The better one of two; that of before, if the other is not a number.
#[inline(always)]
fn better<C: Cell, const MAX: bool>(cell: C, before: C) -> C {
    let is_better = if MAX { cell > before } else { cell < before };
    if is_better { cell } else { before }
}

/// The same, where a cell that does not count is never better.
#[inline(always)]
fn better_kept<C: Cell, K: Keep<C>, const MAX: bool>(cell: C, keep: K, before: C) -> C {
    let cell = if keep.keeps(cell) {
        cell
    } else {
        start::<C, MAX>()
    };
    better::<C, MAX>(cell, before)
}

/// Extremes by column: the cells at the same place of all rows go to the same group, the next ones to the next.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn extreme_columns<C: Cell, K: Keep<C>, const MAX: bool, const HOPEFUL: bool>(
    piece: &Piece<'_, C::Bytes>,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    piece.for_each_rows(|group, rows| {
        if piece.length <= NARROW {
            columns::<C, K, MAX, HOPEFUL, NARROW>(rows, 0, piece.length, group, keep, extremes);
        } else {
            for at in (0..piece.length).step_by(TILE) {
                let width = (piece.length - at).min(TILE);
                columns::<C, K, MAX, HOPEFUL, TILE>(rows, at, width, group, keep, extremes);
            }
        }
    });
}

#[inline(always)]
fn columns<C: Cell, K: Keep<C>, const MAX: bool, const HOPEFUL: bool, const TILE: usize>(
    rows: &[&[C::Bytes]],
    at: usize,
    width: usize,
    group: usize,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    // On the stack, where nothing else can point to: the compiler need not ask before it vectorizes.
    let mut found = [start::<C, MAX>(); TILE];
    if HOPEFUL {
        let (fours, rest) = rows.as_chunks::<4>();
        for four in fours {
            hopeful::<C, MAX, TILE, 4>(four, at, width, &mut found);
        }
        for one in rest {
            hopeful::<C, MAX, TILE, 1>(&[one], at, width, &mut found);
        }
    } else {
        for row in rows {
            for (bytes, found) in row[at..][..width].iter().zip(&mut found) {
                *found = better_kept::<C, _, MAX>(C::load(*bytes), keep, *found);
            }
        }
    }
    let found = &found[..width];
    let is_unclear = found
        .iter()
        .fold(false, |any, one| any | (*one == start::<C, MAX>()));
    if is_unclear {
        for (i, one) in found.iter().enumerate() {
            let is_seen = *one == start::<C, MAX>()
                && rows.iter().any(|row| {
                    let cell = C::load(row[at + i]);
                    cell == *one && keep.keeps(cell)
                });
            if is_seen {
                extremes.seen.resize(extremes.found.len(), false);
                extremes.seen[group + at + i] = true;
            }
        }
    }
    let targets = &mut extremes.found[group + at..][..width];
    for (target, one) in targets.iter_mut().zip(found) {
        *target = better::<C, MAX>(*one, *target);
    }
}

/// Looks at all cells of some rows; one that is not a number is never better.
#[inline(always)]
fn hopeful<C: Cell, const MAX: bool, const TILE: usize, const ROWS: usize>(
    rows: &[&[C::Bytes]; ROWS],
    at: usize,
    width: usize,
    found: &mut [C; TILE],
) {
    let rows: [&[C::Bytes]; ROWS] = std::array::from_fn(|row| &rows[row][at..][..width]);
    for (i, found) in found[..width].iter_mut().enumerate() {
        let mut best = *found;
        for row in rows {
            best = better::<C, MAX>(C::load(row[i]), best);
        }
        *found = best;
    }
}

/// Extremes by row: all cells of a row go to the group of its base.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn extreme_rows<C: Cell, K: Keep<C>, const MAX: bool, const HOPEFUL: bool>(
    piece: &Piece<'_, C::Bytes>,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    piece.for_each_rows(|group, rows| {
        for row in rows {
            for cells in row.chunks(LOOK) {
                let found = run::<C, K, MAX, HOPEFUL>(cells, keep);
                if found == start::<C, MAX>() {
                    let is_seen = cells.iter().any(|bytes| {
                        let cell = C::load(*bytes);
                        cell == found && keep.keeps(cell)
                    });
                    if is_seen {
                        extremes.seen.resize(extremes.found.len(), false);
                        extremes.seen[group] = true;
                    }
                }
                let target = &mut extremes.found[group];
                *target = better::<C, MAX>(found, *target);
            }
        }
    });
}

#[inline(always)]
fn run<C: Cell, K: Keep<C>, const MAX: bool, const HOPEFUL: bool>(
    cells: &[C::Bytes],
    keep: K,
) -> C {
    let mut found = [start::<C, MAX>(); WIDTH];
    let (blocks, rest) = cells.as_chunks::<WIDTH>();
    let mut look = |i: usize, bytes: C::Bytes| {
        let cell = C::load(bytes);
        found[i] = if HOPEFUL {
            better::<C, MAX>(cell, found[i])
        } else {
            better_kept::<C, _, MAX>(cell, keep, found[i])
        };
    };
    for block in blocks {
        for i in 0..WIDTH {
            look(i, block[i]);
        }
    }
    for cell in rest {
        look(0, *cell);
    }
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            found[i] = better::<C, MAX>(found[i + half], found[i]);
        }
        half /= 2;
    }
    found[0]
}
