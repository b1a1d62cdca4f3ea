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
/// their offsets and those in `rows`, in every source.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a, B> {
    /// The cells of each chunk.
    pub sources: &'a [&'a [B]],
    /// The bases, in two levels, so that they need not be spelled out.
    pub outer: &'a [Base],
    /// The second level.
    pub inner: &'a [Base],
    /// The rows of a base that have their results in common.
    pub rows: &'a [usize],
    /// Cells of a row.
    pub length: usize,
}

/// Rows that are added at once. As many streams as hardware follows, so that results are loaded and stored the less.
const MOST_ROWS: usize = 64;

impl<'a, B> Piece<'a, B> {
    /// Cells that go to each result of a line.
    pub fn depth(&self) -> usize {
        self.sources.len() * self.rows.len()
    }

    /// Calls `visit` for each base with its group and some of its rows, until all have been visited.
    #[inline(always)]
    pub fn for_each_rows(&self, mut visit: impl FnMut(usize, &[&'a [B]])) {
        let depth = self.depth();
        // Equal shares: a last visit with few rows would cost as much as one with many.
        let share = depth.div_ceil(depth.div_ceil(MOST_ROWS).max(1)).max(1);
        let empty: &[B] = &[];
        let mut some = [empty; MOST_ROWS];
        for outer in self.outer {
            for inner in self.inner {
                let offset = outer.offset + inner.offset;
                let group = outer.group + inner.group;
                let mut count = 0;
                for source in self.sources {
                    for row in self.rows {
                        some[count] = &source[offset + row..][..self.length];
                        count += 1;
                        if count == share {
                            visit(group, &some[..count]);
                            count = 0;
                        }
                    }
                }
                if count > 0 {
                    visit(group, &some[..count]);
                }
            }
        }
    }
}
