//! LATERAL subqueries that no longer refer to the tables beside them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Replaces a LATERAL subquery without outer references by its plan.
///
/// DataFusion 55.2 plans LATERAL as a join with a subquery node, which it removes together with the outer
/// references. If a simpler filter has none left, as in `WHERE p.time = t.time AND false`, the node stays, and
/// the query fails.
#[derive(Debug, Default)]
pub(crate) struct IndependentLaterals;

impl OptimizerRule for IndependentLaterals {
    fn name(&self) -> &str {
        "independent_laterals"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        // Subqueries of expressions are not inputs, and stay.
        let is_subquery = |input: &&LogicalPlan| matches!(input, LogicalPlan::Subquery(_));
        if !plan.inputs().iter().any(is_subquery) {
            return Ok(Transformed::no(plan));
        }
        plan.map_children(|input| match input {
            LogicalPlan::Subquery(subquery) if !has_outer_references(&subquery.subquery)? => {
                Ok(Transformed::yes(Arc::unwrap_or_clone(subquery.subquery)))
            }
            other => Ok(Transformed::no(other)),
        })
    }
}

fn has_outer_references(plan: &LogicalPlan) -> Result<bool> {
    let end = plan.apply_with_subqueries(|node| {
        Ok(match node.contains_outer_reference() {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(end == TreeNodeRecursion::Stop)
}
