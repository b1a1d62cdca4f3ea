//! The selected cells of many grids as a sum of few products.
//!
//! The cells of a grid are the product of its selected indices along each axis. Grids that differ
//! along a single axis add up to one product, so the groups that they share are visited once, not
//! once per grid:
//!
//! ```text
//! one time per file:   t0 x lat x lon + t1 x lat x lon + ...  =  (t0 + t1 + ...) x lat x lon
//! ```

use std::collections::{BTreeMap, HashMap};

use crate::provider::aggregate::plan::grid_classes::GridClasses;
use crate::provider::source::GridSelection;

/// A sum of products.
#[derive(Debug)]
pub(crate) struct Terms {
    /// The products.
    pub terms: Vec<Term>,
    /// For each axis, the distinct factors of the products.
    factors: Vec<Vec<Factor>>,
}

/// A product over axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    /// For each axis, the index of its factor.
    pub factors: Vec<usize>,
    /// The multiplicity of the product.
    pub times: u64,
}

/// A sum along one axis: classes of grids (see [`GridClasses`]) with the multiplicity of each.
pub(crate) type Factor = Vec<(usize, u64)>;

impl Terms {
    /// Writes the cells of these grids as products over the columns in `axes`, each given with its
    /// classes of grids. The number of cells along all other axes becomes a multiplicity.
    pub fn of(parts: &[&GridSelection], axes: &[(usize, &GridClasses)]) -> Self {
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

    /// Adds up products. Each is given by its class along each axis and its multiplicity.
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

    /// Adds up products that differ along one axis only.
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

    /// Returns the factor of a product along an axis.
    pub fn factor(&self, term: &Term, axis: usize) -> &Factor {
        self.numbers(axis, term.factors[axis])
    }

    /// Returns the factor with this index along an axis.
    pub fn numbers(&self, axis: usize, factor: usize) -> &Factor {
        &self.factors[axis][factor]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expands the products: the multiplicity of each combination of classes.
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
        // First one time per file on one grid; then tiles of times and latitudes, of which the last
        // is removed.
        let times = (0..1000).map(|time| (vec![time, 0, 0], 1));
        check(&times.collect::<Vec<_>>(), 1);
        let tiles = (0..12).map(|tile| (vec![tile / 3, tile % 3, 0], 5));
        let mut tiles: Vec<_> = tiles.collect();
        check(&tiles, 1);
        tiles.pop();
        check(&tiles, 2);
        // Products without a common factor.
        let diagonal = (0..7).map(|part| (vec![part, part], 2));
        check(&diagonal.collect::<Vec<_>>(), 7);
        // The same combination twice, and another one that differs along one axis.
        check(&[(vec![0, 0], 1), (vec![1, 0], 2), (vec![0, 0], 4)], 1);
    }
}
