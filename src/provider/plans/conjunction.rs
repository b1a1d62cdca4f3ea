//! Conjunctions as balanced trees.
//!
//! DataFusion's `conjunction` makes a tree that is as deep as the number of its terms. DataFusion
//! computes the type of each AND in it from everything below, which takes quadratic time.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;

/// The number of terms from which a conjunction is balanced. Shorter ones keep their plans.
pub(crate) const LONG: usize = 32;

/// Returns the conjunction of predicates, in their order; `None` if there are no predicates.
pub(crate) fn conjunction_opt(
    predicates: impl IntoIterator<Item = Arc<dyn PhysicalExpr>>,
) -> Option<Arc<dyn PhysicalExpr>> {
    let predicates: Vec<_> = predicates.into_iter().collect();
    joined(predicates, |left, right| {
        Arc::new(BinaryExpr::new(left, Operator::And, right))
    })
}

/// Joins terms in their order: long lists as a balanced tree, others from the left.
pub(crate) fn joined<T>(mut terms: Vec<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    if terms.len() < LONG {
        return terms.into_iter().reduce(join);
    }
    while terms.len() > 1 {
        let mut rest = terms.into_iter();
        let mut pairs = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        terms = pairs;
    }
    terms.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_balanced_and_keep_their_order() {
        let all = |count: usize| {
            // The text of each term and its depth.
            let terms = (0..count).map(|number| (number.to_string(), 0));
            let join = |left: (String, usize), right: (String, usize)| {
                (format!("{} {}", left.0, right.0), 1 + left.1.max(right.1))
            };
            joined(terms.collect(), join)
        };
        assert_eq!(all(0), None);
        for (count, depth) in [(1, 0), (31, 30), (32, 5), (1000, 10), (1025, 11)] {
            let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
            assert_eq!(all(count), Some((numbers.join(" "), depth)), "{count}");
        }
    }
}
