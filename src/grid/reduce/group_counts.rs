//! The number of cells of a chunk in each group.

use std::sync::Arc;

use crate::grid::reduce::layout::AxisGroups;

/// The terms along one axis in ascending order, each with the number of indices that have it.
pub type IndexCounts = Arc<[(usize, u64)]>;

/// The number of selected cells of a chunk in each group, as a product of counts along the axes.
/// Its size depends on the selected indices along the grouped axes, not on the number of cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCounts {
    /// The sum of the terms that all cells have in common.
    base: usize,
    /// The product of the counts along all axes that are not in `axes`.
    cells: u64,
    /// For each axis with several different terms, the terms in ascending order, and the number of
    /// selected indices with each.
    axes: Vec<IndexCounts>,
}

impl GroupCounts {
    /// Counts the cells of a chunk with these axes. `base` is added to all group indices.
    pub fn new(axes: &[AxisGroups], base: usize) -> Self {
        let mut counts = Self {
            base,
            cells: 1,
            axes: Vec::new(),
        };
        for axis in axes {
            match &axis.terms {
                Some(terms) => counts.push(&index_counts(terms)),
                None => counts.cells = counts.cells.saturating_mul(axis.selected.count()),
            }
        }
        counts
    }

    /// Multiplies the counts along some axes.
    pub fn of_axes<'a>(axes: impl IntoIterator<Item = &'a IndexCounts>) -> Self {
        let mut counts = Self::new(&[], 0);
        axes.into_iter().for_each(|axis| counts.push(axis));
        counts
    }

    fn push(&mut self, axis: &IndexCounts) {
        match axis.as_ref() {
            [] => self.cells = 0,
            [(term, positions)] => {
                self.base += term;
                self.cells = self.cells.saturating_mul(*positions);
            }
            _ => self.axes.push(Arc::clone(axis)),
        }
    }

    /// Returns the number of cells in each of `groups` groups, if all groups have the same number.
    pub fn same(&self, groups: usize) -> Option<u64> {
        let mut axes = self.axes.iter();
        let same = axes.try_fold(self.cells, |product, axis| {
            let count = axis[0].1;
            let is_same = axis.iter().all(|(_, other)| *other == count);
            is_same.then(|| product.saturating_mul(count))
        });
        same.filter(|_| self.groups() == groups as u64)
    }

    /// Returns the group that all cells go to, if there is only one.
    pub fn only_group(&self) -> Option<usize> {
        (self.cells > 0 && self.axes.is_empty()).then_some(self.base)
    }

    /// Returns the number of groups with cells.
    pub fn groups(&self) -> u64 {
        if self.cells == 0 {
            return 0;
        }
        self.axes.iter().map(|axis| axis.len() as u64).product()
    }

    /// Calls `visit` with each group and the number of its cells.
    pub fn for_each(&self, mut visit: impl FnMut(usize, u64)) {
        if self.cells > 0 {
            walk(&self.axes, self.base, self.cells, &mut visit);
        }
    }
}

/// Returns the terms in ascending order with the number of times that each occurs.
pub fn index_counts(terms: &[usize]) -> IndexCounts {
    let mut counts: Vec<(usize, u64)> = Vec::new();
    for term in terms {
        match counts.last_mut() {
            Some((same, count)) if same == term => *count += 1,
            _ => counts.push((*term, 1)),
        }
    }
    if !counts.is_sorted_by(|one, next| one.0 < next.0) {
        counts.sort_unstable_by_key(|(term, _)| *term);
        counts.dedup_by(|next, one| {
            let is_same = next.0 == one.0;
            if is_same {
                one.1 += next.1;
            }
            is_same
        });
    }
    counts.into()
}

fn walk(axes: &[IndexCounts], group: usize, cells: u64, visit: &mut impl FnMut(usize, u64)) {
    match axes.split_first() {
        None => visit(group, cells),
        Some((axis, behind)) => {
            for (term, positions) in axis.iter() {
                walk(
                    behind,
                    group + term,
                    cells.saturating_mul(*positions),
                    visit,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::grid::IndexSet;

    fn axis(set: IndexSet, term: impl Fn(usize) -> usize) -> AxisGroups {
        let terms = set
            .ranges()
            .flatten()
            .map(|position| term(position as usize));
        AxisGroups {
            terms: Some(terms.collect()),
            selected: set,
        }
    }

    #[test]
    fn counts_are_those_of_walking_every_cell() {
        let some = IndexSet::from_ranges(9, [0..2, 4..9]);
        let none = AxisGroups {
            selected: some.clone(),
            terms: None,
        };
        let all = IndexSet::all(5);
        let empty = axis(IndexSet::none(5), |_| 0);
        for axes in [
            vec![],
            vec![none.clone()],
            vec![none.clone(), axis(all.clone(), |position| position * 3)],
            vec![
                axis(some.clone(), |position| position % 2 * 10),
                none.clone(),
            ],
            vec![
                axis(some.clone(), |position| (8 - position) / 3 * 40),
                axis(all.clone(), |_| 7),
                axis(all.clone(), |position| position % 3),
            ],
            vec![none.clone(), empty],
        ] {
            let mut expected = BTreeMap::from([(5, 1u64)]);
            for axis in &axes {
                let mut further = BTreeMap::new();
                for (group, cells) in &expected {
                    for rank in 0..axis.selected.count() as usize {
                        let term = axis.terms.as_ref().map_or(0, |terms| terms[rank]);
                        *further.entry(group + term).or_default() += cells;
                    }
                }
                expected = further;
            }
            let counts = GroupCounts::new(&axes, 5);
            let mut found = BTreeMap::new();
            counts.for_each(|group, cells| {
                assert_eq!(found.insert(group, cells), None, "{axes:?}");
            });
            assert_eq!(found, expected, "{axes:?}");
            assert_eq!(counts.groups(), expected.len() as u64);
            let only = (expected.len() == 1).then(|| *expected.keys().next().unwrap());
            assert_eq!(counts.only_group(), only);
            let first = expected.values().next().copied().unwrap_or(0);
            let same = expected
                .values()
                .all(|count| *count == first)
                .then_some(first);
            assert_eq!(counts.same(expected.len()), same, "{axes:?}");
            assert_eq!(counts.same(expected.len() + 1), None);
            let of_axes = axes.iter().filter_map(|axis| axis.terms.as_deref());
            let of_axes: Vec<IndexCounts> = of_axes.map(index_counts).collect();
            if of_axes.len() == axes.len() {
                assert_eq!(GroupCounts::of_axes(&of_axes), GroupCounts::new(&axes, 0));
            }
        }
    }
}
