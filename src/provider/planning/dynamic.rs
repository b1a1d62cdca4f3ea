//! Filters whose values are known only once the query runs.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, DynamicFilterPhysicalExpr, lit,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;

/// Returns `true` if the value of an expression is known only once the query runs: it has a dynamic
/// filter or a scalar subquery.
pub(crate) fn is_dynamic(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_subquery = expr.exists(|expr| Ok(expr.is::<ScalarSubqueryExpr>()));
    has_dynamic_filter(expr) || is_subquery.unwrap_or(false)
}

/// Returns `true` if an expression has a dynamic filter, whose value changes while the query runs.
pub(crate) fn has_dynamic_filter(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let has_filter = expr.exists(|expr| Ok(expr.is::<DynamicFilterPhysicalExpr>()));
    has_filter.unwrap_or(true)
}

/// Weakens a filter by replacing every CASE with the OR of its results. A partitioned hash join
/// wraps its keys in a CASE over the partitions, which statistics cannot decide.
pub(super) fn without_cases(filter: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = Arc::clone(filter).transform_down(|expr| {
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            let results = case.when_then_expr().iter().map(|(_, then)| then);
            let results = results.chain(case.else_expr()).cloned();
            let either = |one, other| -> Arc<dyn PhysicalExpr> {
                Arc::new(BinaryExpr::new(one, Operator::Or, other))
            };
            let any = results.reduce(either).unwrap_or_else(|| lit(false));
            return Ok(Transformed::yes(any));
        }
        let is_junction = expr
            .downcast_ref::<BinaryExpr>()
            .is_some_and(|expr| matches!(expr.op(), Operator::And | Operator::Or));
        // Below any other node, such as NOT, a weaker operand may make the whole filter stronger.
        let further = match is_junction {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Jump,
        };
        Ok(Transformed::new(expr, false, further))
    })?;
    Ok(replaced.data)
}

/// Replaces the scalar subqueries of a filter by their values, which are known once a scan runs.
pub(crate) fn with_subquery_values(
    filter: &Arc<dyn PhysicalExpr>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = Arc::clone(filter).transform_up(|expr| {
        let Some(subquery) = expr.downcast_ref::<ScalarSubqueryExpr>() else {
            return Ok(Transformed::no(expr));
        };
        // A scalar subquery does not depend on the rows.
        let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
        Ok(match subquery.evaluate(&nothing) {
            Ok(ColumnarValue::Scalar(value)) => Transformed::yes(lit(value)),
            // A subquery whose value is not known yet rules out nothing.
            _ => Transformed::no(expr),
        })
    })?;
    Ok(replaced.data)
}
