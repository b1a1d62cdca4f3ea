//! Sums and counts of cells.
//!
//! If no number is skipped, cells are summed without being tested. A NaN in the sum reveals that
//! one of them may be NaN, and only then is each cell tested.

use multiversion::multiversion;

use crate::grid::reduce::cell::{Keep, Partial, SumInto};
use crate::grid::reduce::kernel_input::{KernelInput, STREAMS, prefetch};
use crate::grid::reduce::short_rows::{sum_short_columns, sum_short_rows};

/// The number of cells of a row that are added at once, to sums that stay in registers.
const WIDTH: usize = 32;
/// The maximum number of rows that columns are summed over before the totals are updated. More rows
/// mean fewer loads and stores of totals.
const MAX_ROWS: usize = 16;
/// The number of columns whose partial sums are collected before they are added to the totals.
/// Totals are two or four times as wide as cells: if both were updated in one loop, vectors of
/// cells would have only as many lanes as vectors of totals.
const TILE: usize = 256;
/// The maximum number of cells of each row per partial sum. A partial sum has room for as many of
/// all [`STREAMS`] rows.
const LOOK: usize = 4096;
/// The number of streams that a long row is read as.
const PARTS: usize = 8;

/// The sums and counts of each group.
#[derive(Debug)]
pub struct Sums<'a, T> {
    /// The sums of the kept cells.
    pub totals: &'a mut [T],
    /// If `expects_all`, minus the number of skipped cells, and empty until a cell is skipped.
    /// Otherwise the number of kept cells.
    pub counts: &'a mut Vec<i64>,
    /// `true` if most cells are expected to be kept.
    pub is_hopeful: bool,
}

impl<T> Sums<'_, T> {
    /// Adds partial sums of `cells` cells each to consecutive groups. `counts` are the kept cells
    /// of each, or `None` if all are kept.
    #[inline(always)]
    pub fn add<C: SumInto<T>>(
        &mut self,
        group: usize,
        partial: &[C::Partial],
        counts: Option<&[C::Count]>,
        cells: usize,
    ) {
        if let Some(counts) = counts {
            let hoped = if self.is_hopeful { cells as u64 } else { 0 };
            let expected = C::Count::from(hoped as u16);
            let differ = |any: bool, count: &C::Count| any | (*count != expected);
            if counts.iter().fold(false, differ) {
                self.counts.resize(self.totals.len(), 0);
                let targets = &mut self.counts[group..][..counts.len()];
                for (target, count) in targets.iter_mut().zip(counts) {
                    *target += (*count).into().wrapping_sub(hoped) as i64;
                }
            }
        }
        let totals = &mut self.totals[group..][..partial.len()];
        for (total, partial) in totals.iter_mut().zip(partial) {
            C::flush(*partial, total);
        }
    }

    /// Adds a partial sum of `cells` cells to one group. `count` is the number of kept cells, or
    /// `None` if all are kept.
    #[inline(always)]
    pub fn add_one<C: SumInto<T>>(
        &mut self,
        group: usize,
        partial: C::Partial,
        count: Option<u64>,
        cells: usize,
    ) {
        let hoped = if self.is_hopeful { cells as u64 } else { 0 };
        if let Some(count) = count
            && count != hoped
        {
            self.counts.resize(self.totals.len(), 0);
            self.counts[group] += count.wrapping_sub(hoped) as i64;
        }
        C::flush(partial, &mut self.totals[group]);
    }
}

/// Partial sums of adjacent columns and the number of kept cells of each.
struct Lanes<C: SumInto<T>, T> {
    partial: [C::Partial; WIDTH],
    counts: [C::Count; WIDTH],
}

impl<C: SumInto<T>, T> Lanes<C, T> {
    #[inline(always)]
    fn new() -> Self {
        Self {
            partial: [C::Partial::default(); WIDTH],
            counts: [C::Count::default(); WIDTH],
        }
    }

    /// Adds cells that are all kept.
    #[inline(always)]
    fn add(&mut self, cells: &[C::Bytes; WIDTH]) {
        for i in 0..WIDTH {
            self.partial[i] = C::plus(self.partial[i], C::load(cells[i]).widen());
        }
    }

    /// Adds the kept cells.
    #[inline(always)]
    fn add_kept(&mut self, cells: &[C::Bytes; WIDTH], keep: impl Keep<C>) {
        add_kept::<C, T, WIDTH>(cells, keep, &mut self.partial, &mut self.counts);
    }

    /// Adds the kept cells of a slice shorter than [`WIDTH`].
    #[inline(always)]
    fn add_rest(&mut self, cells: &[C::Bytes], keep: impl Keep<C>) {
        add_rest::<C, T>(cells, keep, &mut self.partial, &mut self.counts);
    }

    #[inline(always)]
    fn is_tainted(&self) -> bool {
        let partial = self.partial.iter();
        C::HAS_NAN && partial.fold(false, |any, one| any | C::is_tainted(*one))
    }

