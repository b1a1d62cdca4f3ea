//! Windows of which only the first rows of each partition are kept.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{AggregateUDF, Operator, WindowFrame, WindowFunctionDefinition};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, IsNullExpr, Literal, lit};
use datafusion::physical_expr::window::StandardWindowExpr;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::windows::{
    WindowAggExec, WindowExpr, WindowUDFExpr, create_window_expr,
};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::provider::functions::extremes::Extreme;
use crate::provider::functions::nth_extreme::NthExtreme;
use crate::provider::join::lookup::keys::ProbeKeys;
use crate::provider::join::side::Side;
use crate::provider::plans::below::InlinedInput;
use crate::provider::source::GridSelection;
use crate::provider::window::exec::operator::ArrayWindowExec;
use crate::provider::window::plan::order::WindowInput;
use crate::provider::window::plan::rule::{like, operator, windows_of};
use crate::provider::window::plan::whole_partitions::joined;

/// The functions that number the rows of a partition from 1.
const RANKS: [&str; 3] = ["dense_rank", "rank", "row_number"];
/// The maximum rank for which candidate rows are selected before sorting.
const MAX_RANK: u32 = 64;
/// The minimum mean number of rows of a partition for each rank that is kept. With fewer, it is faster to sort all of them.
const MIN_ROWS_PER_RANK: u64 = 8;

