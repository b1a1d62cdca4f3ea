//! Sort keys of aggregates that become equal when they are simplified.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::provider::rules::analysis::RepeatedSortKeys;

/// Removes repeated keys from the ORDER BY of aggregates, as [`RepeatedSortKeys`] does for keys that are
/// equal as written.
///
/// The optimizer makes `y` of `y * 1`, and of `coalesce(y, z)` if `y` is a dimension, which is never NULL.
#[derive(Debug, Default)]
pub(crate) struct SimplifiedSortKeys;

impl OptimizerRule for SimplifiedSortKeys {
    fn name(&self) -> &str {
        "simplified_sort_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        mut plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &mut plan else {
            return Ok(Transformed::no(plan));
        };
        let mut is_changed = false;
        for expr in &mut aggregate.aggr_expr {
            let name = NamePreserver::new_for_projection().save(expr);
            let changed = std::mem::take(expr).transform_up(RepeatedSortKeys::of_aggregate)?;
            *expr = match changed.transformed {
                true => name.restore(changed.data),
                false => changed.data,
            };
            is_changed |= changed.transformed;
        }
        Ok(Transformed::new_transformed(plan, is_changed))
    }
}
