//! The rows that DELETE and UPDATE change.
//!
//! DataFusion 55 takes the predicate and the new values from the optimized plan, which may have lost them: a predicate that is
//! never true becomes an empty relation, and a statement without a predicate changes all rows.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, not_impl_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, WriteOp};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::rules::logic::changed_table::{Change, ChangedTable};

/// Keeps the predicate and the new values of DELETE and UPDATE in a [`ChangedTable`], where the optimizer does not see them.
/// Refuses statements whose predicate cannot be kept.
#[derive(Debug, Default)]
pub(crate) struct ChangedRows;

impl AnalyzerRule for ChangedRows {
    fn name(&self) -> &str {
        "changed_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up(|node| match node {
            LogicalPlan::Dml(write) if matches!(write.op, WriteOp::Delete | WriteOp::Update) => {
                with_changed_table(write)
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(plan.data)
    }
}

fn with_changed_table(write: DmlStatement) -> Result<Transformed<LogicalPlan>> {
    let table = source_as_provider(&write.target)?;
    if table.is::<ChangedTable>() {
        return Ok(Transformed::no(LogicalPlan::Dml(write)));
    }
    let change = read_change(&write)?;
    let target = provider_as_source(Arc::new(ChangedTable::new(table, change)));
    let write = DmlStatement { target, ..write };
    Ok(Transformed::yes(LogicalPlan::Dml(write)))
}

/// Reads the plan of a statement, which is a projection for UPDATE, a filter for WHERE, and a scan of the table.
fn read_change(write: &DmlStatement) -> Result<Change> {
    let statement = write.op.name().to_uppercase();
    let mut rows = write.input.as_ref();
    let assignments = match (&write.op, rows) {
        (WriteOp::Update, LogicalPlan::Projection(projection)) => {
            rows = projection.input.as_ref();
            read_assignments(write, projection)?
        }
        (WriteOp::Update, _) => {
            return not_impl_err!(
                "UPDATE changes the rows of one table in memory; found no values of its columns"
            );
        }
        _ => Vec::new(),
    };
    let mut predicate = None;
    if let LogicalPlan::Filter(filter) = rows {
        check(&filter.predicate, &statement, "WHERE")?;
        predicate = Some(unnormalize_col(filter.predicate.clone()));
        rows = filter.input.as_ref();
    }
    if let LogicalPlan::SubqueryAlias(alias) = rows {
        rows = alias.input.as_ref();
    }
    match rows {
        LogicalPlan::TableScan(scan)
            if scan.table_name.resolved_eq(&write.table_name)
                && scan.filters.is_empty()
                && scan.fetch.is_none() =>
        {
            Ok(Change {
                assignments,
                predicate,
            })
        }
        LogicalPlan::Limit(_) => {
            not_impl_err!("{statement} with LIMIT is not supported; select the rows in WHERE")
        }
        _ => not_impl_err!(
            "{statement} changes the rows of one table in memory; joins, subqueries and views are not supported"
        ),
    }
}

/// Reads the columns that UPDATE changes. DataFusion plans an expression for each column of the table.
fn read_assignments(write: &DmlStatement, values: &Projection) -> Result<Vec<(String, Expr)>> {
    let schema = write.target.schema();
    if values.expr.len() != schema.fields().len() {
        return plan_err!(
            "UPDATE of {}: found {} values, expected {}, one for each column",
            write.table_name,
            values.expr.len(),
            schema.fields().len()
        );
    }
    let mut assignments = Vec::new();
    for (mut value, column) in values.expr.iter().zip(schema.fields()) {
        check(value, "UPDATE", "SET")?;
        while let Expr::Alias(alias) = value {
            value = &alias.expr;
        }
        let is_kept = matches!(value, Expr::Column(same) if same.name == *column.name());
        if !is_kept {
            assignments.push((column.name().clone(), unnormalize_col(value.clone())));
        }
    }
    Ok(assignments)
}

/// Checks that an expression can be evaluated row by row.
fn check(expression: &Expr, statement: &str, clause: &str) -> Result<()> {
    expression.apply(|one| match one {
        Expr::InSubquery(_)
        | Expr::Exists(_)
        | Expr::ScalarSubquery(_)
        | Expr::SetComparison(_) => plan_err!(
            "{statement} with a subquery in {clause} is not supported; query the values first, and write them into the \
             statement, or create a new table with the rows to keep"
        ),
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => plan_err!(
            "{statement} with an aggregate or a window function in {clause} is not supported; query the values first, and \
             write them into the statement, or create a new table with a SELECT"
        ),
        _ => Ok(TreeNodeRecursion::Continue),
    })?;
    Ok(())
}
