//! `EXCEPT ALL` and `INTERSECT ALL`.
//!
//! DataFusion plans them as an anti join and a semi join on all columns, so that one row on the
//! right removes, or keeps, every equal row on the left. This rule numbers equal rows on both
//! sides, and makes the row number one more join key.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::rules::logic::computed_keys::KEY;
use crate::provider::rules::logic::zeros::with_positive_zero;

/// The column with the row number among equal rows.
const NUMBER: &str = "__row_of_equals";

/// A rule that makes `EXCEPT ALL` and `INTERSECT ALL` count equal rows.
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

/// Returns `true` for the joins that DataFusion plans for `EXCEPT ALL` and `INTERSECT ALL`, and for
/// no others: in SQL, no other semi join treats NULL as equal to NULL. Without `ALL`, the rows on
/// the left are distinct.
///
/// This holds for plans as written. An optimizer makes such joins of `EXISTS` with `IS NOT DISTINCT FROM`, too.
/// Therefore the Python package adds a condition to those of plans that another library has optimized.
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

/// Appends to every row its number among the rows equal to it.
fn numbered(rows: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let schema = rows.schema();
    let columns: Vec<_> = schema.columns().into_iter().map(Expr::Column).collect();
    // Window functions distinguish the two zeros, joins do not, so both zeros get the same key.
    // The keys are computed in a projection: if a filter equates a column with another expression,
    // DataFusion 55.2 may substitute that expression for the column inside a sort expression, and
    // then no longer finds the expression to partition by.
    let mut keys = Vec::with_capacity(columns.len());
    let mut computed = columns.clone();
    for column in &columns {
        let Some(key) = with_positive_zero(column, schema) else {
            keys.push(column.clone());
            continue;
        };
        let name = format!("{KEY}{}", keys.len());
        computed.push(key.alias(&name));
        keys.push(Expr::Column(Column::from_name(name)));
    }
    let number = row_number().partition_by(keys).build()?;
    let number_column = Column::from_name(number.schema_name().to_string());
    let number_column = Expr::Column(number_column).alias(NUMBER);
    LogicalPlanBuilder::new_from_arc(Arc::clone(rows))
        .project(computed)?
        .window([number])?
        .project(columns.into_iter().chain([number_column]))?
        .build()
}
