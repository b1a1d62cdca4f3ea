//! Sums of terms of the cells of a window, line by line.

use std::ops::Range;

use crate::provider::join::lookup::keys::KeyTerms;

/// Adds up one term per set of axes for the cells of a window.
#[derive(Debug, Default)]
pub(in crate::provider::join) struct TermLines {
    /// The shape of the grid whose combinations of indices have terms.
    shape: Vec<u64>,
    /// The window of that grid.
    window: Vec<Range<u64>>,
    /// The indices of the current cell.
    indices: Vec<u64>,
}

/// Consecutive cells along the last axis.
pub(in crate::provider::join) struct TermLine<'a> {
    /// The sum of the terms that are the same for all of these cells.
    pub base: u32,
    /// The term of each cell that is added to `base`; `None` if no term depends on the last axis.
    pub along: Option<&'a [u32]>,
    pub count: usize,
}

impl TermLines {
    pub fn new(shape: Vec<u64>, window: Vec<Range<u64>>) -> Self {
        Self {
            indices: vec![0; window.len()],
            shape,
            window,
        }
    }

    /// Calls `visit` with the lines of a run of cells, numbered in the row-major order of the window.
    pub fn visit(
        &mut self,
        terms: &[KeyTerms],
        run: Range<u64>,
        mut visit: impl FnMut(TermLine<'_>),
    ) {
        let Some(last) = self.window.last() else {
            return;
        };
        let length = (last.end - last.start).max(1);
        let mut cell = run.start;
        while cell < run.end {
            let line_end = ((cell / length + 1) * length).min(run.end);
            let mut rest = cell;
            for (indices, range) in self.indices.iter_mut().zip(&self.window).rev() {
                let extent = (range.end - range.start).max(1);
                *indices = range.start + rest % extent;
                rest /= extent;
            }
            let count = (line_end - cell) as usize;
            let mut base = 0;
            let mut along: Option<&[u32]> = None;
            for KeyTerms { axes, terms } in terms {
                let start = axes.iter().fold(0, |start, axis| {
                    start * self.shape[*axis] as usize + self.indices[*axis] as usize
                });
                match axes.last() {
                    // The terms of cells along the last axis are contiguous.
                    Some(axis) if axis + 1 == self.shape.len() => {
                        along = Some(&terms[start..][..count]);
                    }
                    _ => base = u32::saturating_add(base, terms[start]),
                }
            }
            visit(TermLine { base, along, count });
            cell = line_end;
        }
    }
}
