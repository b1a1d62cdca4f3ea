//! Values per group that are sums of products over axes.
//!
//! The number of cells in a group is such a value: the product, over the axes, of the number of
//! indices that the group has along the axis, summed over the grids.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use crate::provider::aggregate::plan::terms::{Factor, Term, Terms};

/// The number of groups between two yields to the scheduler.
const TURN: usize = 1 << 18;

/// A number that can be summed and multiplied.
pub(crate) trait Number: Copy + PartialEq + Send + Sync + 'static {
    /// The additive identity.
    const ZERO: Self;

    /// Converts a multiplicity.
    fn of(times: u64) -> Self;

    fn add(self, other: Self) -> Self;

    fn multiply(self, other: Self) -> Self;
}

/// Saturates at `u64::MAX`.
impl Number for u64 {
    const ZERO: Self = 0;

    fn of(times: u64) -> Self {
        times
    }

    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }

    fn multiply(self, other: Self) -> Self {
        self.saturating_mul(other)
    }
}

/// Wraps around, like DataFusion's integer sums.
impl Number for i64 {
    const ZERO: Self = 0;

    fn of(times: u64) -> Self {
        times as i64
    }

    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn multiply(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
}

impl Number for f64 {
    const ZERO: Self = 0.0;

    fn of(times: u64) -> Self {
        times as f64
    }

    fn add(self, other: Self) -> Self {
        self + other
    }

    fn multiply(self, other: Self) -> Self {
        self * other
    }
}

/// Consecutive groups along an axis that have the same value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run<T> {
    pub groups: Range<usize>,
    pub number: T,
}

impl<T> Run<T> {
    /// Creates a run of a single group.
    pub fn one(group: usize, number: T) -> Self {
        Self {
            groups: group..group + 1,
            number,
        }
    }
}

/// The groups along an axis and their values.
#[derive(Debug, Clone)]
pub(crate) struct AxisValues<T> {
    /// The number of groups along the axis.
    pub count: usize,
    /// The difference between the group indices of neighbouring groups along the axis.
    pub stride: usize,
    /// For each class of grids, the values of the groups, in ascending order. Groups in no run have
    /// the value zero.
    pub different: Vec<Vec<Run<T>>>,
}

/// One value per group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PerGroup<T> {
    /// All groups have this value.
    Same(T),
    Each(Vec<T>),
}

impl<T: Copy> PerGroup<T> {
    /// Returns the value of one group.
    pub fn of(&self, group: usize) -> T {
        match self {
            Self::Same(number) => *number,
            Self::Each(numbers) => numbers[group],
        }
    }
}

/// Adds up the values of each group along an axis. The runs may come in any order and overlap.
pub(crate) fn add_up<T: Number>(mut runs: impl Iterator<Item = Run<T>>) -> Vec<Run<T>> {
    let mut sum: Vec<Run<T>> = Vec::new();
    // Runs usually ascend, possibly with the same groups several times in a row.
    let mut open: Option<Run<T>> = None;
    while let Some(next) = runs.next() {
        match &mut open {
            Some(open) if open.groups == next.groups => open.number = open.number.add(next.number),
            Some(last) if next.groups.start < last.groups.end => {
                let all = sum.into_iter().chain(open).chain([next]).chain(runs);
                return add_up_in_any_order(all);
            }
            _ => push(&mut sum, open.replace(next)),
        }
    }
    push(&mut sum, open);
    sum
}

fn add_up_in_any_order<T: Number>(runs: impl Iterator<Item = Run<T>>) -> Vec<Run<T>> {
    let all = runs.flat_map(|run| run.groups.map(move |group| (group, run.number)));
    let mut all: Vec<(usize, T)> = all.collect();
    // A stable sort makes sums of floating-point numbers reproducible.
    all.sort_by_key(|(group, _)| *group);
    all.dedup_by(|next, sum| {
        let is_same = next.0 == sum.0;
        if is_same {
            sum.1 = sum.1.add(next.1);
        }
        is_same
    });
    let mut sum = Vec::new();
    for (group, number) in all {
        push(&mut sum, Some(Run::one(group, number)));
    }
    sum
}

fn push<T: Number>(runs: &mut Vec<Run<T>>, next: Option<Run<T>>) {
    let Some(next) = next.filter(|next| next.number != T::ZERO) else {
        return;
    };
    match runs.last_mut() {
        Some(last) if last.groups.end == next.groups.start && last.number == next.number => {
            last.groups.end = next.groups.end;
        }
        _ => runs.push(next),
    }
}

