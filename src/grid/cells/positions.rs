//! [`Positions`]: the indices of some rows along an axis.

use std::ops::Range;

use crate::grid::cells::Cells;
use crate::grid::index_set::IndexSet;

/// The indices along an axis, relative to the start of the window, of ascending rows.
pub struct Positions<'a> {
    set: &'a IndexSet,
    /// The rows between two consecutive indices.
    step: u64,
    rows: std::slice::Iter<'a, u64>,
    /// Rows whose indices are known: that of the first one is `position`. The others have the same, or the
    /// indices after it if `step` is one.
    known: Range<u64>,
    position: u64,
}

impl<'a> Positions<'a> {
    pub fn new(cells: &'a Cells, axis: usize, rows: &'a [u64]) -> Self {
        Self {
            set: &cells.sets[axis],
            step: cells.rows_per_step[axis],
            rows: rows.iter(),
            known: 0..0,
            position: 0,
        }
    }

    fn seek(&mut self, row: u64) {
        let index = match self.step {
            1 => row,
            step => row / step,
        };
        if let Some((_, position, end)) = self.set.range_of_rank(index % self.set.count()) {
            self.position = position;
            let end = match self.step {
                1 => row + (end - position),
                step => (index + 1) * step,
            };
            self.known = row..end;
        }
    }
}

impl Iterator for Positions<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let row = *self.rows.next()?;
        if row >= self.known.end {
            self.seek(row);
        }
        Some(match self.step {
            1 => self.position + (row - self.known.start),
            _ => self.position,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}
