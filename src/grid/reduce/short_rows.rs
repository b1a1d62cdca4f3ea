//! Sums of rows of a few cells each. What is done around a row counts for as much as its cells, and read one after another
//! they keep memory waiting: rows of several bases are added up together.

use crate::grid::reduce::cell::{Cell, Keep, SumInto};
use crate::grid::reduce::piece::{Base, Piece, SHORT, STREAMS, prefetch};
use crate::grid::reduce::sums::{Sums, add_kept, add_rest, run};

/// The most rows that partial sums and counts have room for.
const MOST_ROWS: usize = 4096;

/// Adds up the rows of a piece that has one start, each of which goes to a group of its own. They have 4096 cells at
/// most.
#[inline(always)]
pub fn sum_short_rows<C: SumInto<T>, T, K: Keep<C>>(
    start: &[C::Bytes],
    piece: &Piece<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    let mut all = piece.bases();
    while let Some((bases, count)) = all.next() {
        let mut rows: [&[C::Bytes]; STREAMS] = [&[]; STREAMS];
        for (row, base) in rows.iter_mut().zip(&bases) {
            *row = &start[base.offset..][..piece.length];
        }
        let bases = &bases[..count];
        // A line of a cache at a time, and as many sums as a register holds.
        match size_of::<C>() {
            1 => add_rows::<C, T, K, 16, 64>(&rows, bases, piece.ahead, keep, sums),
            2 => add_rows::<C, T, K, 16, 32>(&rows, bases, piece.ahead, keep, sums),
            4 => add_rows::<C, T, K, 8, 16>(&rows, bases, piece.ahead, keep, sums),
            _ => add_rows::<C, T, K, 8, 8>(&rows, bases, piece.ahead, keep, sums),
        }
    }
}

/// Adds up the columns of a piece whose rows are no longer than [`SHORT`].
#[inline(always)]
pub fn sum_short_columns<C: SumInto<T>, T, K: Keep<C>>(
    piece: &Piece<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    for starts in piece.starts.chunks(MOST_ROWS) {
        let mut all = piece.bases();
        while let Some((bases, count)) = all.next() {
            add_columns::<C, T, K>(starts, &bases[..count], piece, keep, sums);
        }
    }
}

#[inline(always)]
fn add_columns<C: SumInto<T>, T, K: Keep<C>>(
    starts: &[&[C::Bytes]],
    bases: &[Base],
    piece: &Piece<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    let length = piece.length.min(SHORT);
    let mut partial = [[C::Partial::default(); SHORT]; STREAMS];
    let mut counts = [[C::Count::default(); SHORT]; STREAMS];
    for start in starts {
        for i in 0..bases.len() {
            let cells = &start[bases[i].offset..][..length];
            prefetch(cells, piece.ahead);
            let (partial, counts) = (&mut partial[i][..length], &mut counts[i][..length]);
            if K::KEEPS_NUMBERS {
                for (partial, cell) in partial.iter_mut().zip(cells) {
                    *partial = C::plus(*partial, C::load(*cell).widen());
                }
            } else {
                add_rest::<C, T>(cells, keep, partial, counts);
            }
        }
    }
    for i in 0..bases.len() {
        let (partial, counts) = (&mut partial[i][..length], &mut counts[i][..length]);
        let is_tainted = |any, one: &C::Partial| any | C::is_tainted(*one);
        let is_hopeful = K::KEEPS_NUMBERS && !partial.iter().fold(false, is_tainted);
        if K::KEEPS_NUMBERS && !is_hopeful {
            partial.fill(C::Partial::default());
            for start in starts {
                let cells = &start[bases[i].offset..][..length];
                add_rest::<C, T>(cells, keep, partial, counts);
            }
        }
        let counts = (!is_hopeful).then_some(&*counts);
        sums.add::<C>(bases[i].group, partial, counts, starts.len());
    }
}

