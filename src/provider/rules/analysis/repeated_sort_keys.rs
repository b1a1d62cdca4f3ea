//! Sort keys that are repeated.

use std::collections::HashSet;

use datafusion::common::DFSchema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};

/// Removes repeated keys from the ORDER BY of aggregates, on which DataFusion panics.
#[derive(Debug)]
pub(crate) struct RepeatedSortKeys;

impl FunctionRewrite for RepeatedSortKeys {
    fn name(&self) -> &str {
        "repeated_sort_keys"
    }

    fn rewrite(
        &self,
        expr: Expr,
        _schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        Self::of_aggregate(expr)
    }
}

impl RepeatedSortKeys {
    /// Leaves out repeated keys in the ORDER BY of an aggregate. Returns other expressions as they are.
    pub fn of_aggregate(expr: Expr) -> Result<Transformed<Expr>> {
        let Expr::AggregateFunction(AggregateFunction { func, mut params }) = expr else {
            return Ok(Transformed::no(expr));
        };
        let is_changed = drop_repeated(&mut params.order_by);
        let expr = Expr::AggregateFunction(AggregateFunction { func, params });
        Ok(Transformed::new_transformed(expr, is_changed))
    }

    /// Leaves out repeated keys in the ORDER BY of DISTINCT ON, which becomes an aggregate.
    pub fn of_distinct(node: LogicalPlan) -> LogicalPlan {
        match node {
            LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
                if let Some(keys) = &mut distinct.sort_expr {
                    drop_repeated(keys);
                }
                LogicalPlan::Distinct(Distinct::On(distinct))
            }
            other => other,
        }
    }
}

/// Drops keys that equal an earlier one, whatever their directions. Returns `true` if there were any.
fn drop_repeated(keys: &mut Vec<Sort>) -> bool {
    let (all, mut seen) = (keys.len(), HashSet::new());
    keys.retain(|key| seen.insert(key.expr.clone()));
    keys.len() < all
}
