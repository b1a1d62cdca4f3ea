//! The min or max of cells.

use multiversion::multiversion;

use crate::grid::reduce::cell::{Cell, Keep};
use crate::grid::reduce::kernel_input::{Base, KernelInput, SHORT, STREAMS, prefetch};

/// The number of cells of a row that are compared at once, with results that stay in registers.
const WIDTH: usize = 64;
/// The number of cells of a row that are reduced before the group is updated.
const LOOK: usize = 8192;

/// The min or max of each group.
///
/// The min is found as the max of [reversed](Cell::REVERSAL) cells, so that both share their code.
#[derive(Debug)]
pub struct Extremes<'a, C> {
    /// The min or max cell of each group so far. Starts at the opposite end of the range of the
    /// type.
    pub found: &'a mut [C],
    /// `true` for each group with a kept cell that equals the start value. For other groups,
    /// `found` shows whether a cell was kept. Empty until there is such a group.
    pub seen: &'a mut Vec<bool>,
    /// [`Cell::REVERSAL`] for the min, zero for the max.
    pub reversal: C,
}

impl<C: Cell> Extremes<'_, C> {
    /// Returns the order in which cells that `keep` keeps are compared.
    #[inline(always)]
    fn order<K: Keep<C>>(&self, keep: K) -> Order<C, K> {
        let reversal = self.reversal;
        Order { keep, reversal }
    }

    /// Updates consecutive groups from `group` on. `largest` has the largest reversed cell of each.
    #[inline(always)]
    pub fn update(&mut self, group: usize, largest: &[C]) {
        let reversal = self.reversal;
        let targets = &mut self.found[group..][..largest.len()];
        for (target, largest) in targets.iter_mut().zip(largest) {
            *target = larger(*largest, target.xor(reversal)).xor(reversal);
        }
    }

    /// Records that the group has a kept cell that equals the start value.
    fn see(&mut self, group: usize) {
        self.seen.resize(self.found.len(), false);
        self.seen[group] = true;
    }
}

/// Returns the larger of two cells, or `before` if `cell` is NaN.
#[inline(always)]
fn larger<C: Cell>(cell: C, before: C) -> C {
    if cell > before { cell } else { before }
}

/// The order of comparison, and the cells that are skipped.
#[derive(Debug, Clone, Copy)]
struct Order<C, K> {
    keep: K,
    reversal: C,
}

impl<C: Cell, K: Keep<C>> Order<C, K> {
    /// Returns the larger of a reversed cell and `before`, or `before` if the cell is skipped.
    #[inline(always)]
    fn larger(self, bytes: C::Bytes, before: C) -> C {
        let cell = C::load(bytes);
        let reversed = cell.xor(self.reversal);
        let is_kept = K::KEEPS_NUMBERS || self.keep.keeps(cell);
        larger(if is_kept { reversed } else { C::LOWEST }, before)
    }

    /// Updates each element of `found` with the cell at the same index.
    #[inline(always)]
    fn look(self, cells: &[C::Bytes; WIDTH], ahead: usize, found: &mut [C; WIDTH]) {
        prefetch(cells, ahead);
        for i in 0..WIDTH {
            found[i] = self.larger(cells[i], found[i]);
        }
    }

    /// Returns `true` if the cell is kept and equals the start value.
    #[inline(always)]
    fn is_start(self, bytes: C::Bytes) -> bool {
        let cell = C::load(bytes);
        cell.xor(self.reversal) == C::LOWEST && self.keep.keeps(cell)
    }
}

/// Computes one min or max per column: cell `i` of every row goes to the group with index `i` plus
/// the group of the base.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn extreme_columns<C: Cell, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    if piece.has_short_columns() {
        return short_columns(piece, keep, extremes);
    }
    let order = extremes.order(keep);
    piece.for_each_rows::<STREAMS, STREAMS>(|group, rows| {
        for at in (0..piece.length).step_by(WIDTH) {
            let width = (piece.length - at).min(WIDTH);
            let mut found = [C::LOWEST; WIDTH];
            if width == WIDTH {
                for row in rows {
                    order.look(block(row, at), piece.ahead, &mut found);
                }
            } else {
                for row in rows {
                    for i in 0..width {
                        found[i] = order.larger(row[at + i], found[i]);
                    }
                }
            }
            let found = &found[..width];
            let unclear = |one: &C| *one == C::LOWEST;
            if found.iter().fold(false, |any, one| any | unclear(one)) {
                for i in (0..width).filter(|i| unclear(&found[*i])) {
                    if rows.iter().any(|row| order.is_start(row[at + i])) {
                        extremes.see(group + at + i);
                    }
                }
            }
            extremes.update(group + at, found);
        }
    });
}

