//! What a kernel is given: rows of cells, and where their results go.

/// Where a row of cells starts, and the group that its first result goes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
/// The longest row that is looked at together with those of other bases.
pub const SHORT: usize = 64;
/// The same where each base has one.
pub const MIDDLING: usize = 4096;

impl<'a, B> Piece<'a, B> {
    /// Whether its rows are best looked at together with those of other bases.
    #[inline(always)]
    pub fn has_short_rows(&self) -> bool {
        self.length
            <= if self.starts.len() == 1 {
                MIDDLING
            } else {
                SHORT
            }
    }

    /// Whether its columns are.
    #[inline(always)]
    pub fn has_short_columns(&self) -> bool {
        self.length <= SHORT
            && self.starts.len() > 1
            && self.outer.len() * self.inner.len() >= STREAMS
    }

    /// Calls `visit` for each base with its group and its rows: with up to `MOST`, if two visits do for all, else with up to `SHARE`
    /// at a time.
    #[inline(always)]
    pub fn for_each_rows<const SHARE: usize, const MOST: usize>(
        &self,
        mut visit: impl FnMut(usize, &[&'a [B]]),
    ) {
        const { assert!(SHARE <= MOST) };
        let depth = self.starts.len();
        let visits = if depth <= 2 * MOST {
            depth.div_ceil(MOST).max(1)
        } else {
            depth.div_ceil(SHARE)
        };
        // Equal shares: a last visit with few rows would cost as much as one with many.
        let share = depth.div_ceil(visits).max(1);
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

    /// Bases that are far apart from each other, so that short rows are streams, too.
    pub fn bases(&self) -> Bases<'a> {
        let inner = self.inner.len().max(1);
        let total = self.outer.len() * self.inner.len();
        let share = total / STREAMS;
        let mut places = [(0, 0); STREAMS];
        for (i, place) in places.iter_mut().enumerate() {
            *place = (i * share / inner, i * share % inner);
        }
        Bases {
            outer: self.outer,
            inner: self.inner,
            places,
            turns: share,
            rest: total - share * STREAMS,
        }
    }
}

/// The bases of a piece, several at a time. No iterator and no closure, which need not be inlined and would then be compiled for
/// any processor.
#[derive(Debug)]
pub struct Bases<'a> {
    outer: &'a [Base],
    inner: &'a [Base],
    places: [(usize, usize); STREAMS],
    turns: usize,
    rest: usize,
}

impl Bases<'_> {
    /// The next ones, and how many there are. For the last time they may be fewer than [`STREAMS`], and the others zero.
    #[inline(always)]
    pub fn next(&mut self) -> Option<([Base; STREAMS], usize)> {
        let mut bases = [Base::default(); STREAMS];
        if self.turns > 0 {
            self.turns -= 1;
            for i in 0..STREAMS {
                bases[i] = self.step(i);
            }
            return Some((bases, STREAMS));
        }
        let count = std::mem::take(&mut self.rest);
        // Where the last share ends, the rest begins.
        for base in &mut bases[..count] {
            *base = self.step(STREAMS - 1);
        }
        (count > 0).then_some((bases, count))
    }

    /// The base at a place, which moves on.
    #[inline(always)]
    fn step(&mut self, place: usize) -> Base {
        let (outer, inner) = &mut self.places[place];
        let (ahead, behind) = (self.outer[*outer], self.inner[*inner]);
        *inner += 1;
        if *inner == self.inner.len() {
            (*outer, *inner) = (*outer + 1, 0);
        }
        Base {
            offset: ahead.offset + behind.offset,
            group: ahead.group + behind.group,
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