#[inline(always)]
fn add_rows<C: SumInto<T>, T, K: Keep<C>, const LANES: usize, const LINE: usize>(
    rows: &[&[C::Bytes]; STREAMS],
    bases: &[Base],
    ahead: usize,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    let length = rows[0].len();
    let whole = length / LINE * LINE;
    let mut partial = [[C::Partial::default(); LANES]; STREAMS];
    let mut counts = [[C::Count::default(); LANES]; STREAMS];
    for at in (0..whole).step_by(LINE) {
        for row in 0..STREAMS {
            let line = &rows[row][at..at + LINE];
            prefetch(line, ahead);
            add_cells::<C, T, K, LANES>(line, keep, &mut partial[row], &mut counts[row]);
        }
    }
    if whole < length {
        for row in 0..STREAMS {
            let rest = &rows[row][whole..];
            add_cells::<C, T, K, LANES>(rest, keep, &mut partial[row], &mut counts[row]);
        }
    }
    let of_rows = across::<C, T, LANES>(partial);
    let is_counted = !(K::KEEPS_NUMBERS || sums.is_hopeful && are_all::<C, LANES>(&counts, length));
    // By constant numbers: otherwise counts were not kept in registers.
    let mut of_counts = [0; STREAMS];
    if is_counted {
        for row in 0..STREAMS {
            let counts = counts[row].iter().map(|count| (*count).into());
            of_counts[row] = counts.sum();
        }
    }
    for (row, base) in bases.iter().enumerate() {
        let (mut partial, mut count) = (of_rows[row], is_counted.then_some(of_counts[row]));
        if K::KEEPS_NUMBERS && C::HAS_NAN && C::is_tainted(partial) {
            (partial, count) = run::<C, T, K>(&[rows[row]], 0, keep);
        }
        sums.add_one::<C>(base.group, partial, count, length);
    }
}

/// Whether all cells of all rows count: asked for all rows at once, since it is seldom otherwise.
#[inline(always)]
fn are_all<C: Cell, const LANES: usize>(
    counts: &[[C::Count; LANES]; STREAMS],
    length: usize,
) -> bool {
    let mut of_lanes = [C::Count::default(); LANES];
    for row in counts {
        for i in 0..LANES {
            of_lanes[i] += row[i];
        }
    }
    let mut differ = false;
    for i in 0..LANES {
        let cells = (length + LANES - 1 - i) / LANES * STREAMS;
        differ |= of_lanes[i] != C::Count::from(cells as u16);
    }
    !differ
}

/// Adds cells of one row.
#[inline(always)]
fn add_cells<C: SumInto<T>, T, K: Keep<C>, const LANES: usize>(
    cells: &[C::Bytes],
    keep: K,
    partial: &mut [C::Partial; LANES],
    counts: &mut [C::Count; LANES],
) {
    let (blocks, rest) = cells.as_chunks::<LANES>();
    for block in blocks {
        if K::KEEPS_NUMBERS {
            for i in 0..LANES {
                partial[i] = C::plus(partial[i], C::load(block[i]).widen());
            }
        } else {
            add_kept::<C, T, LANES>(block, keep, partial, counts);
        }
    }
    if K::KEEPS_NUMBERS {
        for (partial, cell) in partial.iter_mut().zip(rest) {
            *partial = C::plus(*partial, C::load(*cell).widen());
        }
    } else {
        add_rest::<C, T>(rest, keep, partial, counts);
    }
}

/// The sum of each row.
#[inline(always)]
fn across<C: SumInto<T>, T, const LANES: usize>(
    mut partial: [[C::Partial; LANES]; STREAMS],
) -> [C::Partial; STREAMS] {
    let mut half = LANES / 2;
    while half > 0 {
        for row in &mut partial {
            for i in 0..half {
                row[i] = C::plus(row[i], row[i + half]);
            }
        }
        half /= 2;
    }
    let mut of_rows = [C::Partial::default(); STREAMS];
    for row in 0..STREAMS {
        of_rows[row] = partial[row][0];
    }
    of_rows
}
