//! Masks the cells of one array by the values of another.

use crate::grid::reduce::CellType;
use crate::grid::reduce::cell::Cell;

/// Masked copies of cells. Cells outside of the mask are replaced by a number that reductions skip.
///
/// ```text
/// avg(a) WHERE b > 3
///
/// b       1   5   4   2
/// a       7   8   9   6
/// masked  NaN 8   9   NaN
/// ```
#[derive(Debug, Default)]
pub struct MaskedCells {
    /// The mask: for each cell, `true` if the cell is kept.
    counts: Vec<bool>,
    cells: Vec<u8>,
}

impl MaskedCells {
    /// Computes the mask. A cell is kept if the cell of `mask` is not the fill value, and is within one of
    /// the `bounds`, which are inclusive bit patterns of the cell type. [`CellType::F16`] is not supported.
    pub fn mark(
        &mut self,
        mask: &[u8],
        cell_type: CellType,
        bounds: &[(u64, u64)],
        fill: Option<u64>,
    ) {
        let counts = &mut self.counts;
        match cell_type {
            CellType::F16 => debug_assert!(false, "f16 cells do not mask others"),
            CellType::F32 => mark::<f32>(mask, bounds, fill, counts),
            CellType::F64 => mark::<f64>(mask, bounds, fill, counts),
            CellType::I8 => mark::<i8>(mask, bounds, fill, counts),
            CellType::I16 => mark::<i16>(mask, bounds, fill, counts),
            CellType::I32 => mark::<i32>(mask, bounds, fill, counts),
            CellType::I64 => mark::<i64>(mask, bounds, fill, counts),
            CellType::U8 => mark::<u8>(mask, bounds, fill, counts),
            CellType::U16 => mark::<u16>(mask, bounds, fill, counts),
            CellType::U32 => mark::<u32>(mask, bounds, fill, counts),
            CellType::U64 => mark::<u64>(mask, bounds, fill, counts),
        }
    }

    /// Copies cells, and replaces cells outside of the mask by the number with the bits `skipped`.
    pub fn copy(&mut self, cells: &[u8], cell_type: CellType, skipped: u64) {
        self.cells.resize(cells.len(), 0);
        match cell_type.size() {
            1 => copy::<1>(cells, &self.counts, skipped, &mut self.cells),
            2 => copy::<2>(cells, &self.counts, skipped, &mut self.cells),
            4 => copy::<4>(cells, &self.counts, skipped, &mut self.cells),
            _ => copy::<8>(cells, &self.counts, skipped, &mut self.cells),
        }
    }

    /// Returns the cells that were copied last.
    pub fn cells(&self) -> &[u8] {
        &self.cells
    }
}

fn mark<C: Cell>(mask: &[u8], bounds: &[(u64, u64)], fill: Option<u64>, counts: &mut Vec<bool>) {
    let cells = C::split(mask);
    counts.clear();
    counts.resize(cells.len(), false);
    // One simple loop per bound, which the compiler vectorizes.
    for (min, max) in bounds {
        let (min, max) = (C::from_pattern(*min), C::from_pattern(*max));
        for (counts, cell) in counts.iter_mut().zip(cells) {
            let cell = C::load(*cell);
            *counts |= min <= cell && cell <= max;
        }
    }
    if let Some(fill) = fill.map(C::from_pattern) {
        for (counts, cell) in counts.iter_mut().zip(cells) {
            *counts &= !C::load(*cell).is_same(fill);
        }
    }
}

fn copy<const SIZE: usize>(cells: &[u8], counts: &[bool], skipped: u64, copied: &mut [u8]) {
    let mut replacement = [0; SIZE];
    replacement.copy_from_slice(&skipped.to_le_bytes()[..SIZE]);
    let cells = cells.as_chunks::<SIZE>().0.iter();
    let copied = copied.as_chunks_mut::<SIZE>().0.iter_mut();
    for ((copied, cell), counts) in copied.zip(cells).zip(counts) {
        *copied = if *counts { *cell } else { replacement };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_count_where_the_mask_is_within_bounds() {
        let bytes = |numbers: &[f32]| {
            numbers
                .iter()
                .flat_map(|n| n.to_le_bytes())
                .collect::<Vec<_>>()
        };
        let bits = |number: f32| u64::from(number.to_bits());
        let mask = bytes(&[1.0, f32::NAN, 3.0, -9.0, 7.0, 5.0, -0.0]);
        let bounds = [(bits(0.0), bits(3.0)), (bits(5.0), bits(f32::INFINITY))];
        let mut masked = MaskedCells::default();
        masked.mark(&mask, CellType::F32, &bounds, Some(bits(7.0)));
        assert_eq!(masked.counts, [true, false, true, false, false, true, true]);
        let cells: Vec<u8> = (1..=7i16).flat_map(i16::to_le_bytes).collect();
        masked.copy(&cells, CellType::I16, -1i16 as u64);
        let copied = masked.cells().as_chunks().0.iter();
        let copied: Vec<i16> = copied.map(|cell| i16::from_le_bytes(*cell)).collect();
        assert_eq!(copied, [1, -1, 3, -1, -1, 6, 7]);
    }
}
