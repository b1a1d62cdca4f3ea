//! Sums of cells, and how many there are.
//!
//! Each kernel comes in two kinds. The hopeful one adds everything up and looks only at the result: a NaN in it tells that
//! there was one among the cells, and only then they are looked at one by one. The careful one asks of every cell whether
//! it counts.

use multiversion::multiversion;

use crate::grid::reduce::cell::{Keep, SumInto};
use crate::grid::reduce::piece::{Base, Piece};

/// Sums that a run is added up in: few enough for the registers of any processor.
const WIDTH: usize = 32;
/// Columns that are worked on at once: few enough for the nearest cache.
const TILE: usize = 512;
/// Places in memory that are read in turn: a processor fetches each of them ahead.
const STREAMS: usize = 8;
/// Rows of them that are added up at once: for as many a partial sum has room.
const MOST_ROWS: usize = 1024;
/// Columns that are rather worked on a few at a time.
const NARROW: usize = 128;
/// Rows of one group that are rather added up by column.
const FEW_ROWS: usize = 4;
/// Cells of a run between two looks at its sum.
const LOOK: usize = 16384;

/// Where the sums of each group go.
#[derive(Debug)]
pub struct Sums<'a, T> {
    /// Of the cells that count.
    pub totals: &'a mut [T],
    /// Of a careful kernel the number of cells that count; of a hopeful one less the number of those that do not, and
    /// empty as long as there are none.
    pub counts: &'a mut Vec<i64>,
}

impl<T> Sums<'_, T> {
    /// Adds the sums of neighbouring groups.
    #[inline(always)]
    fn add<C: SumInto<T>>(&mut self, group: usize, partial: &[C::Partial]) {
        let totals = &mut self.totals[group..][..partial.len()];
        for (total, partial) in totals.iter_mut().zip(partial) {
            C::flush(*partial, total);
        }
    }

    /// Adds the sum of some cells to a group.
    #[inline(always)]
    fn add_run<C: SumInto<T>, const HOPEFUL: bool>(
        &mut self,
        group: usize,
        partial: C::Partial,
        count: Option<u32>,
        cells: usize,
    ) {
        if let Some(count) = count {
            let hoped = if HOPEFUL { cells as i64 } else { 0 };
            self.count(group, &[count], hoped);
        }
        C::flush(partial, &mut self.totals[group]);
    }

    /// Adds the counts of neighbouring groups, of each of which `hoped` cells were taken for granted.
    #[inline(always)]
    fn count(&mut self, group: usize, counts: &[u32], hoped: i64) {
        self.counts.resize(self.totals.len(), 0);
        let targets = &mut self.counts[group..][..counts.len()];
        for (target, count) in targets.iter_mut().zip(counts) {
            *target += i64::from(*count) - hoped;
        }
    }
}

/// Adds up cells by column: the cells at the same place of all rows go to the same group, the next ones to the next.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn sum_columns<C: SumInto<T>, T, K: Keep<C>, const HOPEFUL: bool>(
    piece: &Piece<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    if HOPEFUL && piece.length <= NARROW {
        narrow_columns::<C, T, K>(piece, keep, sums);
        return;
    }
    piece.for_each_rows(|group, rows| {
        for at in (0..piece.length).step_by(TILE) {
            let width = (piece.length - at).min(TILE);
            columns::<C, T, K, HOPEFUL>(rows, at, width, group, keep, sums);
        }
    });
}

/// Columns of short rows. From several outer bases in turn, which are streams again.
#[inline(always)]
fn narrow_columns<C: SumInto<T>, T, K: Keep<C>>(
    piece: &Piece<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    for source in piece.sources {
        for rows in piece.rows.chunks(MOST_ROWS) {
            for outer in piece.outer.chunks(STREAMS) {
                for inner in piece.inner {
                    for at in (0..piece.length).step_by(WIDTH) {
                        let inner = Base {
                            offset: inner.offset + at,
                            group: inner.group + at,
                        };
                        let width = (piece.length - at).min(WIDTH);
                        narrow_block::<C, T, K>(source, rows, outer, inner, width, keep, sums);
                    }
                }
            }
        }
    }
}

