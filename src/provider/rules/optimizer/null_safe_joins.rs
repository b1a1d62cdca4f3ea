//! Joins on `IS NOT DISTINCT FROM`, whose keys may be NULL.
//!
//! DataFusion 55 has one setting for all keys of a join: either two NULLs are equal or they are not. Two of its
//! rules mix keys of both kinds, so that `=` holds for two NULLs, or `IS NOT DISTINCT FROM` does not. The
//! rules here take their places, and leave such joins as they are.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::{EmptyRelation, Join, LogicalPlan};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// DataFusion's `eliminate_cross_join`, which finds keys of inner joins in filters, for inner joins that do not
/// take NULLs as equal and are not joined with one that does.
#[derive(Debug, Default)]
pub(crate) struct NullSafeCrossJoins(EliminateCrossJoin);

impl OptimizerRule for NullSafeCrossJoins {
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
        let mut takes_nulls = false;
        plan.apply_with_subqueries(|node| {
            takes_nulls |= is_inner_join(node, takes_nulls_as_equal);
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !takes_nulls {
            return self.0.rewrite(plan, config);
        }
        // The rule sees empty tables in the places of the joins that stay.
        let mut hidden: Vec<LogicalPlan> = Vec::new();
        let plan = plan.transform_down_with_subqueries(|node| {
            if !is_null_safe(&node) {
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

impl NullSafeCrossJoins {
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

/// Returns `true` for an inner join that takes NULLs as equal, or has such a join among its inputs.
fn is_null_safe(node: &LogicalPlan) -> bool {
    is_inner_join(node, |join| {
        takes_nulls_as_equal(join) || is_null_safe(&join.left) || is_null_safe(&join.right)
    })
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
