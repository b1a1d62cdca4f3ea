//! Sums of cells, and how many there are.
//!
//! Where all cells are expected to count, only the result is looked at: a NaN in it tells that there was one among the
//! cells, and only then they are asked one by one.

use multiversion::multiversion;

use crate::grid::reduce::cell::{Keep, Partial, SumInto};
use crate::grid::reduce::piece::{Piece, STREAMS, prefetch};
use crate::grid::reduce::short_rows::{sum_short_columns, sum_short_rows};

/// Cells of a row that are added at once, to sums that stay in registers.
const WIDTH: usize = 32;
/// Rows of columns that are added up together if there are not many: totals are loaded and stored less often.
const MOST_ROWS: usize = 16;
/// Columns whose sums are put together before they are added to the totals. These are two or four times as wide, and were both done
/// at once, vectors of cells would be no longer than theirs.
const TILE: usize = 256;
/// Cells of each row between two looks at their sum, which has room for no more of all rows.
const LOOK: usize = 4096;
/// Places in memory that a long row is read at in turn.
const PARTS: usize = 8;

/// Where the sums of each group go.
#[derive(Debug)]
pub struct Sums<'a, T> {
    /// Of the cells that count.
    pub totals: &'a mut [T],
    /// If `is_hopeful` less the number of cells that do not count, and empty as long as there are none; else the number
    /// of cells that count.
    pub counts: &'a mut Vec<i64>,
    /// Whether most cells are expected to count.
    pub is_hopeful: bool,
}

impl<T> Sums<'_, T> {
    /// Adds sums of `cells` cells each, of which so many count, to neighbouring groups.
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

    /// Adds the sum of `cells` cells to a group.
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

/// Sums of neighbouring columns, and of each how many cells count.
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

    /// Adds cells that all count.
    #[inline(always)]
    fn add(&mut self, cells: &[C::Bytes; WIDTH]) {
        for i in 0..WIDTH {
            self.partial[i] = C::plus(self.partial[i], C::load(cells[i]).widen());
        }
    }

    /// Adds those that count.
    #[inline(always)]
    fn add_kept(&mut self, cells: &[C::Bytes; WIDTH], keep: impl Keep<C>) {
        add_kept::<C, T, WIDTH>(cells, keep, &mut self.partial, &mut self.counts);
    }

    /// Adds those that count of fewer than [`WIDTH`] cells.
    #[inline(always)]
    fn add_rest(&mut self, cells: &[C::Bytes], keep: impl Keep<C>) {
        add_rest::<C, T>(cells, keep, &mut self.partial, &mut self.counts);
    }

    #[inline(always)]
    fn is_tainted(&self) -> bool {
        let partial = self.partial.iter();
        C::HAS_NAN && partial.fold(false, |any, one| any | C::is_tainted(*one))
    }

    /// Pairwise, which takes fewer steps one after another.
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

/// Adds up cells by column: the cells at the same place of all rows go to the same group, the next ones to the next.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn sum_columns<C: SumInto<T>, T, K: Keep<C>>(
    piece: &Piece<'_, C::Bytes>,
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
    piece.for_each_rows::<STREAMS, MOST_ROWS>(|group, rows| {
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

/// The same of fewer columns than [`WIDTH`]: room for a tile of them would take longer to make than they take to be added up.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
fn sum_few_columns<C: SumInto<T>, T, K: Keep<C>>(
    piece: &Piece<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    let length = piece.length.min(WIDTH);
    piece.for_each_rows::<STREAMS, MOST_ROWS>(|group, rows| {
        let mut lanes = Lanes::<C, T>::new();
        for row in rows {
            lanes.add_rest(&row[..length], keep);
        }
        let (partial, counts) = (&mut lanes.partial[..length], &mut lanes.counts[..length]);
        settle::<C, T>(keep, partial, counts, rows.len());
        sums.add::<C>(group, partial, Some(&*counts), rows.len());
    });
}

/// Adds up cells by row: all cells of a row go to the group of its base.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn sum_rows<C: SumInto<T>, T, K: Keep<C>>(
    piece: &Piece<'_, C::Bytes>,
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

/// Adds the cells that count to sums and counts of their columns, which are then to be [settled](settle).
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
    // An addition of nothing, not a branch; and first as wide as the cells are, since compilers get lost in mixed widths.
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

/// Adds those that count of cells that are fewer than the columns, in the same way.
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

/// The number that is rather added up with all others, counted, and taken away in the end.
#[inline(always)]
pub fn exception<C: SumInto<T>, T>(keep: impl Keep<C>) -> Option<C> {
    if C::Partial::IS_EXACT {
        keep.exception()
    } else {
        None
    }
}

/// Makes sums and counts those of the cells that count, of so many in each column.
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

/// The same of one sum and its count.
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

/// The sum of the cells of some rows of [`LOOK`] cells at most, and the number of cells that count if they had to
/// be asked.
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

/// [`WIDTH`] cells of a row.
#[inline(always)]
fn block<B>(row: &[B], at: usize) -> &[B; WIDTH] {
    &row[at..at + WIDTH].as_chunks().0[0]
}