/// A few columns of rows, from each of some outer bases.
#[inline(always)]
fn narrow_block<C: SumInto<T>, T, K: Keep<C>>(
    source: &[C::Bytes],
    rows: &[usize],
    outer: &[Base],
    inner: Base,
    width: usize,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    let mut partial = [[C::Partial::default(); WIDTH]; STREAMS];
    let (eights, rest) = rows.as_chunks::<8>();
    for eight in eights {
        for (outer, partial) in outer.iter().zip(&mut partial) {
            let offset = outer.offset + inner.offset;
            if width == WIDTH {
                hopeful_block::<C, T, 8>(source, offset, eight, partial);
            } else {
                let eight = eight.map(|row| &source[offset + row..]);
                hopeful_rows::<C, T, WIDTH, 8>(&eight, 0, width, partial);
            }
        }
    }
    for row in rest {
        for (outer, partial) in outer.iter().zip(&mut partial) {
            let row = &source[outer.offset + inner.offset + row..];
            hopeful_rows::<C, T, WIDTH, 1>(&[row], 0, width, partial);
        }
    }
    for (outer, partial) in outer.iter().zip(&mut partial) {
        let (offset, group) = (outer.offset + inner.offset, outer.group + inner.group);
        if C::HAS_NAN && is_tainted::<C, T>(&partial[..width]) {
            *partial = [C::Partial::default(); WIDTH];
            let mut counts = [0; WIDTH];
            for row in rows {
                let cells = &source[offset + row..][..width];
                careful::<C, T, K, WIDTH>(cells, keep, partial, &mut counts);
            }
            sums.count(group, &counts[..width], rows.len() as i64);
        }
        sums.add::<C>(group, &partial[..width]);
    }
}

/// The sums of some columns of rows.
#[inline(always)]
fn columns<C: SumInto<T>, T, K: Keep<C>, const HOPEFUL: bool>(
    rows: &[&[C::Bytes]],
    at: usize,
    width: usize,
    group: usize,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    // On the stack, where nothing else can point to: the compiler need not ask before it vectorizes.
    let mut partial = [C::Partial::default(); TILE];
    let mut is_careful = !HOPEFUL;
    if HOPEFUL {
        hopeful::<C, T, TILE>(rows, at, width, &mut partial);
        is_careful = C::HAS_NAN && is_tainted::<C, T>(&partial[..width]);
    }
    if is_careful {
        if HOPEFUL {
            partial = [C::Partial::default(); TILE];
        }
        let mut counts = [0; TILE];
        for row in rows {
            careful::<C, T, K, TILE>(&row[at..][..width], keep, &mut partial, &mut counts);
        }
        let all = if HOPEFUL { rows.len() as i64 } else { 0 };
        sums.count(group + at, &counts[..width], all);
    }
    sums.add::<C>(group + at, &partial[..width]);
}

#[inline(always)]
fn is_tainted<C: SumInto<T>, T>(partial: &[C::Partial]) -> bool {
    let partial = partial.iter();
    partial.fold(false, |any, one| any | C::is_tainted(*one))
}

/// Adds rows to partial sums of their columns. Several at once: a processor fetches several streams ahead, and the partial
/// sums are loaded and stored the less.
#[inline(always)]
fn hopeful<C: SumInto<T>, T, const TILE: usize>(
    rows: &[&[C::Bytes]],
    at: usize,
    width: usize,
    partial: &mut [C::Partial; TILE],
) {
    let (eights, rest) = rows.as_chunks::<8>();
    for eight in eights {
        hopeful_rows::<C, T, TILE, 8>(eight, at, width, partial);
    }
    let (twos, rest) = rest.as_chunks::<2>();
    for two in twos {
        hopeful_rows::<C, T, TILE, 2>(two, at, width, partial);
    }
    for one in rest {
        hopeful_rows::<C, T, TILE, 1>(&[one], at, width, partial);
    }
}