    /// Returns the sum of all lanes. Adds pairwise, which shortens the chain of dependent
    /// additions.
    #[inline(always)]
    fn sum(mut self) -> C::Partial {
        let mut half = WIDTH / 2;
        while half > 0 {
            for i in 0..half {
                self.partial[i] = C::plus(self.partial[i], self.partial[i + half]);
            }
            half /= 2;
        }
        self.partial[0]
    }
}

/// Sums by column: cell `i` of every row goes to group `i` after the group of the base.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn sum_columns<C: SumInto<T>, T, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    if piece.has_short_columns() {
        return sum_short_columns::<C, T, K>(piece, keep, sums);
    }
    if piece.length < WIDTH {
        return sum_few_columns(piece, keep, sums);
    }
    let mut tile = [C::Partial::default(); TILE];
    let mut counts = [C::Count::default(); TILE];
    piece.for_each_rows::<STREAMS, MAX_ROWS>(|group, rows| {
        for start in (0..piece.length).step_by(TILE) {
            let width = (piece.length - start).min(TILE);
            let whole = width / WIDTH * WIDTH;
            let mut is_counted = !K::KEEPS_NUMBERS;
            if K::KEEPS_NUMBERS {
                counts[..width].fill(C::Count::from(rows.len() as u16));
            }
            for at in (0..whole).step_by(WIDTH) {
                let mut is_hopeful = K::KEEPS_NUMBERS;
                let mut lanes = Lanes::<C, T>::new();
                if is_hopeful {
                    for row in rows {
                        let cells = block(row, start + at);
                        prefetch(cells, piece.ahead);
                        lanes.add(cells);
                    }
                    is_hopeful = !lanes.is_tainted();
                }
                if !is_hopeful {
                    lanes = Lanes::new();
                    for row in rows {
                        let cells = block(row, start + at);
                        prefetch(cells, piece.ahead);
                        lanes.add_kept(cells, keep);
                    }
                    counts[at..at + WIDTH].copy_from_slice(&lanes.counts);
                    is_counted = true;
                }
                tile[at..at + WIDTH].copy_from_slice(&lanes.partial);
            }
            if whole < width {
                let (tile, counts) = (&mut tile[whole..width], &mut counts[whole..width]);
                tile.fill(C::Partial::default());
                counts.fill(C::Count::default());
                for row in rows {
                    let cells = &row[start + whole..][..width - whole];
                    add_rest::<C, T>(cells, keep, tile, counts);
                }
                is_counted = true;
            }
            let (tile, counts) = (&mut tile[..width], &mut counts[..width]);
            if is_counted {
                settle::<C, T>(keep, tile, counts, rows.len());
            }
            let counts = is_counted.then_some(&*counts);
            sums.add::<C>(group + start, tile, counts, rows.len());
        }
    });
}

/// Sums fewer than [`WIDTH`] columns: initializing a whole tile would take longer than summing
/// them.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
fn sum_few_columns<C: SumInto<T>, T, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    let length = piece.length.min(WIDTH);
    piece.for_each_rows::<STREAMS, MAX_ROWS>(|group, rows| {
        let mut lanes = Lanes::<C, T>::new();
        for row in rows {
            lanes.add_rest(&row[..length], keep);
        }
        let (partial, counts) = (&mut lanes.partial[..length], &mut lanes.counts[..length]);
        settle::<C, T>(keep, partial, counts, rows.len());
        sums.add::<C>(group, partial, Some(&*counts), rows.len());
    });
}

/// Sums by row: all cells of a row go to the group of its base.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn sum_rows<C: SumInto<T>, T, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    if piece.has_short_rows() {
        return sum_short_rows::<C, T, K>(piece, keep, sums);
    }
    piece.for_each_rows::<STREAMS, STREAMS>(|group, rows| {
        let mut at = 0;
        if let [row] = rows {
            let (long, _) = row.as_chunks::<{ PARTS * LOOK }>();
            for cells in long {
                let (parts, _) = cells.as_chunks::<LOOK>();
                let mut rows: [&[C::Bytes]; PARTS] = [&[]; PARTS];
                for (row, part) in rows.iter_mut().zip(parts) {
                    *row = part;
                }
                let (partial, count) = run::<C, T, K>(&rows, piece.ahead, keep);
                sums.add_one::<C>(group, partial, count, cells.len());
            }
            at = long.len() * PARTS * LOOK;
        }
        while at < piece.length {
            let width = (piece.length - at).min(LOOK);
            let mut some: [&[C::Bytes]; STREAMS] = [&[]; STREAMS];
            for (some, row) in some.iter_mut().zip(rows) {
                *some = &row[at..][..width];
            }
            let (partial, count) = run::<C, T, K>(&some[..rows.len()], piece.ahead, keep);
            sums.add_one::<C>(group, partial, count, rows.len() * width);
            at += width;
        }
    });
}

