//! The selected cells of many parts as a sum of few products.
//!
//! The cells of a part are a product over its axes. Parts that differ along one axis alone are, together, again a product:
//! of the sum of what they have there and of what they have in common. So the groups that all parts have in common need not
//! be gone through once per part.

use std::collections::{BTreeMap, HashMap};

use crate::provider::aggregate::plan::same_axes::SameAxes;
use crate::provider::source::GridPart;

/// A sum of products.
#[derive(Debug)]
pub(crate) struct Terms {
    /// The products.
    pub terms: Vec<Term>,
    /// Along each axis the different factors of products.
    factors: Vec<Vec<Factor>>,
}

/// A product over axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    /// For each axis the number of the factor.
    pub factors: Vec<usize>,
    /// How many times the product counts.
    pub times: u64,
}

/// What is added up along an axis: the numbers of what parts have there, and how many times each of them counts.
pub(crate) type Factor = Vec<(usize, u64)>;

impl Terms {
    /// The cells of these parts as products over the columns that `axes` are along, and which of what is along them which part has.
    pub fn of(parts: &[&GridPart], axes: &[(usize, &SameAxes)]) -> Self {
        let parts = parts.iter().enumerate();
        let parts = parts.filter_map(|(number, part)| {
            let of_axes = axes.iter().map(|(_, same)| same.of_part[number]);
            let sets = part.selection.axes().iter().enumerate();
            let others = sets.filter(|(axis, _)| axes.iter().all(|(column, _)| column != axis));
            let times = others.fold(1, |times: u64, (_, set)| times.saturating_mul(set.count()));
            Some((of_axes.collect::<Option<Vec<usize>>>()?, times)).filter(|(_, times)| *times > 0)
        });
        Self::sum(axes.len(), parts)
    }

    /// The sum of products of what parts have along each axis, so many times each.
    pub(crate) fn sum(axes: usize, parts: impl Iterator<Item = (Vec<usize>, u64)>) -> Self {
        let mut places: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut terms: Vec<Term> = Vec::new();
        let mut different = vec![0; axes];
        for (factors, times) in parts {
            for (count, factor) in different.iter_mut().zip(&factors) {
                *count = (*count).max(factor + 1);
            }
            let next = terms.len();
            let place = *places.entry(factors.clone()).or_insert(next);
            match terms.get_mut(place) {
                Some(term) => term.times = term.times.saturating_add(times),
                None => terms.push(Term { factors, times }),
            }
        }
        let one = |number| vec![(number, 1)];
        let mut all = Self {
            terms,
            factors: different
                .iter()
                .map(|count| (0..*count).map(one).collect())
                .collect(),
        };
        for axis in 0..axes {
            all.fold(axis);
        }
        all
    }

    /// Adds up products that differ along one axis alone.
    fn fold(&mut self, axis: usize) {
        let mut places: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut folded: Vec<(Vec<usize>, Factor)> = Vec::new();
        for mut term in self.terms.drain(..) {
            let factor = std::mem::take(&mut term.factors[axis]);
            let next = folded.len();
            let place = *places.entry(term.factors.clone()).or_insert(next);
            match folded.get_mut(place) {
                Some((_, some)) => some.push((factor, term.times)),
                None => folded.push((term.factors, vec![(factor, term.times)])),
            }
        }
        let factors = &mut self.factors[axis];
        let numbers = factors.iter().cloned().enumerate();
        let mut numbers: HashMap<Factor, usize> =
            numbers.map(|(number, factor)| (factor, number)).collect();
        for (mut of_term, some) in folded {
            let times = if let [(factor, times)] = some[..] {
                of_term[axis] = factor;
                times
            } else {
                let mut sum: BTreeMap<usize, u64> = BTreeMap::new();
                for (factor, times) in some {
                    for (number, of_factor) in &factors[factor] {
                        let before = sum.entry(*number).or_insert(0);
                        *before = before.saturating_add(times.saturating_mul(*of_factor));
                    }
                }
                let sum: Factor = sum.into_iter().collect();
                of_term[axis] = *numbers.entry(sum.clone()).or_insert_with(|| {
                    factors.push(sum);
                    factors.len() - 1
                });
                1
            };
            self.terms.push(Term {
                factors: of_term,
                times,
            });
        }
    }

    /// What is added up along an axis of a product.
    pub fn factor(&self, term: &Term, axis: usize) -> &Factor {
        self.numbers(axis, term.factors[axis])
    }

    /// What is added up in the factor of this number along an axis.
    pub fn numbers(&self, axis: usize, factor: usize) -> &Factor {
        &self.factors[axis][factor]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many times each combination counts.
    fn spelled_out(terms: &Terms, axes: usize) -> BTreeMap<Vec<usize>, u64> {
        let mut all = BTreeMap::new();
        for term in &terms.terms {
            let mut some = vec![(Vec::new(), term.times)];
            for axis in 0..axes {
                let factor = terms.factor(term, axis);
                some = some
                    .iter()
                    .flat_map(|(before, times)| {
                        factor.iter().map(move |(number, of_factor)| {
                            let mut longer = before.clone();
                            longer.push(*number);
                            (longer, times * of_factor)
                        })
                    })
                    .collect();
            }
            for (combination, times) in some {
                *all.entry(combination).or_insert(0) += times;
            }
        }
        all
    }

    fn check(parts: &[(Vec<usize>, u64)], expected: usize) {
        let axes = parts.first().map_or(0, |(numbers, _)| numbers.len());
        let terms = Terms::sum(axes, parts.iter().cloned());
        let mut by_hand = BTreeMap::new();
        for (numbers, times) in parts {
            *by_hand.entry(numbers.clone()).or_insert(0) += times;
        }
        assert_eq!(spelled_out(&terms, axes), by_hand, "{parts:?}");
        assert_eq!(terms.terms.len(), expected, "{parts:?}: {terms:?}");
    }

    #[test]
    fn parts_that_differ_along_one_axis_are_one_product() {
        check(&[], 0);
        check(&[(vec![], 3), (vec![], 4)], 1);
        check(&[(vec![0, 0], 3), (vec![0, 0], 4)], 1);
        // A time each on one grid; tiles of times and latitudes, of which one is missing in the end.
        let times = (0..1000).map(|time| (vec![time, 0, 0], 1));
        check(&times.collect::<Vec<_>>(), 1);
        let tiles = (0..12).map(|tile| (vec![tile / 3, tile % 3, 0], 5));
        let mut tiles: Vec<_> = tiles.collect();
        check(&tiles, 1);
        tiles.pop();
        check(&tiles, 2);
        // Nothing in common.
        let diagonal = (0..7).map(|part| (vec![part, part], 2));
        check(&diagonal.collect::<Vec<_>>(), 7);
        // The same place again, and another one beside it.
        check(&[(vec![0, 0], 1), (vec![1, 0], 2), (vec![0, 0], 4)], 1);
    }
}