/// Returns the sum over all terms of the product of each group's values along the axes.
pub(crate) async fn sums<T: Number>(
    terms: &Terms,
    axes: &[AxisValues<T>],
    groups: usize,
) -> PerGroup<T> {
    let mut each = Vec::new();
    for term in &terms.terms {
        let axes = product_axes(terms, term, axes);
        let times = T::of(term.times);
        if terms.terms.len() == 1
            && let Some(product) = same(&axes, times)
        {
            return PerGroup::Same(product);
        }
        if each.is_empty() {
            each = vec![T::ZERO; groups];
        }
        products(&axes, times, |line, product| {
            for group in line.groups() {
                each[group] = each[group].add(product);
            }
        })
        .await;
    }
    if terms.terms.is_empty() {
        return PerGroup::Same(T::ZERO);
    }
    PerGroup::Each(each)
}

/// The values of the groups along one axis of one product.
pub(crate) struct ProductAxis<'a, T: Clone> {
    count: usize,
    stride: usize,
    runs: Cow<'a, [Run<T>]>,
}

impl<T: Clone> ProductAxis<'_, T> {
    /// Returns `true` if only a single group has a value.
    fn is_one_group(&self) -> bool {
        matches!(self.runs.as_ref(), [run] if run.groups.len() == 1)
    }
}

/// Returns the axes of one product, slowest first. Axes with a single group come ahead of all
/// others.
pub(crate) fn product_axes<'a, T: Number>(
    terms: &Terms,
    term: &Term,
    axes: &'a [AxisValues<T>],
) -> Vec<ProductAxis<'a, T>> {
    let axes = axes.iter().enumerate().map(|(number, axis)| ProductAxis {
        count: axis.count,
        stride: axis.stride,
        runs: added(terms.factor(term, number), &axis.different),
    });
    let mut axes: Vec<_> = axes.collect();
    axes.sort_by_key(|axis| Reverse((axis.is_one_group(), axis.stride)));
    axes
}

fn added<'a, T: Number>(factor: &Factor, different: &'a [Vec<Run<T>>]) -> Cow<'a, [Run<T>]> {
    if let [(number, 1)] = factor[..] {
        return Cow::Borrowed(&different[number]);
    }
    let runs = factor.iter().flat_map(|(number, times)| {
        let times = T::of(*times);
        different[*number].iter().map(move |run| Run {
            groups: run.groups.clone(),
            number: run.number.multiply(times),
        })
    });
    Cow::Owned(add_up(runs))
}

/// Returns the product if it is the same for all groups.
fn same<T: Number>(axes: &[ProductAxis<T>], times: T) -> Option<T> {
    axes.iter()
        .try_fold(times, |product, axis| match axis.runs.as_ref() {
            [run] if run.groups.len() == axis.count => Some(product.multiply(run.number)),
            _ => None,
        })
}

/// Group indices with a constant step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    first: usize,
    count: usize,
    step: usize,
}

impl Line {
    /// Returns the group indices.
    pub fn groups(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |number| self.first + number * self.step)
    }
}

