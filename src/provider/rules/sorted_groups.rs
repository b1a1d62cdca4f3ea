//! Aggregates that keep all values, over rows that are sorted by their groups.
//!
//! DataFusion keeps the values of all groups at once. When they do not fit in memory, it copies them to
//! spill them, and merges what it has spilled with the values of thousands of groups in memory.
//! Nothing reserves these copies. Over sorted rows, only the values of the current group are kept, and
//! the sort spills in reserved memory:
//!
//! ```text
//! AggregateExec: mode=SinglePartitioned          AggregateExec: mode=SinglePartitioned, Sorted
//!   RepartitionExec: Hash([k])             ->      HeadroomExec
//!                                                    SortExec: expr=[k], preserve_partitioning=[true]
//!                                                      RepartitionExec: Hash([k])
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::stats::Precision;
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode, replace_children_if_necessary};

use crate::provider::functions::memory::SessionMemory;
use crate::provider::rules::headroom::with_headroom;
use crate::provider::rules::operators::replace_operators;
use crate::provider::rules::single_stage::keeps_values;

/// The bytes of a group of its own, without its values: an entry of the hash table, and a vector.
const GROUP_BYTES: usize = 64;
/// The assumed bytes of a text or list.
const VARIABLE_BYTES: usize = 1024;
/// How often values are in memory at once: in vectors with room to grow, and in a copy of them.
const COPIES: usize = 4;

/// Sorts the rows of aggregates that keep all values by their groups, unless the memory pool
/// certainly has room for the values of all groups.
#[derive(Debug, Default)]
pub(crate) struct SortedGroups {
    memory: SessionMemory,
}

impl SortedGroups {
    /// The name of the rule.
    pub const NAME: &str = "SortedGroups";

    /// Creates the rule for a session with this memory.
    pub fn new(memory: SessionMemory) -> Self {
        Self { memory }
    }
}

impl PhysicalOptimizerRule for SortedGroups {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match self.memory.pool() {
            Some(pool) => sort_groups(plan, pool.as_ref()),
            None => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Applies the rule to a plan that runs with this memory pool.
pub(crate) fn sort_groups(
    plan: Arc<dyn ExecutionPlan>,
    pool: &dyn MemoryPool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let MemoryLimit::Finite(bytes) = pool.memory_limit() else {
        return Ok(plan);
    };
    replace_operators(plan, |plan| over_sorted_rows(plan, bytes))
}

/// Returns the aggregate over sorted rows, or `None` if the plan stays as it is.
fn over_sorted_rows(
    plan: &Arc<dyn ExecutionPlan>,
    pool_bytes: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let is_single = matches!(
        aggregate.mode(),
        AggregateMode::Single | AggregateMode::SinglePartitioned
    );
    let is_hashed = *aggregate.input_order_mode() == InputOrderMode::Linear;
    if !is_single || !is_hashed || !keeps_values(aggregate) {
        return Ok(None);
    }
    let row_bytes = row_bytes(aggregate)?;
    if let Some(rows) = max_rows(aggregate.input())?
        && rows.saturating_mul(row_bytes) <= pool_bytes
    {
        return Ok(None);
    }
    let keys = aggregate.group_expr().expr().iter().map(|(key, _)| key);
    let keys: Vec<_> = keys.map(Arc::clone).collect();
    if keys.iter().any(is_volatile) {
        return Ok(None);
    }
    let Some(ordering) = LexOrdering::new(keys.into_iter().map(PhysicalSortExpr::new_default))
    else {
        return Ok(None);
    };
    let sorted = SortExec::new(ordering, Arc::clone(aggregate.input()));
    let sorted = with_headroom(Arc::new(sorted.with_preserve_partitioning(true)));
    replace_children_if_necessary(Arc::clone(plan), vec![sorted]).map(Some)
}

/// Returns the bytes that a row takes, if it has a group of its own.
fn row_bytes(aggregate: &AggregateExec) -> Result<usize> {
    let schema = aggregate.input_schema();
    let arguments = aggregate.aggr_expr().iter();
    let arguments = arguments.flat_map(|function| function.expressions());
    let keys = aggregate.group_expr().expr().iter();
    let keys = keys.map(|(key, _)| Arc::clone(key));
    let widths = arguments.chain(keys).map(|expr| {
        let data_type = expr.data_type(&schema)?;
        Ok(width(&data_type).unwrap_or(VARIABLE_BYTES))
    });
    Ok(GROUP_BYTES + COPIES * widths.sum::<Result<usize>>()?)
}

/// Returns the bytes of a value of a fixed size.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean | DataType::Null => Some(1),
        _ => data_type.primitive_width(),
    }
}

/// Returns an upper bound of the number of rows, or `None` if there is none.
fn max_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<usize>> {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
    let children = plan.children();
    let is_union = plan.is::<UnionExec>();
    match (statistics.num_rows, plan.cardinality_effect()) {
        (Precision::Exact(rows), _) => Ok(Some(rows)),
        // A filter of the source may leave fewer rows.
        (Precision::Inexact(rows), _) if children.is_empty() => Ok(Some(rows)),
        (_, CardinalityEffect::Equal | CardinalityEffect::LowerEqual) => match children[..] {
            [child] => max_rows(child),
            _ => Ok(None),
        },
        _ if is_union => children.into_iter().try_fold(Some(0usize), |sum, child| {
            Ok(sum
                .zip(max_rows(child)?)
                .map(|(sum, rows)| sum.saturating_add(rows)))
        }),
        _ => Ok(None),
    }
}
