//! DELETE and UPDATE with subqueries in their conditions.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Expr, LogicalPlan, WriteOp};
use datafusion::optimizer::AnalyzerRule;

/// Refuses conditions of DELETE and UPDATE with subqueries.
///
/// DataFusion 55 takes the condition from the filters of the optimized plan, in which a subquery is a join. The statement would
/// change all rows.
#[derive(Debug, Default)]
pub(crate) struct ChangedRows;

impl AnalyzerRule for ChangedRows {
    fn name(&self) -> &str {
        "changed_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply(|node| {
            if let LogicalPlan::Dml(write) = node
                && matches!(write.op, WriteOp::Delete | WriteOp::Update)
            {
                check(&write.input, &write.op.name().to_uppercase())?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }
}

fn check(rows: &LogicalPlan, statement: &str) -> Result<()> {
    let has_subquery = rows.exists(|node| {
        let LogicalPlan::Filter(filter) = node else {
            return Ok(false);
        };
        filter.predicate.exists(|one| {
            Ok(matches!(
                one,
                Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::ScalarSubquery(_)
                    | Expr::SetComparison(_)
            ))
        })
    })?;
    match has_subquery {
        true => plan_err!(
            "{statement} with a subquery in WHERE is not supported; query the values first, and write them as a list, or \
             create a new table with the rows to keep"
        ),
        false => Ok(()),
    }
}
