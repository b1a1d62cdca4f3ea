//! Filters of stored cells by ranges of values.

use arrow::array::BooleanBufferBuilder;
use multiversion::multiversion;

use crate::grid::reduce::CellType;
use crate::grid::reduce::cell::{Cell, Keep, Within};
use crate::grid::reduce::kernel_input::prefetch;

/// The number of cells that are tested at once: one word of bits.
const WORD: usize = 64;
/// The number of streams in which cells are read. Several streams use more of the memory bandwidth than one.
const STREAMS: usize = 4;
/// The prefetch distance in bytes, from the cells being tested to the cells being fetched from memory.
const AHEAD: usize = 2048;

/// A filter that keeps the stored cells whose values lie in ranges, or all other cells.
///
/// ```text
/// value BETWEEN 2 AND 5        cells  1 2 7 5    fill 7, ranges [2, 5]
///                              bits   0 1 0 1
/// ```
#[derive(Debug, Clone)]
pub struct CellFilter {
    cell_type: CellType,
    ranges: Vec<(u64, u64)>,
    fill: Option<u64>,
    keeps_others: bool,
}

impl CellFilter {
    /// Creates a filter that keeps the cells within any of `ranges`, which are the bit patterns of
    /// inclusive lower and upper bounds. NaN and cells with the bit pattern `fill` are in no range.
    /// If `keeps_others` is `true`, the filter keeps all other cells instead. Returns `None` for
    /// f16 cells, which are not supported.
    pub fn new(
        cell_type: CellType,
        ranges: Vec<(u64, u64)>,
        fill: Option<u64>,
        keeps_others: bool,
    ) -> Option<Self> {
        (cell_type != CellType::F16).then_some(Self {
            cell_type,
            ranges,
            fill,
            keeps_others,
        })
    }

    /// Appends one bit per cell to `kept`, set if the filter keeps the cell.
    pub fn test(&self, cells: &[u8], kept: &mut BooleanBufferBuilder) {
        match self.cell_type {
            // `new` returns no filter for this type.
            CellType::F16 => {}
            CellType::F32 => self.test_as::<f32>(cells, kept),
            CellType::F64 => self.test_as::<f64>(cells, kept),
            CellType::I8 => self.test_as::<i8>(cells, kept),
            CellType::I16 => self.test_as::<i16>(cells, kept),
            CellType::I32 => self.test_as::<i32>(cells, kept),
            CellType::I64 => self.test_as::<i64>(cells, kept),
            CellType::U8 => self.test_as::<u8>(cells, kept),
            CellType::U16 => self.test_as::<u16>(cells, kept),
            CellType::U32 => self.test_as::<u32>(cells, kept),
            CellType::U64 => self.test_as::<u64>(cells, kept),
        }
    }

