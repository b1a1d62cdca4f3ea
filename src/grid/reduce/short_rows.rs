//! Sums of short rows. The overhead per row is as large as the work on its cells, and reading one
//! short row after another stalls on memory. So the rows of several bases are summed together.

use crate::grid::reduce::cell::{Cell, Keep, SumInto};
use crate::grid::reduce::kernel_input::{Base, KernelInput, MEDIUM, SHORT, STREAMS, prefetch};
use crate::grid::reduce::sums::{Sums, add_kept, add_rest, exception, run, settle, settled};

/// The maximum number of rows per partial sum of a column, well below the 65,535 that its counter
/// holds.
const MAX_ROWS: usize = 4096;
/// The number of partial sums per row: as many as fit in a register.
const LANES: usize = 8;
/// The maximum number of rows of one base that are summed together.
const MAX_STARTS: usize = 64;

/// Sums by row where [`KernelInput::has_short_rows`].
#[inline(always)]
pub fn sum_short_rows<C: SumInto<T>, T, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    for starts in piece.starts.chunks(MAX_STARTS) {
        let mut all = piece.bases();
        while let Some((bases, count)) = all.next() {
            // The lines of `add_rows` are cache lines of 64 bytes.
            match (size_of::<C>(), count) {
                (1 | 2, _) => add_narrow::<C, T, K>(starts, &bases[..count], piece, keep, sums),
                (4, STREAMS) => add_rows::<C, T, K, 16>(starts, &bases, piece, keep, sums),
                (_, STREAMS) => add_rows::<C, T, K, 8>(starts, &bases, piece, keep, sums),
                _ => {
                    for base in &bases[..count] {
                        add_row::<C, T, K>(starts, base, piece, keep, sums);
                    }
                }
            }
        }
    }
}

/// Sums by column where rows are no longer than [`SHORT`].
#[inline(always)]
pub fn sum_short_columns<C: SumInto<T>, T, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    for starts in piece.starts.chunks(MAX_ROWS) {
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
    piece: &KernelInput<'_, C::Bytes>,
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
        if !is_hopeful {
            settle::<C, T>(keep, partial, counts, starts.len());
        }
        let counts = (!is_hopeful).then_some(&*counts);
        sums.add::<C>(bases[i].group, partial, counts, starts.len());
    }
}

/// Sums rows of small integers, where the order of additions does not matter. Compilers vectorize
/// plain loops best if all numbers in each have the same width.
#[inline(always)]
fn add_narrow<C: SumInto<T>, T, K: Keep<C>>(
    starts: &[&[C::Bytes]],
    bases: &[Base],
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    let exception = exception::<C, T>(keep);
    for base in bases {
        let mut sum = C::Partial::default();
        // A 16-bit counter holds the cells of one row, or of several short ones.
        const { assert!(MEDIUM <= u16::MAX as usize && MAX_STARTS * SHORT <= u16::MAX as usize) };
        let mut count = C::Count::default();
        for start in starts {
            let cells = &start[base.offset..][..piece.length];
            prefetch(cells, piece.ahead);
            for cell in cells {
                let cell = C::load(*cell);
                let is_counted = match exception {
                    Some(exception) => cell.is_same(exception),
                    None => keep.keeps(cell),
                };
                count += is_counted.into();
            }
            for cell in cells {
                let cell = C::load(*cell);
                let is_added = exception.is_some() || keep.keeps(cell);
                let addend = if is_added { cell } else { C::ZERO };
                sum = C::plus(sum, addend.widen());
            }
        }
        let cells = starts.len() * piece.length;
        let (sum, count) = settled::<C, T>(keep, sum, count.into(), cells);
        let count = (!K::KEEPS_NUMBERS).then_some(count);
        sums.add_one::<C>(base.group, sum, count, cells);
    }
}

