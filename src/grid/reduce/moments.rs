//! The accumulators of all groups, for one type of cell.

use crate::grid::reduce::cell::{
    ExceptFill, Keep, KnownSum, Number, Numbers, SumInto, Total, Within, WithinExceptFill,
};
use crate::grid::reduce::deviations::{Deviation, deviation_columns, deviation_rows};
use crate::grid::reduce::extremes::{Extremes, extreme_columns, extreme_rows};
use crate::grid::reduce::group_counts::GroupCounts;
use crate::grid::reduce::kernel_input::{Base, KernelInput};
use crate::grid::reduce::layout::{self, NO_GROUP, Target};
use crate::grid::reduce::sums::{Sums, sum_columns, sum_rows};

/// The aggregates that a reduction computes for each group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RequestedAggregates {
    /// The sum of the kept cells, accumulated in this type.
    pub sum: Option<SumKind>,
    /// The number of kept cells.
    pub count: bool,
    /// The min of the kept cells.
    pub min: bool,
    /// The max of the kept cells.
    pub max: bool,
    /// The mean of the kept cells and the sum of their squared deviations from it.
    pub deviation: bool,
}

/// The type that sums are accumulated in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SumKind {
    /// f64 for all cells.
    Float,
    /// f64 for floating-point cells, wrapping 64-bit integers for integer cells.
    Natural,
}

/// The sums of all groups.
#[derive(Debug, Clone)]
pub(super) enum GroupSums<N> {
    Float(Vec<f64>),
    Natural(Vec<N>),
}

/// The min or max of all groups. `seen` is [`Extremes::seen`].
#[derive(Debug, Clone)]
pub(super) struct GroupExtremes<C> {
    pub cells: Vec<C>,
    pub seen: Vec<bool>,
}

/// The prefetch distance in bytes while several rows are read. Values between 512 and 2048 perform
/// alike. A single row needs more.
const AHEAD: usize = 1024;

/// The accumulators of all groups, for cells of one type.
#[derive(Debug, Clone)]
pub(super) struct Moments<C: Number> {
    groups: usize,
    within: Option<Within<C>>,
    /// The fill value, unless that is NaN.
    fill: Option<C>,
    /// The counts in the encoding of [`Sums::counts`].
    pub counts: Vec<i64>,
    pub totals: Option<GroupSums<C::Natural>>,
    pub min: Option<GroupExtremes<C>>,
    pub max: Option<GroupExtremes<C>>,
    pub deviations: Option<Vec<Deviation>>,
    scratch: Scratch<C>,
}

/// Accumulators of one row whose cells go to scattered groups.
#[derive(Debug, Clone)]
struct Scratch<C: Number> {
    floats: Vec<f64>,
    naturals: Vec<C::Natural>,
    counts: Vec<i64>,
    found: Vec<C>,
    seen: Vec<bool>,
    deviations: Vec<Deviation>,
}

impl<C: Number> Default for Scratch<C> {
    fn default() -> Self {
        Self {
            floats: Vec::new(),
            naturals: Vec::new(),
            counts: Vec::new(),
            found: Vec::new(),
            seen: Vec::new(),
            deviations: Vec::new(),
        }
    }
}

impl<C: Number> Moments<C> {
    /// Returns empty accumulators for this many groups. Skips NaN, `fill`, and cells out of bounds.
    pub fn new(
        groups: usize,
        wanted: RequestedAggregates,
        bounds: Option<Within<C>>,
        fill: Option<C>,
    ) -> Self {
        let found = |wanted: bool, start: C| {
            wanted.then(|| GroupExtremes {
                cells: vec![start; groups],
                seen: Vec::new(),
            })
        };
        let sums = match wanted.sum {
            // Sums come with counts.
            None => wanted.count.then_some(SumKind::Natural),
            some => some,
        };
        Self {
            groups,
            within: bounds,
            fill: fill.filter(|fill| Numbers.keeps(*fill)),
            counts: if bounds.is_none() {
                Vec::new()
            } else {
                vec![0; groups]
            },
            totals: sums.map(|kind| match kind {
                SumKind::Float => GroupSums::Float(vec![0.0; groups]),
                SumKind::Natural => GroupSums::Natural(vec![C::Natural::default(); groups]),
            }),
            min: found(wanted.min, C::HIGHEST),
            max: found(wanted.max, C::LOWEST),
            deviations: wanted.deviation.then(|| vec![Deviation::default(); groups]),
            scratch: Scratch::default(),
        }
    }

