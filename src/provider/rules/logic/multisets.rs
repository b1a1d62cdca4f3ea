//! `EXCEPT ALL` and `INTERSECT ALL`.
//!
//! DataFusion plans them as the anti and the semi join of all columns, so that one row on the right takes away, or keeps,
//! every equal row on the left. Here equal rows are numbered on both sides, and the number is one more column.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, NullEquality, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, ExprSchemable, Join, JoinType, LogicalPlan,
    LogicalPlanBuilder, lit, when,
};
use datafusion::optimizer::AnalyzerRule;

/// The column of numbers.
const NUMBER: &str = "__row_of_equals";

/// Makes `EXCEPT ALL` and `INTERSECT ALL` count equal rows.
#[derive(Debug, Default)]
pub(crate) struct CountedSetOperations;

impl AnalyzerRule for CountedSetOperations {
    fn name(&self) -> &str {
        "counted_set_operations"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if is_set_operation(&join) => {
                Ok(Transformed::yes(counted(join)?))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(plan.data)
    }
}

/// Returns `true` for a join as DataFusion plans it for `EXCEPT ALL` and `INTERSECT ALL`, and nothing else: in SQL no other
/// semi join takes NULL for equal to NULL. Without `ALL` the rows on the left are distinct.
fn is_set_operation(join: &Join) -> bool {
    let keys = |side: &LogicalPlan| side.schema().columns();
    let (left, right) = (keys(&join.left), keys(&join.right));
    let mut on = join.on.iter().zip(left.iter().zip(&right));
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
        && left.len() == right.len()
        && join.on.len() == left.len()
        && !left.iter().any(|column| column.name() == NUMBER)
        && on.all(|((one, other), (left, right))| is_column(one, left) && is_column(other, right))
}

fn is_column(expression: &Expr, expected: &Column) -> bool {
    matches!(expression, Expr::Column(column) if column == expected)
}

fn counted(join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let left = numbered(&join.left)?;
    let right = numbered(&join.right)?;
    let keys = |plan: &LogicalPlan| plan.schema().columns();
    let on = (keys(&left), keys(&right));
    LogicalPlanBuilder::from(left)
        .join_detailed(right, join.join_type, on, None, join.null_equality)?
        .project(columns.into_iter().map(Expr::Column))?
        .build()
}

/// The expression that is the same for equal values of a column: windows tell the zeros of both signs apart, joins do not.
fn key(column: &Expr, schema: &DFSchema) -> Result<Expr> {
    let data_type = column.get_type(schema)?;
    if !data_type.is_floating() {
        return Ok(column.clone());
    }
    let zero = lit(ScalarValue::new_zero(&data_type)?);
    when(column.clone().eq(zero.clone()), zero).otherwise(column.clone())
}

/// Returns the rows, each with its number among the rows that are equal to it.
fn numbered(rows: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let columns: Vec<_> = rows
        .schema()
        .columns()
        .into_iter()
        .map(Expr::Column)
        .collect();
    let keys = columns.iter().map(|column| key(column, rows.schema()));
    let number = row_number()
        .partition_by(keys.collect::<Result<_>>()?)
        .build()?;
    let number_column = Column::from_name(number.schema_name().to_string());
    let number_column = Expr::Column(number_column).alias(NUMBER);
    LogicalPlanBuilder::new_from_arc(Arc::clone(rows))
        .window([number])?
        .project(columns.into_iter().chain([number_column]))?
        .build()
}