#[inline(always)]
fn hopeful_rows<C: SumInto<T>, T, const TILE: usize, const ROWS: usize>(
    rows: &[&[C::Bytes]; ROWS],
    at: usize,
    width: usize,
    partial: &mut [C::Partial; TILE],
) {
    let rows: [&[C::Bytes]; ROWS] = std::array::from_fn(|row| &rows[row][at..][..width]);
    for (i, partial) in partial[..width].iter_mut().enumerate() {
        let mut sum = C::load(rows[0][i]).widen();
        for row in &rows[1..] {
            sum = C::plus(sum, C::load(row[i]).widen());
        }
        *partial = C::plus(*partial, sum);
    }
}

/// Adds [`WIDTH`] cells of some rows to partial sums of their columns.
#[inline(always)]
fn hopeful_block<C: SumInto<T>, T, const ROWS: usize>(
    source: &[C::Bytes],
    offset: usize,
    rows: &[usize; ROWS],
    partial: &mut [C::Partial; WIDTH],
) {
    for row in rows {
        if let Some(cells) = source[offset + row..].first_chunk::<WIDTH>() {
            for i in 0..WIDTH {
                partial[i] = C::plus(partial[i], C::load(cells[i]).widen());
            }
        }
    }
}

/// Adds a cell if it counts.
#[inline(always)]
fn add_kept<C: SumInto<T>, T>(
    cell: C,
    keep: impl Keep<C>,
    partial: &mut C::Partial,
    count: &mut u32,
) {
    let keeps = keep.keeps(cell);
    // An addition of nothing, not a branch.
    let addend = if keeps {
        cell.widen()
    } else {
        C::Partial::default()
    };
    *partial = C::plus(*partial, addend);
    *count += u32::from(keeps);
}

#[inline(always)]
fn careful<C: SumInto<T>, T, K: Keep<C>, const TILE: usize>(
    cells: &[C::Bytes],
    keep: K,
    partial: &mut [C::Partial; TILE],
    counts: &mut [u32; TILE],
) {
    for ((bytes, partial), count) in cells.iter().zip(partial).zip(counts) {
        add_kept(C::load(*bytes), keep, partial, count);
    }
}

/// Adds up cells by row: all cells of a row go to the group of its base.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
pub fn sum_rows<C: SumInto<T>, T, K: Keep<C>, const HOPEFUL: bool>(
    piece: &Piece<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    if let ([source], [row], true) = (piece.sources, piece.rows, piece.length <= LOOK) {
        // Short rows, where every step around them counts. From several outer bases in turn, which are streams again.
        for outer in piece.outer.chunks(STREAMS) {
            for inner in piece.inner {
                for outer in outer {
                    let offset = outer.offset + inner.offset + row;
                    let cells = &source[offset..][..piece.length];
                    let (partial, count) = run::<C, T, K, HOPEFUL>(cells, keep);
                    let group = outer.group + inner.group;
                    sums.add_run::<C, HOPEFUL>(group, partial, count, cells.len());
                }
            }
        }
        return;
    }
    piece.for_each_rows(|group, rows| {
        if HOPEFUL && rows.len() >= FEW_ROWS {
            for at in (0..piece.length).step_by(TILE) {
                let width = (piece.length - at).min(TILE);
                row_tile::<C, T, K>(rows, at, width, group, keep, sums);
            }
            return;
        }
        for row in rows {
            for cells in row.chunks(LOOK) {
                let (partial, count) = run::<C, T, K, HOPEFUL>(cells, keep);
                sums.add_run::<C, HOPEFUL>(group, partial, count, cells.len());
            }
        }
    });
}

