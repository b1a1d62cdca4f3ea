//! Limits: long ones of sorts, limits of unions whose branches differ in a constant, and limits of groups that come in order.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::{AcrossPartitions, LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use crate::provider::plans::below::replace_columns;
use crate::provider::rules::operators::ReplaceOperators;

/// Maximum number of rows that a sort keeps in memory for a limit.
const MAX_ROWS_IN_MEMORY: usize = 100_000;

/// Replaces a sort for the first rows by a full sort, if LIMIT plus OFFSET exceeds
/// [`MAX_ROWS_IN_MEMORY`].
///
/// DataFusion keeps the first rows in memory, however many, and fails if they do not fit. A full
/// sort spills to disk.
pub(crate) const SPILL_LONG_LIMITS: ReplaceOperators = ReplaceOperators {
    name: "SpillLongLimits",
    replacement: full_sort,
};

fn full_sort(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let sort = plan.downcast_ref::<SortExec>();
    let Some((sort, fetch)) = sort.and_then(|sort| Some((sort, sort.fetch()?))) else {
        return Ok(None);
    };
    if fetch <= MAX_ROWS_IN_MEMORY {
        return Ok(None);
    }
    let all = SortExec::new(sort.expr().clone(), Arc::clone(sort.input()))
        .with_preserve_partitioning(sort.preserve_partitioning());
    Ok(Some(Arc::new(LocalLimitExec::new(Arc::new(all), fetch))))
}

/// Removes the limit of an aggregation without aggregate functions whose groups come in order. The operators above have the same
/// limit.
///
/// DataFusion 55 gives such a limit to aggregations without an order, and fails if the input has one in the finished plan, as an
/// aggregate of an array has.
pub(crate) const ORDERED_DISTINCT: ReplaceOperators = ReplaceOperators {
    name: "OrderedDistinct",
    replacement: without_limit,
};

fn without_limit(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let aggregation = plan.downcast_ref::<AggregateExec>();
    let limited = aggregation.filter(|aggregation| {
        let limit = aggregation.limit_options();
        limit.is_some_and(|limit| limit.descending().is_none())
            && aggregation.aggr_expr().is_empty()
            && !aggregation.is_unordered_unfiltered_group_by_distinct()
    });
    Ok(limited.map(|aggregation| Arc::new(aggregation.with_new_limit_options(None)) as _))
}

/// Sorts the partitions of a merge by keys that are constant within each of them, if only the first rows are kept:
///
/// ```text
/// SortPreservingMergeExec: [c, x], fetch=2            SortPreservingMergeExec: [c, x], fetch=2
///   SortExec: TopK(fetch=2), expr=[x]           ->      SortExec: TopK(fetch=2), expr=[c, x]
///     UnionExec    c is 'b' in one branch, 'a' in the other
/// ```
///
/// DataFusion 55.2 leaves such keys out of the sort. But all partitions share one bound, beyond which rows are dropped, so that rows
/// of a partition were dropped because of the first rows of another.
pub(crate) const MERGED_LIMITS: ReplaceOperators = ReplaceOperators {
    name: "MergedLimits",
    replacement: with_all_keys,
};

fn with_all_keys(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() else {
        return Ok(None);
    };
    match sorted_by(merge.input(), merge.expr().to_vec())? {
        Some(input) => replace_children_if_necessary(Arc::clone(plan), vec![input]).map(Some),
        None => Ok(None),
    }
}

/// Returns a plan whose sort for the first rows has these keys; `None` if it sorts by all that differ between partitions.
fn sorted_by(
    plan: &Arc<dyn ExecutionPlan>,
    mut keys: Vec<PhysicalSortExpr>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let constants = sort.input().equivalence_properties();
        let is_dropped = |key: &PhysicalSortExpr| {
            constants.is_expr_constant(&key.expr) == Some(AcrossPartitions::Heterogeneous)
                && !sort.expr().contains(key)
        };
        let has_partitions = sort.preserve_partitioning()
            && sort.input().output_partitioning().partition_count() > 1;
        if sort.fetch().is_none() || !has_partitions || !keys.iter().any(is_dropped) {
            return Ok(None);
        }
        let Some(keys) = LexOrdering::new(keys) else {
            return Ok(None);
        };
        let sort = SortExec::new(keys, Arc::clone(sort.input()))
            .with_preserve_partitioning(true)
            .with_fetch(sort.fetch());
        return Ok(Some(Arc::new(sort)));
    }
    let input = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        for key in &mut keys {
            key.expr = replace_columns(&key.expr, &|column| {
                let projected = projection.expr().get(column)?;
                Some(Arc::clone(&projected.expr))
            })?;
        }
        projection.input()
    } else if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
        cooperative.input()
    } else {
        return Ok(None);
    };
    match sorted_by(input, keys)? {
        Some(input) => replace_children_if_necessary(Arc::clone(plan), vec![input]).map(Some),
        None => Ok(None),
    }
}
