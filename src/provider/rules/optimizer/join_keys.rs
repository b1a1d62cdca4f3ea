//! Keys of inner joins that DataFusion's rules would change or lose.
//!
//! DataFusion 55 has one setting for all keys of a join: either two NULLs are equal or they are not. Two of its
//! rules mix keys of both kinds, so that `=` holds for two NULLs, or `IS NOT DISTINCT FROM` does not. One of them also
//! joins the inputs of nested inner joins in another order, and drops a key whose side uses several of these inputs:
//!
//! ```text
//! as written    (t CROSS JOIN l) JOIN u ON u.lat = t.lat AND u.time = t.time + l.n
//! DataFusion    (t JOIN u ON u.lat = t.lat) CROSS JOIN l
//! ```
//!
//! The rules of this module replace DataFusion's, and leave such joins unchanged.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::{EmptyRelation, Expr, Join, LogicalPlan};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// DataFusion's `eliminate_cross_join`, which finds keys of inner joins in filters and reorders the joins, for inner joins
/// whose keys it keeps as they are.
#[derive(Debug, Default)]
pub(crate) struct KeptKeys(EliminateCrossJoin);

impl OptimizerRule for KeptKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let mut keeps_all = true;
        plan.apply_with_subqueries(|node| {
            keeps_all &= !is_inner_join(node, stays);
            Ok(match keeps_all {
                true => TreeNodeRecursion::Continue,
                false => TreeNodeRecursion::Stop,
            })
        })?;
        if keeps_all {
            return self.0.rewrite(plan, config);
        }
        // The rule sees empty tables in the places of the joins that stay.
        let mut hidden: Vec<LogicalPlan> = Vec::new();
        let plan = plan.transform_down_with_subqueries(|node| {
            if !has_kept_keys(&node) {
                return Ok(Transformed::no(node));
            }
            let node = self.rewrite_inputs(node, config)?;
            let table = LogicalPlan::EmptyRelation(EmptyRelation {
                produce_one_row: false,
                schema: Arc::clone(node.schema()),
            });
            hidden.push(node);
            Ok(Transformed::new(table, true, TreeNodeRecursion::Jump))
        })?;
        let plan = self.0.rewrite(plan.data, config)?;
        let is_rewritten = plan.transformed;
        let plan = plan.data.transform_down_with_subqueries(|node| {
            let LogicalPlan::EmptyRelation(table) = &node else {
                return Ok(Transformed::no(node));
            };
            let joins = hidden.iter();
            let place = joins.enumerate().find_map(|(place, join)| {
                Arc::ptr_eq(join.schema(), &table.schema).then_some(place)
            });
            Ok(match place {
                Some(place) => {
                    Transformed::new(hidden.swap_remove(place), true, TreeNodeRecursion::Jump)
                }
                None => Transformed::no(node),
            })
        })?;
        Ok(Transformed::new_transformed(plan.data, is_rewritten))
    }
}

impl KeptKeys {
    /// Applies the rule below nested inner joins.
    fn rewrite_inputs(
        &self,
        join: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<LogicalPlan> {
        let inputs = join.map_children(|input| match is_inner_join(&input, |_| true) {
            true => self.rewrite_inputs(input, config).map(Transformed::yes),
            false => self.rewrite(input, config),
        })?;
        Ok(inputs.data)
    }
}

fn is_inner_join(node: &LogicalPlan, condition: impl Fn(&Join) -> bool) -> bool {
    matches!(node, LogicalPlan::Join(join) if join.join_type == JoinType::Inner && condition(join))
}

/// Returns `true` for an inner join that has to stay, or has such a join among its inputs.
fn has_kept_keys(node: &LogicalPlan) -> bool {
    is_inner_join(node, |join| {
        stays(join) || has_kept_keys(&join.left) || has_kept_keys(&join.right)
    })
}

/// Returns `true` for a join with keys that `eliminate_cross_join` would change or lose.
fn stays(join: &Join) -> bool {
    let uses_several = |(left, right): &(Expr, Expr)| {
        uses_several(left, &join.left) || uses_several(right, &join.right)
    };
    takes_nulls_as_equal(join) || join.on.iter().any(uses_several)
}

/// Returns `true` if an expression uses columns of several inputs of nested inner joins.
fn uses_several(expr: &Expr, input: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = input else {
        return false;
    };
    let columns = expr.column_refs();
    let within = |input: &LogicalPlan| {
        columns
            .iter()
            .all(|column| input.schema().has_column(column))
    };
    match join.join_type == JoinType::Inner {
        false => false,
        true if within(&join.left) => uses_several(expr, &join.left),
        true if within(&join.right) => uses_several(expr, &join.right),
        true => true,
    }
}

fn takes_nulls_as_equal(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull
}

/// DataFusion's `extract_equijoin_predicate`, which makes keys of the equalities in the condition of a join, for
/// joins that do not take NULLs as equal.
#[derive(Debug, Default)]
pub(crate) struct NullSafeKeys(ExtractEquijoinPredicate);

impl OptimizerRule for NullSafeKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Join(join) if takes_nulls_as_equal(join) => Ok(Transformed::no(plan)),
            _ => self.0.rewrite(plan, config),
        }
    }
}