/// Returns a filter that keeps the rows with the first ranks, such as `row_number() OVER (PARTITION BY time ORDER BY value DESC) <= 3`,
/// with fewer rows below the window: those whose `value` is at least the third largest of their partition, which an aggregate of the
/// array computes, and NULLs if they sort first. `None` for other plans.
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
    let bounds = bounds(filter, &above).filter(|(column, _)| *column == rank);
    let Some(max_rank) = bounds.map(|(_, max_rank)| max_rank).min() else {
        return Ok(None);
    };
    if !is_bounded_by_nth(window, max_rank) {
        return Ok(None);
    }
    // Windows along an axis sort no rows. Ranks of cells keep whole series in memory, so the first rank is found by its extreme
    // instead. For more ranks, the array would be read twice.
    let along_axis = operator(&above.node, None, config)?;
    if along_axis.is_some_and(|operator| max_rank > 1 || !operator.ranks_cells()) {
        return Ok(None);
    }
    let Some(rows) = candidates(window, max_rank, rows, config)? else {
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

/// Returns a filter, such as `row_number() OVER (PARTITION BY lat, lon ORDER BY value DESC) <= 5`, above an [`ArrayWindowExec`] that
/// ranks and outputs only the first cells of each series. `None` for other plans.
pub(super) fn with_max_ranks(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = plan.downcast_ref::<FilterExec>() else {
        return Ok(None);
    };
    let Some(above) = InlinedInput::of(filter.input())? else {
        return Ok(None);
    };
    let Some(windows) = above.node.downcast_ref::<ArrayWindowExec>() else {
        return Ok(None);
    };
    let mut first = None;
    for (column, max_rank) in bounds(filter, &above) {
        let windows = first.as_ref().unwrap_or(windows);
        first = windows.with_max_rank(column, max_rank).or(first);
    }
    let Some(first) = first.map(|first| Arc::new(first) as Arc<dyn ExecutionPlan>) else {
        return Ok(None);
    };
    let input = Arc::clone(filter.input()).transform_down(|node| {
        Ok(match node.is::<ArrayWindowExec>() {
            true => Transformed::new(Arc::clone(&first), true, TreeNodeRecursion::Jump),
            false => Transformed::no(node),
        })
    })?;
    replace_children_if_necessary(Arc::clone(plan), vec![input.data]).map(Some)
}

/// Returns the columns of the node below a filter that are bounded by its conjuncts, such as `column <= 5`, and their greatest
/// values, which are at least 1.
fn bounds(
    filter: &FilterExec,
    above: &InlinedInput<Arc<dyn ExecutionPlan>>,
) -> impl Iterator<Item = (usize, u32)> {
    let conjuncts = split_conjunction(filter.predicate()).into_iter();
    conjuncts.filter_map(|conjunct| {
        let (column, max_rank) = bound(conjunct)?;
        let column = above.columns.get(column)?.downcast_ref::<Column>()?;
        Some((column.index(), max_rank))
    })
}

/// Returns the column and the upper bound `n` of a predicate `column = n`, `column <= n` or `column < n + 1`; `None` for other predicates,
/// and if `n` is less than 1.
fn bound(predicate: &Arc<dyn PhysicalExpr>) -> Option<(usize, u32)> {
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
    let ScalarValue::Int64(Some(number)) = number.cast_to(&DataType::Int64).ok()? else {
        return None;
    };
    let bound = match op {
        Operator::Eq | Operator::LtEq => number,
        Operator::Lt => number.checked_sub(1)?,
        _ => return None,
    };
    let bound = u32::try_from(bound).ok().filter(|bound| *bound > 0)?;
    Some((column.index(), bound))
}

/// Returns `true` if every row whose rank is at most `max_rank` is among the first `max_rank` rows of its partition, or equal to one.
fn is_bounded_by_nth(window: &Arc<dyn WindowExpr>, max_rank: u32) -> bool {
    let standard = window.as_any().downcast_ref::<StandardWindowExpr>();
    let function = standard.map(|standard| standard.get_standard_func_expr());
    let function = function.and_then(|function| function.as_any().downcast_ref::<WindowUDFExpr>());
    function.is_some_and(|function| match function.fun().name() {
        // Any number of rows have the ranks before the last.
        "dense_rank" => max_rank == 1,
        name => RANKS.contains(&name) && max_rank <= MAX_RANK,
    })
}

/// Returns the rows that may have a rank up to `max_rank` in their partitions; `None` if they are not known without sorting.
fn candidates(
    window: &Arc<dyn WindowExpr>,
    max_rank: u32,
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
    // A volatile expression would have another value in the comparison than in the aggregate.
    let mut keys = window.partition_by().iter().chain([&first_key.expr]);
    if keys.any(is_volatile) {
        return Ok(None);
    }
    if max_rank > 1 {
        let rows = rows_per_partition(window, rows)?;
        if rows.is_none_or(|rows| rows < MIN_ROWS_PER_RANK * u64::from(max_rank)) {
            return Ok(None);
        }
    }
    let is_largest = first_key.options.descending;
    let (extreme, op) = match is_largest {
        true => (Extreme::max(), Operator::GtEq),
        false => (Extreme::min(), Operator::LtEq),
    };
    let mut arguments = vec![Arc::clone(&first_key.expr)];
    let extreme: AggregateUDF = match max_rank {
        1 => extreme.into(),
        _ => {
            arguments.push(lit(max_rank));
            NthExtreme::new(is_largest).into()
        }
    };
    let extreme = create_window_expr(
        &WindowFunctionDefinition::AggregateUDF(Arc::new(extreme)),
        "first".to_string(),
        &arguments,
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
    // The bound is NULL if a partition has fewer than `max_rank` values, or only NaN, which a maximum ignores.
    let mut conditions: Vec<Arc<dyn PhysicalExpr>> =
        vec![Arc::new(IsNullExpr::new(Arc::clone(&extreme)))];
    if first_key.options.nulls_first {
        conditions.push(Arc::new(IsNullExpr::new(Arc::clone(value))));
    }
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

/// Returns the mean number of rows in a partition of an array; `None` if the partitions do not depend on dimensions alone.
fn rows_per_partition(
    window: &Arc<dyn WindowExpr>,
    rows: &Arc<dyn ExecutionPlan>,
) -> Result<Option<u64>> {
    let Some(side) = Side::of_files(rows)? else {
        return Ok(None);
    };
    let (grids, schema) = (side.grids(), rows.schema());
    let input = WindowInput::new(&side, &schema);
    let keys = window.partition_by().iter();
    let keys: Result<Option<Vec<_>>> = keys.map(|key| input.over_table(key)).collect();
    let (Some(keys), Some(cells)) = (keys?, GridSelection::cells(&grids)) else {
        return Ok(None);
    };
    if keys.is_empty() {
        return Ok(Some(cells));
    }
    let numbered = ProbeKeys::of_cells(&keys, &grids)?;
    Ok(numbered.map(|numbered| cells / (numbered.count as u64).max(1)))
}
