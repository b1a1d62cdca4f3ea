//! Sends the values of scalar subqueries to tasks.
//!
//! A query with subqueries has the operator `ScalarSubqueryExec` at its root, which runs the subqueries
//! before its input, and expressions of the input refer to their values. In a task, tables of one row take
//! the place of the subqueries:
//!
//! ```text
//! coordinator                      encoded for each task
//! ScalarSubqueryExec               ScalarSubqueryExec
//!   ClusterExec: ...                 the plan of the task
//!   AggregateExec: ...               DataSourceExec: one row
//! ```

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::scalar_subquery::{ScalarSubqueryExec, ScalarSubqueryLink};

/// Returns the plan of a task with the values of the subqueries to which the plan refers.
pub fn with_values(
    plan: Arc<dyn ExecutionPlan>,
    values: &ScalarSubqueryResults,
) -> Result<Arc<dyn ExecutionPlan>> {
    let known = (0..).map_while(|index| values.get(SubqueryIndex::new(index)));
    let links = known.enumerate().map(|(index, value)| {
        let field = Field::new("value", value.data_type(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let row = RecordBatch::try_new(Arc::clone(&schema), vec![value.to_array()?])?;
        let table = MemorySourceConfig::try_new(&[vec![row]], schema, None)?;
        Ok(ScalarSubqueryLink {
            plan: DataSourceExec::from_data_source(table),
            index: SubqueryIndex::new(index),
        })
    });
    let links = links.collect::<Result<Vec<_>>>()?;
    let values = values.clone();
    Ok(Arc::new(ScalarSubqueryExec::new(plan, links, values)))
}

/// Returns the plan of a decoded task, whose expressions then know the values of the subqueries.
pub fn with_known_values(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(subqueries) = plan.downcast_ref::<ScalarSubqueryExec>() else {
        return Ok(plan);
    };
    for link in subqueries.subqueries() {
        let source = link.plan.downcast_ref::<DataSourceExec>();
        let table =
            source.and_then(|source| source.data_source().downcast_ref::<MemorySourceConfig>());
        let Some([rows]) = table.map(MemorySourceConfig::partitions) else {
            return plan_err!("the values of subqueries must be tables in memory");
        };
        let value = match &rows[..] {
            [row] if row.num_rows() == 1 && row.num_columns() == 1 => {
                ScalarValue::try_from_array(row.column(0), 0)?
            }
            _ => return plan_err!("the value of a subquery must be one row with one column"),
        };
        subqueries.results().set(link.index, value)?;
    }
    Ok(Arc::clone(subqueries.input()))
}

/// Returns `true` if an expression of a task refers to the value of a subquery.
pub fn refers_to_subquery(task: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    task.exists(|node| {
        let mut refers = false;
        node.apply_expressions(&mut |expr: &Arc<dyn PhysicalExpr>| {
            refers |= expr.exists(|expr| Ok(expr.is::<ScalarSubqueryExpr>()))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(refers)
    })
}