    fn test_as<C: Cell>(&self, cells: &[u8], kept: &mut BooleanBufferBuilder) {
        let within = self.ranges.iter().map(|(min, max)| Within {
            min: C::from_pattern(*min),
            max: C::from_pattern(*max),
        });
        let within: Vec<_> = within.collect();
        let fill = self.fill.map(C::from_pattern);
        let mut cells = C::split(cells);
        if kept.len().is_multiple_of(8) {
            // Whole words are written in place.
            let (start, count) = (kept.len() / 8, cells.len() / WORD * WORD);
            let (words, rest) = cells.split_at(count);
            kept.advance(count);
            let bits = &mut kept.as_slice_mut()[start..];
            test_all(words, &within, fill, self.keeps_others, bits);
            cells = rest;
        }
        let mut bits = vec![0; cells.len().div_ceil(WORD) * size_of::<u64>()];
        test_all(cells, &within, fill, self.keeps_others, &mut bits);
        kept.append_packed_range(0..cells.len(), &bits);
    }
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
fn test_all<C: Cell>(
    cells: &[C::Bytes],
    within: &[Within<C>],
    fill: Option<C>,
    keeps_others: bool,
    bits: &mut [u8],
) {
    let (bits, _) = bits.as_chunks_mut::<{ size_of::<u64>() }>();
    let (words, rest) = cells.as_chunks::<WORD>();
    let words_per_stream = words.len() / STREAMS;
    for index in 0..words_per_stream {
        for stream in 0..STREAMS {
            let index = stream * words_per_stream + index;
            bits[index] = test_some(&words[index], within, fill, keeps_others);
        }
    }
    for index in STREAMS * words_per_stream..words.len() {
        bits[index] = test_some(&words[index], within, fill, keeps_others);
    }
    if !rest.is_empty() {
        bits[words.len()] = test_some(rest, within, fill, keeps_others);
    }
}

/// Returns one bit for each of at most [`WORD`] cells, set if the cell is kept.
#[inline(always)]
fn test_some<C: Cell>(
    cells: &[C::Bytes],
    within: &[Within<C>],
    fill: Option<C>,
    keeps_others: bool,
) -> [u8; size_of::<u64>()] {
    prefetch(cells, AHEAD);
    // One byte per cell, 0 or 1.
    let mut all = [0; WORD];
    let kept = &mut all[..cells.len()];
    for within in within {
        for (kept, cell) in kept.iter_mut().zip(cells) {
            *kept |= u8::from(within.keeps(C::load(*cell)));
        }
    }
    if let Some(fill) = fill {
        for (kept, cell) in kept.iter_mut().zip(cells) {
            *kept &= u8::from(!C::load(*cell).is_same(fill));
        }
    }
    if keeps_others {
        kept.iter_mut().for_each(|kept| *kept ^= 1);
    }
    packed(&all).to_le_bytes()
}

/// Packs bytes that are 0 or 1 into the bits of a word, the first into the lowest bit.
#[inline(always)]
fn packed(bytes: &[u8; WORD]) -> u64 {
    let mut word = 0;
    for (index, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        // The product has byte `i` of the factor at bit `56 + i`, and nothing else at these bits.
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word |= bits << (8 * index);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(filter: &CellFilter, cells: &[u8]) -> Vec<bool> {
        // The bits before these may end within a byte, as after an earlier run.
        let [first, other, another] = [0, 3, 16].map(|before| {
            let mut bits = BooleanBufferBuilder::new(0);
            bits.append_n(before, true);
            filter.test(cells, &mut bits);
            let bits = bits.finish();
            assert!(bits.iter().take(before).all(|bit| bit));
            bits.iter().skip(before).collect::<Vec<_>>()
        });
        assert!(first == other && first == another);
        first
    }

    #[test]
    fn cells_are_tested_one_by_one() {
        for length in [0, 1, 7, 63, 64, 65, 200, 700] {
            let cells: Vec<u16> = (0..length)
                .map(|i: u16| i.wrapping_mul(40_503) % 50)
                .collect();
            let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
            for ranges in [vec![], vec![(3, 9)], vec![(0, 4), (20, 20), (31, 49)]] {
                for fill in [None, Some(4), Some(30)] {
                    for others in [false, true] {
                        let filter =
                            CellFilter::new(CellType::U16, ranges.clone(), fill, others).unwrap();
                        let expected = cells.iter().map(|cell| {
                            let cell = u64::from(*cell);
                            let within =
                                ranges.iter().any(|(min, max)| (min..=max).contains(&&cell));
                            (within && fill != Some(cell)) != others
                        });
                        let expected: Vec<_> = expected.collect();
                        assert_eq!(kept(&filter, &bytes), expected, "{filter:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn nan_is_in_no_range() {
        let cells = [
            f32::NAN,
            f32::NEG_INFINITY,
            -0.0,
            0.0,
            1.5,
            f32::INFINITY,
            -f32::NAN,
        ];
        let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
        let bits = |min: f32, max: f32| (min.to_bits().into(), max.to_bits().into());
        let all = vec![bits(f32::NEG_INFINITY, f32::INFINITY)];
        let filter = |ranges, others| CellFilter::new(CellType::F32, ranges, None, others).unwrap();
        let numbers = [false, true, true, true, true, true, false];
        assert_eq!(kept(&filter(all.clone(), false), &bytes), numbers);
        assert_eq!(
            kept(&filter(all, true), &bytes),
            numbers.map(|number| !number)
        );
        let zero = vec![bits(0.0, 0.0)];
        let zeros = [false, false, true, true, false, false, false];
        assert_eq!(kept(&filter(zero, false), &bytes), zeros);
    }
}