#[inline(always)]
fn add_rows<C: SumInto<T>, T, K: Keep<C>, const LINE: usize>(
    starts: &[&[C::Bytes]],
    bases: &[Base; STREAMS],
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    let length = piece.length;
    let whole = length / LINE * LINE;
    let mut partial = [[C::Partial::default(); LANES]; STREAMS];
    let mut counts = [[C::Count::default(); LANES]; STREAMS];
    for start in starts {
        let mut rows: [&[C::Bytes]; STREAMS] = [&[]; STREAMS];
        for i in 0..STREAMS {
            rows[i] = &start[bases[i].offset..][..length];
        }
        for at in (0..whole).step_by(LINE) {
            for i in 0..STREAMS {
                let line = &rows[i][at..at + LINE];
                prefetch(line, piece.ahead);
                add_cells::<C, T, K>(line, keep, &mut partial[i], &mut counts[i]);
            }
        }
        if whole < length {
            for i in 0..STREAMS {
                let rest = &rows[i][whole..];
                add_cells::<C, T, K>(rest, keep, &mut partial[i], &mut counts[i]);
            }
        }
    }
    let of_rows = across::<C, T>(partial);
    let exception = exception::<C, T>(keep);
    let expected = if exception.is_some() { 0 } else { starts.len() };
    let is_counted =
        !(K::KEEPS_NUMBERS || sums.is_hopeful && are_all::<C>(&counts, length, expected));
    // Loop over constant bounds: otherwise the counts would not stay in registers.
    let mut of_counts = [0; STREAMS];
    if is_counted {
        for row in 0..STREAMS {
            let counts = counts[row].iter().map(|count| (*count).into());
            of_counts[row] = counts.sum();
        }
    }
    for (i, base) in bases.iter().enumerate() {
        if K::KEEPS_NUMBERS && C::HAS_NAN && C::is_tainted(of_rows[i]) {
            add_row::<C, T, K>(starts, base, piece, keep, sums);
        } else {
            let cells = starts.len() * length;
            let (sum, count) = if is_counted {
                settled::<C, T>(keep, of_rows[i], of_counts[i], cells)
            } else {
                (of_rows[i], 0)
            };
            sums.add_one::<C>(base.group, sum, is_counted.then_some(count), cells);
        }
    }
}

/// Sums the rows of one base.
#[inline(always)]
fn add_row<C: SumInto<T>, T, K: Keep<C>>(
    starts: &[&[C::Bytes]],
    base: &Base,
    piece: &KernelInput<'_, C::Bytes>,
    keep: K,
    sums: &mut Sums<'_, T>,
) {
    let mut rows: [&[C::Bytes]; MAX_STARTS] = [&[]; MAX_STARTS];
    for (row, start) in rows.iter_mut().zip(starts) {
        *row = &start[base.offset..][..piece.length];
    }
    let (partial, count) = run::<C, T, K>(&rows[..starts.len()], piece.ahead, keep);
    sums.add_one::<C>(base.group, partial, count, starts.len() * piece.length);
}

/// Returns `true` if the counts of all bases are those of `rows` rows of `length` cells. Only the
/// sums over the bases are compared, because no base can exceed its share. Usually all of them
/// match.
#[inline(always)]
fn are_all<C: Cell>(counts: &[[C::Count; LANES]; STREAMS], length: usize, rows: usize) -> bool {
    let mut of_lanes = [C::Count::default(); LANES];
    for row in counts {
        for i in 0..LANES {
            of_lanes[i] += row[i];
        }
    }
    let mut differ = false;
    for i in 0..LANES {
        let cells = (length + LANES - 1 - i) / LANES * STREAMS * rows;
        differ |= of_lanes[i] != C::Count::from(cells as u16);
    }
    !differ
}

/// Adds cells of one row.
#[inline(always)]
fn add_cells<C: SumInto<T>, T, K: Keep<C>>(
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

/// Returns the sum of each row.
#[inline(always)]
fn across<C: SumInto<T>, T>(mut partial: [[C::Partial; LANES]; STREAMS]) -> [C::Partial; STREAMS] {
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