/// Adds the kept cells to the partial sums and counts of their columns, which must be
/// [settled](settle) afterwards.
#[inline(always)]
pub fn add_kept<C: SumInto<T>, T, const LANES: usize>(
    cells: &[C::Bytes; LANES],
    keep: impl Keep<C>,
    partial: &mut [C::Partial; LANES],
    counts: &mut [C::Count; LANES],
) {
    if let Some(exception) = exception::<C, T>(keep) {
        for i in 0..LANES {
            counts[i] += C::load(cells[i]).is_same(exception).into();
        }
        for i in 0..LANES {
            partial[i] = C::plus(partial[i], C::load(cells[i]).widen());
        }
        return;
    }
    // Add zero instead of branching. Zeros are selected at the width of the cells, because
    // compilers vectorize loops of mixed widths badly.
    let mut kept = [C::ZERO; LANES];
    for i in 0..LANES {
        let cell = C::load(cells[i]);
        kept[i] = if keep.keeps(cell) { cell } else { C::ZERO };
    }
    for i in 0..LANES {
        counts[i] += keep.keeps(C::load(cells[i])).into();
    }
    for i in 0..LANES {
        partial[i] = C::plus(partial[i], kept[i].widen());
    }
}

/// Does the same as [`add_kept`] for a slice of fewer cells than lanes.
#[inline(always)]
pub fn add_rest<C: SumInto<T>, T>(
    cells: &[C::Bytes],
    keep: impl Keep<C>,
    partial: &mut [C::Partial],
    counts: &mut [C::Count],
) {
    let exception = exception::<C, T>(keep);
    for (cell, (partial, count)) in cells.iter().zip(partial.iter_mut().zip(counts)) {
        let cell = C::load(*cell);
        if let Some(exception) = exception {
            *partial = C::plus(*partial, cell.widen());
            *count += cell.is_same(exception).into();
        } else {
            let keeps = keep.keeps(cell);
            let addend = if keeps { cell } else { C::ZERO };
            *partial = C::plus(*partial, addend.widen());
            *count += keeps.into();
        }
    }
}

/// Returns the number that is summed like all others, counted, and subtracted in the end: the only
/// number that is skipped, if subtracting is exact.
#[inline(always)]
pub fn exception<C: SumInto<T>, T>(keep: impl Keep<C>) -> Option<C> {
    if C::Partial::IS_EXACT {
        keep.exception()
    } else {
        None
    }
}

/// Turns the sums and counts of [`add_kept`], over `cells` cells per column, into those of the kept
/// cells.
#[inline(always)]
pub fn settle<C: SumInto<T>, T>(
    keep: impl Keep<C>,
    partial: &mut [C::Partial],
    counts: &mut [C::Count],
    cells: usize,
) {
    if let Some(exception) = exception::<C, T>(keep) {
        for (partial, count) in partial.iter_mut().zip(counts) {
            let others: u64 = (*count).into();
            *partial = partial.without(exception.widen(), others);
            *count = C::Count::from((cells as u64 - others) as u16);
        }
    }
}

/// Turns one sum and its count into those of the kept cells, like [`settle`].
#[inline(always)]
pub fn settled<C: SumInto<T>, T>(
    keep: impl Keep<C>,
    partial: C::Partial,
    count: u64,
    cells: usize,
) -> (C::Partial, u64) {
    match exception::<C, T>(keep) {
        Some(exception) => (
            partial.without(exception.widen(), count),
            cells as u64 - count,
        ),
        None => (partial, count),
    }
}

/// Returns the sum of rows of at most [`LOOK`] cells each, and the number of kept cells if the
/// cells had to be tested.
#[inline(always)]
pub fn run<C: SumInto<T>, T, K: Keep<C>>(
    rows: &[&[C::Bytes]],
    ahead: usize,
    keep: K,
) -> (C::Partial, Option<u64>) {
    let length = rows.first().map_or(0, |row| row.len());
    let whole = length / WIDTH * WIDTH;
    if K::KEEPS_NUMBERS {
        let mut lanes = Lanes::<C, T>::new();
        for at in (0..whole).step_by(WIDTH) {
            for row in rows {
                let cells = block(row, at);
                prefetch(cells, ahead);
                lanes.add(cells);
            }
        }
        for row in rows {
            for (partial, cell) in lanes.partial.iter_mut().zip(&row[whole..]) {
                *partial = C::plus(*partial, C::load(*cell).widen());
            }
        }
        let sum = lanes.sum();
        if !(C::HAS_NAN && C::is_tainted(sum)) {
            return (sum, None);
        }
    }
    let mut lanes = Lanes::<C, T>::new();
    for at in (0..whole).step_by(WIDTH) {
        for row in rows {
            let cells = block(row, at);
            prefetch(cells, ahead);
            lanes.add_kept(cells, keep);
        }
    }
    for row in rows {
        lanes.add_rest(&row[whole..], keep);
    }
    let count = lanes.counts.iter().map(|count| (*count).into()).sum();
    let (sum, count) = settled::<C, T>(keep, lanes.sum(), count, rows.len() * length);
    (sum, Some(count))
}

/// Returns [`WIDTH`] cells of a row.
#[inline(always)]
fn block<B>(row: &[B], at: usize) -> &[B; WIDTH] {
    &row[at..at + WIDTH].as_chunks().0[0]
}
