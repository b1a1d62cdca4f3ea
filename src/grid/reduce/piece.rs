//! What a kernel is given: rows of cells, and where their results go.

/// Where a row of cells starts, and the group that its first result goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    /// A number of cells.
    pub offset: usize,
    /// A number of groups.
    pub group: usize,
}

/// Cells of some chunks of the same layout: for each pair of an outer and an inner base the rows that start at the sum of
/// their offsets in every one of `starts`.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a, B> {
    /// What the rows of a base are counted from, in all chunks. They have their results in common.
    pub starts: &'a [&'a [B]],
    /// The bases, in two levels, so that they need not be spelled out.
    pub outer: &'a [Base],
    /// The second level.
    pub inner: &'a [Base],
    /// Cells of a row.
    pub length: usize,
    /// Bytes between the cells that are looked at and those that memory is asked for meanwhile.
    pub ahead: usize,
}

/// Rows that are best looked at together, as streams that hardware follows.
pub const STREAMS: usize = 8;

impl<'a, B> Piece<'a, B> {
    /// Calls `visit` for each base with its group and up to `MOST` of its rows, until all have been visited.
    #[inline(always)]
    pub fn for_each_rows<const MOST: usize>(&self, mut visit: impl FnMut(usize, &[&'a [B]])) {
        let depth = self.starts.len();
        // Equal shares: a last visit with few rows would cost as much as one with many.
        let share = depth.div_ceil(depth.div_ceil(MOST).max(1)).max(1);
        let empty: &[B] = &[];
        let mut rows = [empty; MOST];
        for outer in self.outer {
            for inner in self.inner {
                let offset = outer.offset + inner.offset;
                for starts in self.starts.chunks(share) {
                    for (row, start) in rows.iter_mut().zip(starts) {
                        *row = &start[offset..][..self.length];
                    }
                    visit(outer.group + inner.group, &rows[..starts.len()]);
                }
            }
        }
    }
}

/// Asks memory for what lies behind some cells: hardware that reads ahead by itself stops at every page.
#[inline(always)]
pub fn prefetch<B>(cells: &[B], ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of_val(cells)).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = cells.as_ptr().cast::<i8>().wrapping_add(ahead + line);
        // SAFETY: a hint, which neither reads nor fails, wherever it points. Every x86_64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (cells, ahead);
}