    /// Returns `true` if there are no bounds: most cells are expected to be kept, and `counts` is
    /// minus the number of skipped cells.
    pub fn expects_all(&self) -> bool {
        self.within.is_none()
    }

    /// Changes the bounds for cells that are added from now on. There must be bounds already.
    pub fn set_bounds(&mut self, bounds: Within<C>) {
        debug_assert!(!self.expects_all(), "there are no bounds");
        self.within = Some(bounds);
    }

    /// Adds the cells of chunks with the same layout.
    pub fn add(&mut self, sources: &[&[C::Bytes]], pieces: &[layout::RowPattern]) {
        for piece in pieces {
            let mut starts: Vec<&[C::Bytes]> = Vec::with_capacity(sources.len() * piece.rows.len());
            for source in sources {
                starts.extend(piece.rows.iter().map(|row| &source[*row..]));
            }
            let target = &piece.target;
            let piece = KernelInput {
                starts: &starts,
                outer: &piece.outer,
                inner: &piece.inner,
                length: piece.length,
                ahead: match (piece.is_dense, starts.len()) {
                    (false, _) => 0,
                    (true, 1) => 2 * AHEAD,
                    (true, _) => AHEAD,
                },
            };
            match (self.within, self.fill) {
                (None, None) => self.add_piece(&piece, target, Numbers),
                (None, Some(fill)) => self.add_piece(&piece, target, ExceptFill { fill }),
                // Without a fill value, a cell outside of the bounds serves as one, so that bounds
                // need only one set of kernels.
                (Some(within), fill) => match fill.or_else(|| within.outside()) {
                    Some(fill) => self.add_piece(&piece, target, WithinExceptFill { within, fill }),
                    // The bounds include every integer: reduce all but the min, then the min alone.
                    None => {
                        let [min, max] = [C::LOWEST, C::HIGHEST];
                        let others = WithinExceptFill { within, fill: min };
                        self.add_piece(&piece, target, others);
                        let within = Within { min, max: min };
                        self.add_piece(&piece, target, WithinExceptFill { within, fill: max });
                    }
                },
            }
        }
    }

    fn add_piece<K: Keep<C>>(
        &mut self,
        piece: &KernelInput<'_, C::Bytes>,
        target: &Target,
        keep: K,
    ) {
        let is_hopeful = self.expects_all();
        let scratch = &mut self.scratch;
        let counts = &mut self.counts;
        match &mut self.totals {
            Some(GroupSums::Float(totals)) => {
                let sums = Sums {
                    totals,
                    counts,
                    is_hopeful,
                };
                let (floats, counts) = (&mut scratch.floats, &mut scratch.counts);
                add_sums::<C, f64, K>(piece, target, keep, sums, floats, counts);
            }
            Some(GroupSums::Natural(totals)) => {
                let sums = Sums {
                    totals,
                    counts,
                    is_hopeful,
                };
                let (naturals, counts) = (&mut scratch.naturals, &mut scratch.counts);
                add_sums::<C, _, K>(piece, target, keep, sums, naturals, counts);
            }
            None => {}
        }
        if let Some(min) = &mut self.min {
            add_extremes(piece, target, keep, C::REVERSAL, min, scratch);
        }
        if let Some(max) = &mut self.max {
            add_extremes(piece, target, keep, C::ZERO, max, scratch);
        }
        if let Some(deviations) = &mut self.deviations {
            match target {
                Target::Base => deviation_rows(piece, keep, deviations),
                Target::Consecutive => deviation_columns(piece, keep, deviations),
                Target::Scattered(terms) => for_each_base(piece, |group, piece| {
                    let line = &mut scratch.deviations;
                    line.clear();
                    line.resize(piece.length, Deviation::default());
                    deviation_columns(piece, keep, line);
                    for_each_term(terms, group, |i, group| deviations[group].merge(line[i]));
                }),
            }
        }
    }