/// Calls `visit` with all groups that have a value along every axis, and the product of the values.
pub(crate) async fn products<T: Number>(
    axes: &[ProductAxis<'_, T>],
    times: T,
    mut visit: impl FnMut(Line, T),
) {
    if axes.iter().any(|axis| axis.runs.is_empty()) {
        return;
    }
    let Some((inner, outer)) = axes.split_last() else {
        let one = Line {
            first: 0,
            count: 1,
            step: 1,
        };
        return visit(one, times);
    };
    // For each outer axis, the current run and the current group within it.
    let start = |axis: &ProductAxis<T>| (0, axis.runs[0].groups.start);
    let mut places: Vec<(usize, usize)> = outer.iter().map(start).collect();
    let mut since = 0;
    loop {
        let (mut base, mut product) = (0, times);
        for (axis, (run, group)) in outer.iter().zip(&places) {
            base += group * axis.stride;
            product = product.multiply(axis.runs[*run].number);
        }
        for run in inner.runs.iter() {
            let product = product.multiply(run.number);
            for first in run.groups.clone().step_by(TURN) {
                let line = Line {
                    first: base + first * inner.stride,
                    count: TURN.min(run.groups.end - first),
                    step: inner.stride,
                };
                visit(line, product);
                since += line.count;
                if since >= TURN {
                    since = 0;
                    tokio::task::yield_now().await;
                }
            }
        }
        // Advance like an odometer: the last axis first, carrying over to the axis ahead of it.
        let mut axis = outer.len();
        loop {
            let Some(before) = axis.checked_sub(1) else {
                return;
            };
            axis = before;
            let runs = &outer[axis].runs;
            let (run, group) = &mut places[axis];
            *group += 1;
            if *group < runs[*run].groups.end {
                break;
            }
            *run += 1;
            if let Some(next) = runs.get(*run) {
                *group = next.groups.start;
                break;
            }
            places[axis] = start(&outer[axis]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pseudo-random generator that yields the same numbers on every machine.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % end
        }
    }

    /// Compares [`sums`] with counting cell by cell, for random grids whose indices are in random
    /// groups.
    fn check_counts(random: &mut Random) -> impl Future<Output = ()> + use<> {
        let axes = random.below(4) as usize;
        let counts: Vec<usize> = (0..axes).map(|_| 1 + random.below(4) as usize).collect();
        let groups: usize = counts.iter().product();
        let mut stride = 1;
        let mut number_axes = Vec::new();
        // Use few classes along each axis, so that grids share some.
        let mut ordinals: Vec<Vec<Vec<usize>>> = Vec::new();
        for count in counts.iter().rev() {
            let different = 1 + random.below(3);
            let positions: Vec<Vec<usize>> = (0..different)
                .map(|_| {
                    let length = 1 + random.below(5);
                    (0..length)
                        .map(|_| random.below(*count as u64) as usize)
                        .collect()
                })
                .collect();
            number_axes.push(AxisValues {
                count: *count,
                stride,
                different: positions
                    .iter()
                    .map(|groups| add_up(groups.iter().map(|group| Run::one(*group, 1u64))))
                    .collect(),
            });
            ordinals.push(positions);
            stride *= count;
        }
        let parts: Vec<(Vec<usize>, u64)> = (0..random.below(8))
            .map(|_| {
                let numbers = ordinals.iter();
                let numbers = numbers.map(|axis| random.below(axis.len() as u64) as usize);
                (numbers.collect(), 1 + random.below(3))
            })
            .collect();
        let mut by_hand = vec![0u64; groups];
        for (numbers, times) in &parts {
            let mut cells = vec![0];
            for ((axis, number), of_axis) in ordinals.iter().zip(numbers).zip(&number_axes) {
                let positions = &axis[*number];
                cells = cells
                    .iter()
                    .flat_map(|base| {
                        positions
                            .iter()
                            .map(move |group| base + group * of_axis.stride)
                    })
                    .collect();
            }
            cells.iter().for_each(|group| by_hand[*group] += times);
        }
        let terms = Terms::sum(axes, parts.iter().cloned());
        async move {
            let found = sums(&terms, &number_axes, groups).await;
            let found: Vec<u64> = (0..groups).map(|group| found.of(group)).collect();
            assert_eq!(found, by_hand, "{parts:?} {number_axes:?}");
        }
    }

    #[tokio::test]
    async fn counts_agree_with_going_through_the_cells() {
        let mut random = Random(7);
        for _ in 0..2000 {
            check_counts(&mut random).await;
        }
    }

    #[tokio::test]
    async fn equal_values_are_not_expanded() {
        // A thousand files with 24 times each on one grid, grouped by latitude and longitude.
        let place = |count, stride| AxisValues {
            count,
            stride,
            different: vec![add_up((0..count).map(|group| Run::one(group, 1u64)))],
        };
        let terms = Terms::sum(2, (0..1000).map(|_| (vec![0, 0], 24)));
        let axes = [place(721, 1440), place(1440, 1)];
        assert_eq!(axes[0].different[0].len(), 1);
        let found = sums(&terms, &axes, 721 * 1440).await;
        assert_eq!(found, PerGroup::Same(24_000));
        // Grouped by day as well, where each file holds a different day.
        let days = AxisValues {
            count: 1000,
            stride: 2,
            different: (0..1000).map(|day| vec![Run::one(day, 24u64)]).collect(),
        };
        let terms = Terms::sum(2, (0..1000).map(|file| (vec![file, 0], 3)));
        let found = sums(&terms, &[days, place(2, 1)], 2000).await;
        assert_eq!(found, PerGroup::Same(72));
    }

    #[test]
    fn add_up_accepts_runs_in_any_order() {
        let numbers = |all: &[(usize, u64)]| {
            add_up(all.iter().map(|(group, number)| Run::one(*group, *number)))
                .into_iter()
                .map(|run| (run.groups, run.number))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            numbers(&[(0, 1), (0, 2), (1, 3), (3, 3)]),
            [(0..2, 3), (3..4, 3)]
        );
        assert_eq!(
            numbers(&[(2, 1), (2, 2), (0, 4), (2, 8), (1, 11)]),
            [(0..1, 4), (1..3, 11)]
        );
        assert_eq!(numbers(&[(1, u64::MAX), (1, 2)]), [(1..2, u64::MAX)]);
        let around = add_up([Run::one(1, i64::MAX), Run::one(1, 2)].into_iter());
        assert_eq!(around, [Run::one(1, i64::MIN + 1)]);
        let overlapping = [(0..4, 1u64), (2..6, 2)].map(|(groups, number)| Run { groups, number });
        let expected = [(0..2, 1), (2..4, 3), (4..6, 2)];
        let expected = expected.map(|(groups, number)| Run { groups, number });
        assert_eq!(add_up(overlapping.into_iter()), expected);
    }
}
