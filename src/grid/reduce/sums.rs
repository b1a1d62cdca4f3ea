//! Sums of cells, and how many there are.
//!
//! Each kernel comes in two kinds. The hopeful one adds everything up and looks only at the result: a NaN in it tells that
//! there was one among the cells, and only then they are looked at one by one. The careful one asks of every cell whether
//! it counts.

use multiversion::multiversion;

use crate::grid::reduce::cell::{Keep, SumInto};
use crate::grid::reduce::piece::Piece;

/// Sums that a run is added up in: few enough for the registers of any processor.
const WIDTH: usize = 32;
/// Columns that are worked on at once: few enough for the nearest cache.
const TILE: usize = 512;
/// Places in memory that are read in turn: a processor fetches each of them ahead.
const STREAMS: usize = 8;
/// Columns that are rather worked on a few at a time.
const NARROW: usize = 128;
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
    for outer in piece.outer.chunks(STREAMS) {
        for inner in piece.inner {
            for at in (0..piece.length).step_by(WIDTH) {
                let width = (piece.length - at).min(WIDTH);
                let mut partial = [[C::Partial::default(); WIDTH]; STREAMS];
                for source in piece.sources {
                    let (eights, rest) = piece.rows.as_chunks::<8>();
                    for rows in eights {
                        for (outer, partial) in outer.iter().zip(&mut partial) {
                            let offset = outer.offset + inner.offset + at;
                            if width == WIDTH {
                                hopeful_block::<C, T, 8>(source, offset, rows, partial);
                            } else {
                                let rows = rows.map(|row| &source[offset + row..]);
                                hopeful_rows::<C, T, WIDTH, 8>(&rows, 0, width, partial);
                            }
                        }
                    }
                    for row in rest {
                        for (outer, partial) in outer.iter().zip(&mut partial) {
                            let offset = outer.offset + inner.offset + at;
                            let row = &source[offset + row..];
                            hopeful_rows::<C, T, WIDTH, 1>(&[row], 0, width, partial);
                        }
                    }
                }
                for (outer, partial) in outer.iter().zip(&mut partial) {
                    let group = outer.group + inner.group + at;
                    if C::HAS_NAN && is_tainted::<C, T>(&partial[..width]) {
                        *partial = [C::Partial::default(); WIDTH];
                        let mut counts = [0; WIDTH];
                        let offset = outer.offset + inner.offset + at;
                        for source in piece.sources {
                            for row in piece.rows {
                                let cells = &source[offset + row..][..width];
                                careful::<C, T, K, WIDTH>(cells, keep, partial, &mut counts);
                            }
                        }
                        sums.count(group, &counts[..width], piece.depth() as i64);
                    }
                    sums.add::<C>(group, &partial[..width]);
                }
            }
        }
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

#[inline(always)]
fn careful<C: SumInto<T>, T, K: Keep<C>, const TILE: usize>(
    cells: &[C::Bytes],
    keep: K,
    partial: &mut [C::Partial; TILE],
    counts: &mut [u32; TILE],
) {
    for ((bytes, partial), count) in cells.iter().zip(partial).zip(counts) {
        let cell = C::load(*bytes);
        let keeps = keep.keeps(cell);
        let addend = if keeps {
            cell.widen()
        } else {
            C::Partial::default()
        };
        *partial = C::plus(*partial, addend);
        *count += u32::from(keeps);
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
    let mut add = |group: usize, cells: &[C::Bytes]| {
        let (mut partial, mut count) = if !HOPEFUL {
            careful_run::<C, T, K>(cells, keep)
        } else if cells.len() == LOOK {
            (hopeful_streams::<C, T>(cells), 0)
        } else {
            (hopeful_run::<C, T>(cells), 0)
        };
        let mut hoped = 0;
        if HOPEFUL && C::is_tainted(partial) {
            (partial, count) = careful_run::<C, T, K>(cells, keep);
            hoped = cells.len() as i64;
        }
        if !HOPEFUL || hoped != 0 {
            sums.count(group, &[count], hoped);
        }
        C::flush(partial, &mut sums.totals[group]);
    };
    if let ([source], [row], true) = (piece.sources, piece.rows, piece.length <= LOOK) {
        // Short rows, where every step around them counts. From several outer bases in turn, which are streams again.
        for outer in piece.outer.chunks(STREAMS) {
            for inner in piece.inner {
                for outer in outer {
                    let offset = outer.offset + inner.offset + row;
                    add(outer.group + inner.group, &source[offset..][..piece.length]);
                }
            }
        }
        return;
    }
    piece.for_each_rows(|group, rows| {
        for row in rows {
            for cells in row.chunks(LOOK) {
                add(group, cells);
            }
        }
    });
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
        let cell = C::load(bytes);
        let keeps = keep.keeps(cell);
        let addend = if keeps {
            cell.widen()
        } else {
            C::Partial::default()
        };
        partial[i] = C::plus(partial[i], addend);
        counts[i] += u32::from(keeps);
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
