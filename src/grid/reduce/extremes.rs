//! The min or max of cells.

use multiversion::multiversion;

use crate::grid::reduce::cell::{Cell, Keep};
use crate::grid::reduce::kernel_input::{Base, KernelInput, SHORT, STREAMS, prefetch};

/// The number of cells of a row that are compared at once, with results that stay in registers.
const WIDTH: usize = 64;
/// The number of cells of a row that are reduced before the group is updated.
const LOOK: usize = 8192;

/// The min or max of each group.
#[derive(Debug)]
pub struct Extremes<'a, C> {
    /// The min or max cell of each group so far. Starts at the opposite end of the range of the
    /// type.
    pub found: &'a mut [C],
    /// `true` for each group with a kept cell that equals the start value. For other groups,
    /// `found` shows whether a cell was kept. Empty until there is such a group.
    pub seen: &'a mut Vec<bool>,
}

impl<C> Extremes<'_, C> {
    /// Records that the group has a kept cell that equals the start value.
    fn see(&mut self, group: usize) {
        self.seen.resize(self.found.len(), false);
        self.seen[group] = true;
    }
}

#[inline(always)]
fn start<C: Cell, const MAX: bool>() -> C {
    if MAX { C::LOWEST } else { C::HIGHEST }
}

/// Returns the larger of two cells if `MAX`, else the smaller, or `before` if `cell` is NaN.
#[inline(always)]
fn better<C: Cell, const MAX: bool>(cell: C, before: C) -> C {
    let is_better = if MAX { cell > before } else { cell < before };
    if is_better { cell } else { before }
}

/// Returns the larger of two cells if `MAX`, else the smaller, or `before` if `cell` is skipped.
#[inline(always)]
fn better_kept<C: Cell, K: Keep<C>, const MAX: bool>(cell: C, keep: K, before: C) -> C {
    if K::KEEPS_NUMBERS {
        return better::<C, MAX>(cell, before);
    }
    let cell = if keep.keeps(cell) {
        cell
    } else {
        start::<C, MAX>()
    };
    better::<C, MAX>(cell, before)
}

/// Computes one min or max per column: cell `i` of every row goes to the group with index `i` plus
/// the group of the base.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn extreme_columns<C: Cell, K: Keep<C>, const MAX: bool>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    if piece.has_short_columns() {
        return short_columns::<C, K, MAX>(piece, keep, extremes);
    }
    piece.for_each_rows::<STREAMS, STREAMS>(|group, rows| {
        for at in (0..piece.length).step_by(WIDTH) {
            let width = (piece.length - at).min(WIDTH);
            let mut found = [start::<C, MAX>(); WIDTH];
            if width == WIDTH {
                for row in rows {
                    look::<C, K, MAX>(block(row, at), piece.ahead, keep, &mut found);
                }
            } else {
                for row in rows {
                    for i in 0..width {
                        let cell = C::load(row[at + i]);
                        found[i] = better_kept::<C, K, MAX>(cell, keep, found[i]);
                    }
                }
            }
            let found = &found[..width];
            let unclear = |one: &C| *one == start::<C, MAX>();
            if found.iter().fold(false, |any, one| any | unclear(one)) {
                for i in (0..width).filter(|i| unclear(&found[*i])) {
                    let mut cells = rows.iter().map(|row| C::load(row[at + i]));
                    if cells.any(|cell| unclear(&cell) && keep.keeps(cell)) {
                        extremes.see(group + at + i);
                    }
                }
            }
            let targets = &mut extremes.found[group + at..][..width];
            for (target, one) in targets.iter_mut().zip(found) {
                *target = better::<C, MAX>(*one, *target);
            }
        }
    });
}

/// Extremes by row: all cells of a row go to the group of its base.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn extreme_rows<C: Cell, K: Keep<C>, const MAX: bool>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    if piece.has_short_rows() {
        return short_rows::<C, K, MAX>(piece, keep, extremes);
    }
    piece.for_each_rows::<STREAMS, STREAMS>(|group, rows| {
        for row in rows {
            for cells in row.chunks(LOOK) {
                let mut found = [start::<C, MAX>(); WIDTH];
                let (blocks, rest) = cells.as_chunks::<WIDTH>();
                for block in blocks {
                    look::<C, K, MAX>(block, piece.ahead, keep, &mut found);
                }
                for cell in rest {
                    found[0] = better_kept::<C, K, MAX>(C::load(*cell), keep, found[0]);
                }
                let found = best::<C, MAX>(found);
                if found == start::<C, MAX>() {
                    let mut cells = cells.iter().map(|bytes| C::load(*bytes));
                    if cells.any(|cell| cell == found && keep.keeps(cell)) {
                        extremes.see(group);
                    }
                }
                let target = &mut extremes.found[group];
                *target = better::<C, MAX>(found, *target);
            }
        }
    });
}

