//! The input of the reduction kernels: rows of cells and the groups that they go to.

/// An offset to rows of cells, and the group of their first cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Base {
    /// The number of cells to skip.
    pub offset: usize,
    /// A group index.
    pub group: usize,
}

/// Rows of cells from chunks with the same layout. The bases are the product of `outer` and
/// `inner`, whose offsets and groups are added. Each base has one row per element of `starts`: the
/// `length` cells that begin at the offset of the base.
#[derive(Debug, Clone, Copy)]
pub struct KernelInput<'a, B> {
    /// The first cell of each row, for each base and each chunk. Offsets count from this cell. All
    /// rows of a base go to the same groups.
    pub starts: &'a [&'a [B]],
    /// The outer level of the bases. Two levels avoid materializing their product.
    pub outer: &'a [Base],
    /// The inner level of the bases.
    pub inner: &'a [Base],
    /// The number of cells in a row.
    pub length: usize,
    /// The prefetch distance in bytes, from the cells being reduced to the cells being fetched from
    /// memory.
    pub ahead: usize,
}

/// The number of rows that are read side by side. Hardware prefetchers follow that many streams.
pub const STREAMS: usize = 8;
/// The longest row that is reduced together with the rows of other bases.
pub const SHORT: usize = 64;
/// The longest row that is reduced together with those of other bases if each base has one row.
pub const MEDIUM: usize = 4096;

impl<'a, B> KernelInput<'a, B> {
    /// Returns `true` if rows should be reduced together with the rows of other bases.
    #[inline(always)]
    pub fn has_short_rows(&self) -> bool {
        self.length
            <= if self.starts.len() == 1 {
                MEDIUM
            } else {
                SHORT
            }
    }

    /// Returns `true` if columns should be reduced together with the columns of other bases.
    #[inline(always)]
    pub fn has_short_columns(&self) -> bool {
        self.length <= SHORT
            && self.starts.len() > 1
            && self.outer.len() * self.inner.len() >= STREAMS
    }

    /// Calls `visit` for each base with its group and several of its rows: at most `MOST` if two
    /// calls are enough for all rows, otherwise at most `SHARE`.
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
        // Split rows evenly: a last call with few rows would cost as much as one with many.
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

    /// Returns the bases in steps of [`STREAMS`] bases that are far apart in memory, so that short
    /// rows form streams too.
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

/// The bases of a [`KernelInput`], several at a time. This is neither an iterator nor a closure, because
/// those need not be inlined, and would then be compiled for the baseline processor.
#[derive(Debug)]
pub struct Bases<'a> {
    outer: &'a [Base],
    inner: &'a [Base],
    places: [(usize, usize); STREAMS],
    turns: usize,
    rest: usize,
}

impl Bases<'_> {
    /// Returns the next bases and their count. The last call may return fewer than [`STREAMS`]; the
    /// remaining ones are then zero.
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
        // The remaining bases follow the last stream.
        for base in &mut bases[..count] {
            *base = self.step(STREAMS - 1);
        }
        (count > 0).then_some((bases, count))
    }

    /// Returns the next base of a stream and advances the stream.
    #[inline(always)]
    fn step(&mut self, stream: usize) -> Base {
        let (outer, inner) = &mut self.places[stream];
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

/// Prefetches the memory `ahead` bytes after `cells`. Hardware prefetchers alone stop at every page
/// boundary.
#[inline(always)]
pub fn prefetch<B>(cells: &[B], ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of_val(cells)).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = cells.as_ptr().cast::<i8>().wrapping_add(ahead + line);
        // SAFETY: a prefetch is a hint that neither reads memory nor faults, wherever it points.
        // Every x86_64 processor supports the instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (cells, ahead);
}