/// Extremes by row: all cells of a row go to the group of its base.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn extreme_rows<C: Cell, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    if piece.has_short_rows() {
        return short_rows(piece, keep, extremes);
    }
    let order = extremes.order(keep);
    piece.for_each_rows::<STREAMS, STREAMS>(|group, rows| {
        for row in rows {
            for cells in row.chunks(LOOK) {
                let mut found = [C::LOWEST; WIDTH];
                let (blocks, rest) = cells.as_chunks::<WIDTH>();
                for block in blocks {
                    order.look(block, piece.ahead, &mut found);
                }
                for cell in rest {
                    found[0] = order.larger(*cell, found[0]);
                }
                let found = largest(found);
                if found == C::LOWEST && cells.iter().any(|cell| order.is_start(*cell)) {
                    extremes.see(group);
                }
                extremes.update(group, &[found]);
            }
        }
    });
}

/// Extremes by row where [`KernelInput::has_short_rows`].
#[inline(always)]
fn short_rows<C: Cell, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    let order = extremes.order(keep);
    let whole = piece.length / WIDTH * WIDTH;
    let mut all = piece.bases();
    while let Some((bases, count)) = all.next() {
        let bases = &bases[..count];
        let mut found = [[C::LOWEST; WIDTH]; STREAMS];
        for from in piece.starts {
            let row = |base: &Base| &from[base.offset..][..piece.length];
            for at in (0..whole).step_by(WIDTH) {
                for (base, found) in bases.iter().zip(&mut found) {
                    order.look(block(row(base), at), piece.ahead, found);
                }
            }
            if whole < piece.length {
                for (base, found) in bases.iter().zip(&mut found) {
                    let rest = &row(base)[whole..];
                    prefetch(rest, piece.ahead);
                    for (found, cell) in found.iter_mut().zip(rest) {
                        *found = order.larger(*cell, *found);
                    }
                }
            }
        }
        for (found, base) in found.into_iter().zip(bases) {
            let found = largest(found);
            if found == C::LOWEST {
                let rows = piece.starts.iter();
                let mut cells = rows.flat_map(|from| &from[base.offset..][..piece.length]);
                if cells.any(|cell| order.is_start(*cell)) {
                    extremes.see(base.group);
                }
            }
            extremes.update(base.group, &[found]);
        }
    }
}

/// Extremes by column where rows are no longer than [`SHORT`].
#[inline(always)]
fn short_columns<C: Cell, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    extremes: &mut Extremes<'_, C>,
) {
    let order = extremes.order(keep);
    let length = piece.length.min(SHORT);
    let mut all = piece.bases();
    while let Some((bases, count)) = all.next() {
        let mut found = [[C::LOWEST; SHORT]; STREAMS];
        for from in piece.starts {
            for i in 0..count {
                let cells = &from[bases[i].offset..][..length];
                prefetch(cells, piece.ahead);
                for (found, cell) in found[i][..length].iter_mut().zip(cells) {
                    *found = order.larger(*cell, *found);
                }
            }
        }
        for i in 0..count {
            let found = &found[i][..length];
            extremes.update(bases[i].group, found);
            let unclear = |one: &C| *one == C::LOWEST;
            if found.iter().fold(false, |any, one| any | unclear(one)) {
                for column in (0..length).filter(|column| unclear(&found[*column])) {
                    let mut cells = piece
                        .starts
                        .iter()
                        .map(|from| from[bases[i].offset + column]);
                    if cells.any(|cell| order.is_start(cell)) {
                        extremes.see(bases[i].group + column);
                    }
                }
            }
        }
    }
}

/// Returns the largest of all cells.
#[inline(always)]
fn largest<C: Cell>(mut found: [C; WIDTH]) -> C {
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            found[i] = larger(found[i + half], found[i]);
        }
        half /= 2;
    }
    found[0]
}

/// Returns [`WIDTH`] cells of a row.
#[inline(always)]
fn block<B>(row: &[B], at: usize) -> &[B; WIDTH] {
    &row[at..at + WIDTH].as_chunks().0[0]
}
