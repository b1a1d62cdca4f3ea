//! Least and greatest cells.

use multiversion::multiversion;

use crate::grid::reduce::cell::{Cell, Keep};
use crate::grid::reduce::piece::Piece;

/// Results that are worked on at once.
const WIDTH: usize = 64;
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
    let length = piece.length;
    piece.for_each_rows(|group, rows| {
        let mut at = 0;
        while at + WIDTH <= length {
            columns::<C, K, MAX, HOPEFUL, WIDTH>(rows, at, group, keep, extremes);
            at += WIDTH;
        }
        while at + 8 <= length {
            columns::<C, K, MAX, HOPEFUL, 8>(rows, at, group, keep, extremes);
            at += 8;
        }
        while at < length {
            columns::<C, K, MAX, HOPEFUL, 1>(rows, at, group, keep, extremes);
            at += 1;
        }
    });
}

#[inline(always)]
fn columns<C: Cell, K: Keep<C>, const MAX: bool, const HOPEFUL: bool, const WIDTH: usize>(
    rows: &[&[C::Bytes]],
    at: usize,
    group: usize,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    let mut found = [start::<C, MAX>(); WIDTH];
    for row in rows {
        if let Some(cells) = row[at..].first_chunk::<WIDTH>() {
            for i in 0..WIDTH {
                let cell = C::load(cells[i]);
                let cell = if HOPEFUL || keep.keeps(cell) {
                    cell
                } else {
                    start::<C, MAX>()
                };
                found[i] = better::<C, MAX>(cell, found[i]);
            }
        }
    }
    let mut is_unclear = false;
    for one in found {
        is_unclear |= one == start::<C, MAX>();
    }
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
    let targets = &mut extremes.found[group + at..][..WIDTH];
    for i in 0..WIDTH {
        targets[i] = better::<C, MAX>(found[i], targets[i]);
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
        let cell = if HOPEFUL || keep.keeps(cell) {
            cell
        } else {
            start::<C, MAX>()
        };
        found[i] = better::<C, MAX>(cell, found[i]);
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
