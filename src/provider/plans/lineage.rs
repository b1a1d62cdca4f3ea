//! Resolves a column of a plan to the table that it comes from.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::Column;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Returns the table that a column comes from unchanged, and the column's name in that table.
/// `None` if the column is computed, comes from several tables, or is not a column of any of these
/// plans.
pub fn origin(plans: &[&LogicalPlan], column: &Column) -> Option<(Arc<dyn TableProvider>, String)> {
    plans.iter().find_map(|plan| {
        let index = plan.schema().maybe_index_of_column(column)?;
        origin_of_index(plan, index)
    })
}

fn origin_of_index(plan: &LogicalPlan, index: usize) -> Option<(Arc<dyn TableProvider>, String)> {
    let of_expression = |expr: &Expr| match expr.clone().unalias() {
        Expr::Column(column) => origin(&plan.inputs(), &column),
        _ => None,
    };
    match plan {
        LogicalPlan::TableScan(scan) => {
            let name = plan.schema().field(index).name().clone();
            Some((source_as_provider(&scan.source).ok()?, name))
        }
        LogicalPlan::SubqueryAlias(alias) => origin_of_index(&alias.input, index),
        LogicalPlan::Projection(projection) => of_expression(projection.expr.get(index)?),
        LogicalPlan::Aggregate(aggregate) => of_expression(aggregate.group_expr.get(index)?),
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Join(_) => {
            let (qualifier, field) = plan.schema().qualified_field(index);
            origin(&plan.inputs(), &Column::from((qualifier, field)))
        }
        _ => None,
    }
}
