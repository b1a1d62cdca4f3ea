//! One stage for aggregates that keep all values.
//!
//! DataFusion aggregates the rows of each partition first, and merges their partial states in a
//! second stage. The partial state of `median` or `array_agg` is as large as the rows, and the
//! states that are on the way to the second stage are not reserved: queries take several times the
//! memory limit. Rows take no more memory than such states, but are passed on batch by batch.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};

use crate::provider::plans::below::below_exchange;
use crate::provider::rules::operators::ReplaceOperators;

/// The aggregate functions that keep all values of a group.
const KEEPING: [&str; 4] = ["array_agg", "median", "percentile_cont", "string_agg"];

/// Replaces the two stages of a grouped aggregation that keeps all values by a single stage over
/// rows that are partitioned by their groups.
pub(crate) const SINGLE_STAGE: ReplaceOperators = ReplaceOperators {
    name: "SingleStageAggregates",
    replacement: single_stage,
};

fn single_stage(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(last) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let mode = match last.mode() {
        AggregateMode::Final => AggregateMode::Single,
        AggregateMode::FinalPartitioned => AggregateMode::SinglePartitioned,
        _ => return Ok(None),
    };
    let Some(first) = below_exchange(last.input()).downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    if *first.mode() != AggregateMode::Partial || !keeps_values(first) {
        return Ok(None);
    }
    let single = AggregateExec::try_new(
        mode,
        first.group_expr().clone(),
        first.aggr_expr().to_vec(),
        first.filter_expr().to_vec(),
        Arc::clone(first.input()),
        first.input_schema(),
    )?;
    let single = single.with_limit_options(last.limit_options());
    Ok(Some(Arc::new(single)))
}

/// Returns `true` if a grouped aggregation keeps the values of each group, in any order.
pub(crate) fn keeps_values(aggregation: &AggregateExec) -> bool {
    let groups = aggregation.group_expr();
    let is_grouped = groups.is_single() && !groups.expr().is_empty();
    let mut functions = aggregation.aggr_expr().iter();
    is_grouped
        && functions.any(|function| {
            let name = function.fun().name();
            // WITHIN GROUP names the argument of percentile_cont, which depends on no order of rows.
            let is_unordered = name == "percentile_cont" || function.order_bys().is_empty();
            KEEPING.contains(&name) && is_unordered && !function.is_distinct()
        })
}
