//! Computes the rows of a join from the cells that both arrays have at the same indices.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::{JoinType, Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Literal, case};

use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::plans::safety::is_safe;

/// An expression over the columns of the table that has the attributes of both arrays.
type Expression = Arc<dyn PhysicalExpr>;

/// An input of a join.
pub(super) struct Input {
    pub columns: Vec<Expression>,
    /// The predicates that a row of the input satisfies.
    pub conjuncts: Vec<Expression>,
    /// The predicates that selected the cells.
    pub filters: Vec<Expression>,
}

/// When two cells at the same indices are a match.
pub(super) struct Matching {
    /// The equalities of join keys.
    pub keys: Vec<Expression>,
    /// The filter of the join, which it evaluates where the keys are equal.
    pub filter: Vec<Expression>,
    /// Predicates over dimensions that hold for cells at indices that both arrays have.
    pub bounds: Vec<Expression>,
    /// `true` if each selected cell of the input that gives the rows of the join is selected in the other input, too.
    pub is_everywhere: bool,
}

/// The rows that a join returns.
pub(super) struct MatchedRows {
    pub output: Vec<Expression>,
    /// The predicates that a row satisfies.
    pub conjuncts: Vec<Expression>,
    /// The predicates that select the cells.
    pub filters: Vec<Expression>,
}

impl MatchedRows {
    /// Returns the rows of a join of this kind; `None` if they cannot be computed from cells at the same indices, or
    /// if a condition would be evaluated on other cells than by the join and may fail there. `schema` is that of the
    /// table.
    pub fn of(
        kind: JoinType,
        left: Input,
        right: Input,
        matching: Matching,
        schema: &Schema,
    ) -> Result<Option<Self>> {
        let Matching {
            keys,
            filter,
            bounds,
            is_everywhere,
        } = matching;
        let may_fail = |condition: &Expression| !is_safe(condition, schema);
        let has_conjuncts = !(left.conjuncts.is_empty() && right.conjuncts.is_empty());
        if has_conjuncts && keys.iter().any(may_fail)
            || (has_conjuncts || !keys.is_empty()) && filter.iter().any(may_fail)
        {
            return Ok(None);
        }
        let conditions = [keys, filter].concat();
        let keeps_left = match kind {
            JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => {
                let output = match kind {
                    JoinType::LeftSemi => left.columns,
                    JoinType::RightSemi => right.columns,
                    _ => [left.columns, right.columns].concat(),
                };
                return Ok(Some(Self {
                    output,
                    conjuncts: [left.conjuncts, right.conjuncts, conditions].concat(),
                    filters: [bounds, left.filters, right.filters].concat(),
                }));
            }
            JoinType::Full => {
                let is_each_a_match = is_everywhere && !has_conjuncts && conditions.is_empty();
                return Ok(is_each_a_match.then(|| Self {
                    output: [left.columns, right.columns].concat(),
                    conjuncts: Vec::new(),
                    filters: [left.filters, right.filters].concat(),
                }));
            }
            JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => true,
            JoinType::Right | JoinType::RightAnti | JoinType::RightMark => false,
        };
        let (kept, other) = match keeps_left {
            true => (left, right),
            false => (right, left),
        };
        // The join evaluates these on cells that are selected in both inputs.
        let mut of_both = other.conjuncts.iter().chain(&conditions);
        if !is_everywhere && of_both.any(may_fail) {
            return Ok(None);
        }
        let mut of_match = Vec::new();
        if !is_everywhere {
            of_match.extend(bounds.into_iter().chain(other.filters));
        }
        for condition in other.conjuncts.into_iter().chain(conditions) {
            if !of_match.contains(&condition) {
                of_match.push(condition);
            }
        }
        let is_match = conjunction_opt(of_match);
        let has_match = || is_match.clone().unwrap_or_else(|| literal(true));
        let (mut output, mut conjuncts) = (kept.columns, kept.conjuncts);
        match kind {
            JoinType::LeftAnti | JoinType::RightAnti => {
                let operator = Operator::IsDistinctFrom;
                conjuncts.push(Arc::new(BinaryExpr::new(
                    has_match(),
                    operator,
                    literal(true),
                )));
            }
            JoinType::LeftMark | JoinType::RightMark => {
                // The mark is not nullable, as a comparison of nullable values would be.
                let matched = (has_match(), literal(true));
                output.push(case(None, vec![matched], Some(literal(false)))?);
            }
            _ => {
                let filled = other.columns.into_iter().map(|column| match &is_match {
                    Some(is_match) => {
                        let matched = (Arc::clone(is_match), column);
                        case(None, vec![matched], None)
                    }
                    None => Ok(column),
                });
                let filled: Vec<_> = filled.collect::<Result<_>>()?;
                output = match keeps_left {
                    true => [output, filled].concat(),
                    false => [filled, output].concat(),
                };
            }
        }
        Ok(Some(Self {
            output,
            conjuncts,
            filters: kept.filters,
        }))
    }
}

fn literal(value: bool) -> Expression {
    Arc::new(Literal::new(ScalarValue::from(value)))
}