    /// Adds the accumulators of `other`.
    pub fn merge(&mut self, other: &Self) {
        if !other.counts.is_empty() {
            self.counts.resize(self.groups, 0);
            let counts = self.counts.iter_mut().zip(&other.counts);
            counts.for_each(|(count, other)| *count += other);
        }
        match (&mut self.totals, &other.totals) {
            (Some(GroupSums::Float(totals)), Some(GroupSums::Float(others))) => {
                let totals = totals.iter_mut().zip(others);
                totals.for_each(|(total, other)| *total += other);
            }
            (Some(GroupSums::Natural(totals)), Some(GroupSums::Natural(others))) => {
                let totals = totals.iter_mut().zip(others);
                totals.for_each(|(total, other)| total.add(*other));
            }
            _ => {}
        }
        if let (Some(min), Some(other)) = (&mut self.min, &other.min) {
            min.merge(other, |cell, before| cell < before);
        }
        if let (Some(max), Some(other)) = (&mut self.max, &other.max) {
            max.merge(other, |cell, before| cell > before);
        }
        if let (Some(deviations), Some(others)) = (&mut self.deviations, &other.deviations) {
            let deviations = deviations.iter_mut().zip(others);
            deviations.for_each(|(deviation, other)| deviation.merge(*other));
        }
    }

    /// Adds cells of one group that statistics describe: their min and max, their sum, and the
    /// number of kept and of skipped cells. Only for reductions without deviations.
    pub fn add_known(
        &mut self,
        group: usize,
        extremes: Option<(C, C)>,
        sum: Option<KnownSum>,
        count: u64,
        missing: u64,
    ) {
        self.count_known(group, count, missing);
        if let Some((min, max)) = extremes {
            self.add_known_extremes(group, min, max);
        }
        match (&mut self.totals, sum) {
            (Some(GroupSums::Float(totals)), Some(sum)) => totals[group].add(f64::of_sum(sum)),
            (Some(GroupSums::Natural(totals)), Some(sum)) => {
                totals[group].add(C::Natural::of_sum(sum));
            }
            _ => {}
        }
    }

    /// Adds skipped cells.
    pub fn add_missing(&mut self, cells: &GroupCounts) {
        // With bounds, only kept cells are counted.
        if self.expects_all() {
            cells.for_each(|group, missing| self.count_known(group, 0, missing));
        }
    }

    /// Adds kept cells of unknown values. Only for reductions that compute nothing but counts.
    pub fn add_counted(&mut self, cells: &GroupCounts) {
        // Without bounds, only skipped cells are counted.
        if !self.expects_all() {
            cells.for_each(|group, count| self.count_known(group, count, 0));
        }
    }

    /// Adds kept cells that are all the same number.
    pub fn add_constant(&mut self, cells: &GroupCounts, cell: C) {
        let mean = cell.to_f64();
        // Equal cells do not deviate from their mean, unless the mean is not a number.
        let squares = if mean.is_finite() { 0.0 } else { f64::NAN };
        cells.for_each(|group, count| {
            self.count_known(group, count, 0);
            self.add_known_extremes(group, cell, cell);
            match &mut self.totals {
                Some(GroupSums::Float(totals)) => totals[group].add(repeated(cell, count)),
                Some(GroupSums::Natural(totals)) => totals[group].add(repeated(cell, count)),
                None => {}
            }
            if let Some(deviations) = &mut self.deviations {
                deviations[group].merge(Deviation {
                    count,
                    mean,
                    squares,
                });
            }
        });
    }

    fn count_known(&mut self, group: usize, count: u64, missing: u64) {
        // May wrap: cells that exceed the range are reported as an error when they are counted per
        // group.
        if !self.expects_all() {
            self.counts[group] = self.counts[group].wrapping_add_unsigned(count);
        } else if missing > 0 {
            self.counts.resize(self.groups, 0);
            self.counts[group] = self.counts[group].wrapping_sub_unsigned(missing);
        }
    }

    fn add_known_extremes(&mut self, group: usize, min: C, max: C) {
        if let Some(found) = &mut self.min {
            found.add_known(group, min, |cell, before| cell <= before);
        }
        if let Some(found) = &mut self.max {
            found.add_known(group, max, |cell, before| cell >= before);
        }
    }
}