/// Some columns of rows that all go to one group: added up by column first, which are streams again.
#[inline(always)]
fn row_tile<C: SumInto<T>, T, K: Keep<C>>(
    rows: &[&[C::Bytes]],
    at: usize,
    width: usize,
    group: usize,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    let mut partial = [C::Partial::default(); TILE];
    let mut count = None;
    hopeful::<C, T, TILE>(rows, at, width, &mut partial);
    if C::HAS_NAN && is_tainted::<C, T>(&partial[..width]) {
        partial = [C::Partial::default(); TILE];
        let mut counts = [0; TILE];
        for row in rows {
            careful::<C, T, K, TILE>(&row[at..][..width], keep, &mut partial, &mut counts);
        }
        count = Some(counts[..width].iter().sum());
    }
    // A partial sum has room for the cells of one row at least.
    let mut lanes = [C::Partial::default(); WIDTH];
    let (blocks, rest) = partial[..width].as_chunks::<WIDTH>();
    for block in blocks {
        for i in 0..WIDTH {
            lanes[i] = C::plus(lanes[i], block[i]);
        }
    }
    for one in rest {
        lanes[0] = C::plus(lanes[0], *one);
    }
    let sum = fold::<C, T>(lanes);
    sums.add_run::<C, true>(group, sum, count, rows.len() * width);
}

/// The sum of a run, and the number of cells that count if they had to be counted.
#[inline(always)]
fn run<C: SumInto<T>, T, K: Keep<C>, const HOPEFUL: bool>(
    cells: &[C::Bytes],
    keep: K,
) -> (C::Partial, Option<u32>) {
    if HOPEFUL {
        let partial = if cells.len() == LOOK {
            hopeful_streams::<C, T>(cells)
        } else {
            hopeful_run::<C, T>(cells)
        };
        if !C::is_tainted(partial) {
            return (partial, None);
        }
    }
    let (partial, count) = careful_run::<C, T, K>(cells, keep);
    (partial, Some(count))
}

/// The sum of [`LOOK`] cells, read as several streams.
#[inline(always)]
fn hopeful_streams<C: SumInto<T>, T>(cells: &[C::Bytes]) -> C::Partial {
    let mut partial = [C::Partial::default(); WIDTH];
    let mut streams = cells.chunks(LOOK / STREAMS);
    let streams: [&[C::Bytes]; STREAMS] =
        std::array::from_fn(|_| streams.next().unwrap_or_default());
    for at in (0..LOOK / STREAMS).step_by(WIDTH) {
        hopeful_rows::<C, T, WIDTH, STREAMS>(&streams, at, WIDTH, &mut partial);
    }
    fold::<C, T>(partial)
}

#[inline(always)]
fn hopeful_run<C: SumInto<T>, T>(cells: &[C::Bytes]) -> C::Partial {
    let mut partial = [C::Partial::default(); WIDTH];
    let (blocks, rest) = cells.as_chunks::<WIDTH>();
    for block in blocks {
        for i in 0..WIDTH {
            partial[i] = C::plus(partial[i], C::load(block[i]).widen());
        }
    }
    let mut sum = fold::<C, T>(partial);
    for cell in rest {
        sum = C::plus(sum, C::load(*cell).widen());
    }
    sum
}

#[inline(always)]
fn careful_run<C: SumInto<T>, T, K: Keep<C>>(cells: &[C::Bytes], keep: K) -> (C::Partial, u32) {
    let mut partial = [C::Partial::default(); WIDTH];
    let mut counts = [0u32; WIDTH];
    let (blocks, rest) = cells.as_chunks::<WIDTH>();
    let mut add = |i: usize, bytes: C::Bytes| {
        add_kept(C::load(bytes), keep, &mut partial[i], &mut counts[i]);
    };
    for block in blocks {
        for i in 0..WIDTH {
            add(i, block[i]);
        }
    }
    for cell in rest {
        add(0, *cell);
    }
    (fold::<C, T>(partial), counts.iter().sum())
}

/// Pairwise, which takes fewer steps one after another.
#[inline(always)]
fn fold<C: SumInto<T>, T>(mut partial: [C::Partial; WIDTH]) -> C::Partial {
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            partial[i] = C::plus(partial[i], partial[i + half]);
        }
        half /= 2;
    }
    partial[0]
}
