//! Lists of the values of each group, from scans that return the rows group by group.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};

use crate::provider::aggregate::plan::aggregation::is_order_sensitive;
use crate::provider::plans::below::below_exchange;
use crate::provider::rules::sorted_scans::{Key, RowOrder, index_of, sorted};
use crate::provider::scan::sorting::SortedPartitions;

/// The aggregate functions that return all values of a group.
const LISTS: [&str; 2] = ["array_agg", "string_agg"];

/// Returns an aggregation grouped by dimensions, over a scan sorted by these dimensions and then by the keys by which
/// lists are ordered:
///
/// ```text
/// array_agg(value ORDER BY time) GROUP BY lat, lon
///
/// AggregateExec: FinalPartitioned         AggregateExec: SinglePartitioned, ordering_mode=Sorted
///   RepartitionExec                 ->      DataSourceExec: [lat, lon, time]
///     AggregateExec: Partial
///       SortExec: [time]
///         DataSourceExec
/// ```
///
/// Each group is complete before the next one begins, so that only one is kept in memory, and its rows are in order. Returns
/// `None` if the plan is not such an aggregation, or its rows would have to be sorted.
pub(super) fn in_order_of_groups(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(last) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let first = match last.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => Some(last),
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let first = below_exchange(last.input()).downcast_ref::<AggregateExec>();
            first.filter(|first| *first.mode() == AggregateMode::Partial)
        }
        _ => None,
    };
    let Some(first) = first.filter(|_| last.limit_options().is_none()) else {
        return Ok(None);
    };
    let Some(keys) = keys_of(first) else {
        return Ok(None);
    };
    let is_ordered = keys.len() > first.group_expr().expr().len();
    // Operators above may rely on the rows that an exchange puts together.
    if let Some(exchange) = first.input().downcast_ref::<RepartitionExec>()
        && let Partitioning::Hash(hashed, _) = exchange.partitioning()
        && !hashed.iter().any(|expr| index_of(expr) == Some(keys[0].0))
    {
        return Ok(None);
    }
    let mut input = below_exchange(first.input());
    if let Some(sort) = input.downcast_ref::<SortExec>()
        && sort.fetch().is_none()
    {
        input = below_exchange(sort.input());
    }
    let count = plan.output_partitioning().partition_count();
    let order = RowOrder {
        keys,
        partitions: SortedPartitions::ByFirstKey(count),
        may_be_few: false,
        is_optional: !is_ordered,
        is_filtered: false,
    };
    let Some(input) = sorted(input, order)? else {
        return Ok(None);
    };
    let functions = first.aggr_expr().iter();
    let functions = functions.map(|function| match is_list(function) {
        true => without_order(function, first).map(Arc::new),
        false => Ok(Arc::clone(function)),
    });
    let aggregation = AggregateExec::try_new(
        match count {
            1 => AggregateMode::Single,
            _ => AggregateMode::SinglePartitioned,
        },
        first.group_expr().clone(),
        functions.collect::<Result<_>>()?,
        first.filter_expr().to_vec(),
        input,
        first.input_schema(),
    )?;
    let is_in_order = *aggregation.input_order_mode() == InputOrderMode::Sorted
        && aggregation.schema() == plan.schema();
    Ok(is_in_order.then(|| Arc::new(aggregation) as _))
}

/// Returns the grouped columns and the common keys of all ordered lists. `None` if the aggregation has no list, if groups
/// or keys are not columns, or if two lists have different keys.
fn keys_of(aggregation: &AggregateExec) -> Option<Vec<Key>> {
    let group_by = aggregation.group_expr();
    let mut functions = aggregation.aggr_expr().iter();
    if !group_by.is_single()
        || group_by.is_empty()
        || !functions.any(|function| is_list(function))
        || aggregation
            .aggr_expr()
            .iter()
            .any(|function| is_order_sensitive(function) && !is_list(function))
    {
        return None;
    }
    let groups = group_by.input_exprs();
    let groups = groups
        .iter()
        .map(|expr| Some((index_of(expr)?, SortOptions::default())));
    let mut keys = groups.collect::<Option<Vec<Key>>>()?;
    let grouped = keys.len();
    for function in aggregation.aggr_expr() {
        let order = function.order_bys().iter();
        let order = order.map(|key| Some((index_of(&key.expr)?, key.options)));
        let order = order.collect::<Option<Vec<Key>>>()?;
        // Within a group, a grouped column is constant.
        let is_grouped = |key: &Key| keys[..grouped].iter().any(|(index, _)| *index == key.0);
        let order: Vec<Key> = order.into_iter().filter(|key| !is_grouped(key)).collect();
        let known = &keys[grouped..];
        if order.starts_with(known) {
            keys.truncate(grouped);
            keys.extend(order);
        } else if !known.starts_with(&order) {
            return None;
        }
    }
    Some(keys)
}

fn is_list(function: &AggregateFunctionExpr) -> bool {
    LISTS.contains(&function.fun().name()) && !function.is_distinct() && !function.is_reversed()
}

/// Returns a function that takes the values in the order of the rows.
fn without_order(
    function: &AggregateFunctionExpr,
    aggregation: &AggregateExec,
) -> Result<AggregateFunctionExpr> {
    let mut builder =
        AggregateExprBuilder::new(Arc::new(function.fun().clone()), function.expressions())
            .schema(aggregation.input_schema())
            .alias(function.name())
            .with_ignore_nulls(function.ignore_nulls());
    if let Some(display) = function.human_display() {
        builder = builder.human_display(display);
    }
    builder.build()
}