/// Returns the sum of `count` equal cells, by repeated doubling. The additions round or wrap like
/// those of `T`.
fn repeated<C: SumInto<T>, T: Total>(cell: C, count: u64) -> T {
    let (mut sum, mut doubled) = (T::default(), T::default());
    C::flush(cell.widen(), &mut doubled);
    let mut rest = count;
    while rest > 0 {
        if rest % 2 == 1 {
            sum.add(doubled);
        }
        doubled.add(doubled);
        rest /= 2;
    }
    sum
}

impl<C: Copy> GroupExtremes<C> {
    fn merge(&mut self, other: &Self, is_better: impl Fn(C, C) -> bool) {
        for (cell, other) in self.cells.iter_mut().zip(&other.cells) {
            if is_better(*other, *cell) {
                *cell = *other;
            }
        }
        self.seen
            .resize(self.seen.len().max(other.seen.len()), false);
        for (seen, other) in self.seen.iter_mut().zip(&other.seen) {
            *seen |= other;
        }
    }

    fn add_known(&mut self, group: usize, cell: C, is_as_good: impl Fn(C, C) -> bool) {
        self.seen.resize(self.cells.len(), false);
        self.seen[group] = true;
        if is_as_good(cell, self.cells[group]) {
            self.cells[group] = cell;
        }
    }
}

fn add_sums<C: SumInto<T>, T: Total, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    target: &Target,
    keep: K,
    mut sums: Sums<'_, T>,
    line: &mut Vec<T>,
    counts: &mut Vec<i64>,
) {
    match target {
        Target::Base => sum_rows::<C, T, K>(piece, keep, &mut sums),
        Target::Consecutive => sum_columns::<C, T, K>(piece, keep, &mut sums),
        Target::Scattered(terms) => for_each_base(piece, |group, piece| {
            line.clear();
            line.resize(piece.length, T::default());
            counts.clear();
            let mut of_line = Sums {
                totals: line,
                counts,
                is_hopeful: sums.is_hopeful,
            };
            sum_columns::<C, T, K>(piece, keep, &mut of_line);
            for_each_term(terms, group, |i, group| sums.totals[group].add(line[i]));
            if !counts.is_empty() {
                sums.counts.resize(sums.totals.len(), 0);
                for_each_term(terms, group, |i, group| sums.counts[group] += counts[i]);
            }
        }),
    }
}

fn add_extremes<C: Number, K: Keep<C>>(
    piece: &KernelInput<'_, C::Bytes>,
    target: &Target,
    keep: K,
    reversal: C,
    groups: &mut GroupExtremes<C>,
    scratch: &mut Scratch<C>,
) {
    let mut extremes = Extremes {
        found: &mut groups.cells,
        seen: &mut groups.seen,
        reversal,
    };
    match target {
        Target::Base => extreme_rows(piece, keep, &mut extremes),
        Target::Consecutive => extreme_columns(piece, keep, &mut extremes),
        Target::Scattered(terms) => for_each_base(piece, |group, piece| {
            let (found, seen) = (&mut scratch.found, &mut scratch.seen);
            found.clear();
            found.resize(piece.length, C::LOWEST.xor(reversal));
            seen.clear();
            let mut of_line = Extremes {
                found,
                seen,
                reversal,
            };
            extreme_columns(piece, keep, &mut of_line);
            for_each_term(terms, group, |i, group| {
                extremes.update(group, &[found[i].xor(reversal)]);
            });
            if !seen.is_empty() {
                extremes.seen.resize(extremes.found.len(), false);
                for_each_term(terms, group, |i, group| extremes.seen[group] |= seen[i]);
            }
        }),
    }
}

/// Calls `visit` for each base with its group and a [`KernelInput`] of only that base, whose groups count
/// from zero.
fn for_each_base<B>(piece: &KernelInput<'_, B>, mut visit: impl FnMut(usize, &KernelInput<'_, B>)) {
    for outer in piece.outer {
        for inner in piece.inner {
            let base = [Base {
                offset: outer.offset + inner.offset,
                group: 0,
            }];
            let origin = [Base {
                offset: 0,
                group: 0,
            }];
            let one = KernelInput {
                outer: &base,
                inner: &origin,
                ..*piece
            };
            visit(outer.group + inner.group, &one);
        }
    }
}

fn for_each_term(terms: &[usize], group: usize, mut visit: impl FnMut(usize, usize)) {
    for (i, term) in terms.iter().enumerate() {
        if *term != NO_GROUP {
            visit(i, group + term);
        }
    }
}