/// Extremes by row where [`KernelInput::has_short_rows`].
#[inline(always)]
fn short_rows<C: Cell, K: Keep<C>, const MAX: bool>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    let whole = piece.length / WIDTH * WIDTH;
    let mut all = piece.bases();
    while let Some((bases, count)) = all.next() {
        let bases = &bases[..count];
        let mut found = [[start::<C, MAX>(); WIDTH]; STREAMS];
        for from in piece.starts {
            let row = |base: &Base| &from[base.offset..][..piece.length];
            for at in (0..whole).step_by(WIDTH) {
                for (base, found) in bases.iter().zip(&mut found) {
                    look::<C, K, MAX>(block(row(base), at), piece.ahead, keep, found);
                }
            }
            if whole < piece.length {
                for (base, found) in bases.iter().zip(&mut found) {
                    let rest = &row(base)[whole..];
                    prefetch(rest, piece.ahead);
                    for (found, cell) in found.iter_mut().zip(rest) {
                        *found = better_kept::<C, K, MAX>(C::load(*cell), keep, *found);
                    }
                }
            }
        }
        for (found, base) in found.into_iter().zip(bases) {
            let found = best::<C, MAX>(found);
            if found == start::<C, MAX>() {
                let rows = piece.starts.iter();
                let mut cells = rows.flat_map(|from| &from[base.offset..][..piece.length]);
                if cells.any(|cell| C::load(*cell) == found && keep.keeps(C::load(*cell))) {
                    extremes.see(base.group);
                }
            }
            let target = &mut extremes.found[base.group];
            *target = better::<C, MAX>(found, *target);
        }
    }
}

/// Extremes by column where rows are no longer than [`SHORT`].
#[inline(always)]
fn short_columns<C: Cell, K: Keep<C>, const MAX: bool>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    let length = piece.length.min(SHORT);
    let mut all = piece.bases();
    while let Some((bases, count)) = all.next() {
        let mut found = [[start::<C, MAX>(); SHORT]; STREAMS];
        for from in piece.starts {
            for i in 0..count {
                let cells = &from[bases[i].offset..][..length];
                prefetch(cells, piece.ahead);
                for (found, cell) in found[i][..length].iter_mut().zip(cells) {
                    *found = better_kept::<C, K, MAX>(C::load(*cell), keep, *found);
                }
            }
        }
        for i in 0..count {
            let found = &found[i][..length];
            let targets = &mut extremes.found[bases[i].group..][..length];
            for (target, one) in targets.iter_mut().zip(found) {
                *target = better::<C, MAX>(*one, *target);
            }
            let unclear = |one: &C| *one == start::<C, MAX>();
            if found.iter().fold(false, |any, one| any | unclear(one)) {
                for column in (0..length).filter(|column| unclear(&found[*column])) {
                    let starts = piece.starts.iter();
                    let mut cells = starts.map(|from| C::load(from[bases[i].offset + column]));
                    if cells.any(|cell| unclear(&cell) && keep.keeps(cell)) {
                        extremes.see(bases[i].group + column);
                    }
                }
            }
        }
    }
}

/// Returns the max of all cells if `MAX`, else the min.
#[inline(always)]
fn best<C: Cell, const MAX: bool>(mut found: [C; WIDTH]) -> C {
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            found[i] = better::<C, MAX>(found[i + half], found[i]);
        }
        half /= 2;
    }
    found[0]
}

#[inline(always)]
fn look<C: Cell, K: Keep<C>, const MAX: bool>(
    cells: &[C::Bytes; WIDTH],
    ahead: usize,
    keep: K,
    found: &mut [C; WIDTH],
) {
    prefetch(cells, ahead);
    for i in 0..WIDTH {
        found[i] = better_kept::<C, K, MAX>(C::load(cells[i]), keep, found[i]);
    }
}

/// Returns [`WIDTH`] cells of a row.
#[inline(always)]
fn block<B>(row: &[B], at: usize) -> &[B; WIDTH] {
    &row[at..at + WIDTH].as_chunks().0[0]
}
