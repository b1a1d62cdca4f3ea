//! Windows of which only the first rows of each partition are kept.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{AggregateUDF, Operator, WindowFrame, WindowFunctionDefinition};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, IsNullExpr, Literal};
use datafusion::physical_expr::window::StandardWindowExpr;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::windows::{
    WindowAggExec, WindowExpr, WindowUDFExpr, create_window_expr,
};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::provider::functions::extremes::Extreme;
use crate::provider::plans::below::InlinedInput;
use crate::provider::window::plan::rule::{like, operator, windows_of};
use crate::provider::window::plan::whole_partitions::joined;

/// The functions that number the rows of a partition from 1.
const RANKS: [&str; 3] = ["dense_rank", "rank", "row_number"];

/// Returns a filter that keeps the rows with the first rank, such as `row_number() OVER (PARTITION BY time ORDER BY value DESC) = 1`,
/// with fewer rows below the window: those whose `value` is the maximum of their partition, which is computed on stored
/// cells, or NULL. `None` for other plans.
pub(super) fn of_first_rows(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = plan.downcast_ref::<FilterExec>() else {
        return Ok(None);
    };
    let Some(above) = InlinedInput::of(filter.input())?.filter(|above| above.conjuncts.is_empty())
    else {
        return Ok(None);
    };
    // Another window of the operator would need the other rows.
    let Some(([window], rows)) = windows_of(&above.node) else {
        return Ok(None);
    };
    let rank = rows.schema().fields().len();
    let is_first = |conjunct: &&Arc<dyn PhysicalExpr>| {
        let column = first_rank(conjunct).and_then(|column| above.columns.get(column));
        let column = column.and_then(|column| column.downcast_ref::<Column>());
        column.is_some_and(|column| column.index() == rank)
    };
    let keeps_first = split_conjunction(filter.predicate()).iter().any(is_first);
    if !keeps_first || !is_rank(window) {
        return Ok(None);
    }
    // The order along an axis is known without reading cells. Ranks of cells keep all of them in memory.
    let along_axis = operator(&above.node, None, config)?;
    if along_axis.is_some_and(|operator| !operator.ranks_cells()) {
        return Ok(None);
    }
    let Some(rows) = candidates(window, rows, config)? else {
        return Ok(None);
    };
    let windows = like(&above.node, vec![Arc::clone(window)], rows)?;
    let named = filter.input().schema();
    let columns = above.columns.iter().zip(named.fields());
    let columns = columns.map(|(expr, field)| ProjectionExpr {
        expr: Arc::clone(expr),
        alias: field.name().clone(),
    });
    let input = ProjectionExec::try_new(columns.collect::<Vec<_>>(), windows)?;
    replace_children_if_necessary(Arc::clone(plan), vec![Arc::new(input)]).map(Some)
}

/// Returns the column of a predicate `column = 1`, `column <= 1` or `column < 2`.
fn first_rank(predicate: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let comparison = predicate.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (comparison.left(), comparison.right());
    let (column, number, op) = match left.downcast_ref::<Column>() {
        Some(column) => (column, right, *comparison.op()),
        None => (
            right.downcast_ref::<Column>()?,
            left,
            comparison.op().swap()?,
        ),
    };
    let number = number.downcast_ref::<Literal>()?.value();
    let number = number.cast_to(&DataType::Int64).ok()?;
    let ScalarValue::Int64(Some(number)) = number else {
        return None;
    };
    let is_first = matches!(
        (op, number),
        (Operator::Eq | Operator::LtEq, 1) | (Operator::Lt, 2)
    );
    is_first.then_some(column.index())
}

fn is_rank(window: &Arc<dyn WindowExpr>) -> bool {
    let standard = window.as_any().downcast_ref::<StandardWindowExpr>();
    let function = standard.map(|standard| standard.get_standard_func_expr());
    let function = function.and_then(|function| function.as_any().downcast_ref::<WindowUDFExpr>());
    function.is_some_and(|function| RANKS.contains(&function.fun().name()))
}

/// Returns the rows that may be the first of their partitions; `None` if they are not known without sorting.
fn candidates(
    window: &Arc<dyn WindowExpr>,
    rows: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(first_key) = window.order_by().first() else {
        return Ok(None);
    };
    let schema = rows.schema();
    let data_type = first_key.expr.data_type(&schema)?;
    if !(data_type.is_numeric() || data_type.is_temporal()) {
        return Ok(None);
    }
    let (extreme, op) = match first_key.options.descending {
        true => (Extreme::max(), Operator::GtEq),
        false => (Extreme::min(), Operator::LtEq),
    };
    let extreme = create_window_expr(
        &WindowFunctionDefinition::AggregateUDF(Arc::new(AggregateUDF::from(extreme))),
        "first".to_string(),
        &[Arc::clone(&first_key.expr)],
        window.partition_by(),
        &[],
        Arc::new(WindowFrame::new(None)),
        Arc::clone(&schema),
        false,
        false,
        None,
    )?;
    let extremes = WindowAggExec::try_new(vec![extreme], Arc::clone(rows), true)?;
    let Some(extremes) = joined(&(Arc::new(extremes) as _), config)? else {
        return Ok(None);
    };
    let width = schema.fields().len();
    let value = &first_key.expr;
    let extreme: Arc<dyn PhysicalExpr> = Arc::new(Column::new("first", width));
    // A maximum that ignores NaN is NULL if there is nothing else.
    let conditions: [Arc<dyn PhysicalExpr>; 2] = [
        Arc::new(IsNullExpr::new(Arc::clone(value))),
        Arc::new(IsNullExpr::new(Arc::clone(&extreme))),
    ];
    let reaches: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(Arc::clone(value), op, extreme));
    let predicate = conditions.into_iter().fold(reaches, |one, other| {
        Arc::new(BinaryExpr::new(one, Operator::Or, other))
    });
    let filtered = Arc::new(FilterExec::try_new(predicate, extremes)?);
    let columns = schema.fields().iter().enumerate();
    let columns = columns.map(|(index, field)| ProjectionExpr {
        expr: Arc::new(Column::new(field.name(), index)),
        alias: field.name().clone(),
    });
    let rows = ProjectionExec::try_new(columns.collect::<Vec<_>>(), filtered)?;
    Ok(Some(Arc::new(rows)))
}
