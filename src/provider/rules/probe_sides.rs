//! Arrays as probe sides of joins with tables of unknown size.

use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use crate::provider::aggregate::plan::aggregation::Stage;
use crate::provider::aggregate::rule::first_stage;
use crate::provider::join::lookup::keys::ProbeKeys;
use crate::provider::join::side::Side;
use crate::provider::plans::below::{InlinedInput, replace_columns};
use crate::provider::rules::operators::replace_operators;
use crate::provider::scan::ArrayScan;
use crate::provider::source::GridSelection;

/// Lower bound of a file's bytes per row, for files without a row count.
const BYTES_PER_ROW: u64 = 4;

/// Makes arrays the probe side of joins whose other side has no row count, such as a CSV or JSON
/// file.
///
/// DataFusion swaps the sides of a join only if it knows the sizes of both. As written,
/// `array JOIN csv` would collect the array in memory. The row count of an array is exact, so this
/// rule collects the other side, unless its files are large enough to hold more rows. The join keys
/// of the collected side then reach the scan of the array as a dynamic filter, and the array is not
/// repartitioned.
///
/// DataFusion estimates that an aggregation by expressions, such as `month(time)`, has as many groups as its input has rows.
/// If an aggregation over an array groups by dimensions, the rule computes the number of groups, and collects the aggregation if
/// there are fewer groups than selected cells on the other side.
///
/// [`enable_arrays`](crate::enable_arrays) adds the rule after DataFusion's `join_selection`. The setting
/// `datafusion.optimizer.join_reordering` switches both off.
#[derive(Debug, Default)]
pub struct ArrayProbeSides {}

impl ArrayProbeSides {
    /// The name of the rule.
    pub const NAME: &str = "array_probe_sides";

    /// Creates the rule.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PhysicalOptimizerRule for ArrayProbeSides {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !config.optimizer.join_reordering {
            return Ok(plan);
        }
        let few = config.optimizer.hash_join_single_partition_threshold_rows as u64;
        replace_operators(plan, |plan| replace(plan, few))
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the join with the array as its probe side; `None` if the join stays as it is. Arrays of
/// at most `few` rows may be collected.
fn replace(plan: &Arc<dyn ExecutionPlan>, few: u64) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_array = |array: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>| {
        is_larger_array(array, other, few)
    };
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        // The inputs of NOT IN are not interchangeable.
        if join.null_aware {
            return Ok(None);
        }
        if join.join_type().supports_swap() {
            if is_array(join.left(), join.right())? {
                return join.swap_inputs(PartitionMode::CollectLeft).map(Some);
            }
            if has_fewer_groups(join.right(), join.left(), few)? {
                return join.swap_inputs(PartitionMode::Partitioned).map(Some);
            }
        }
        if *join.partition_mode() != PartitionMode::CollectLeft
            && is_array(join.right(), join.left())?
        {
            let mode = PartitionMode::CollectLeft;
            return join
                .builder()
                .with_partition_mode(mode)
                .build_exec()
                .map(Some);
        }
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let is_swappable = join.join_type().supports_swap()
            // A mark join outputs different columns after a swap.
            && !matches!(join.join_type(), JoinType::LeftMark | JoinType::RightMark);
        if is_swappable && is_array(join.left(), join.right())? {
            return join.swap_inputs().map(Some);
        }
    } else if let Some(join) = plan.downcast_ref::<CrossJoinExec>()
        && is_array(join.left(), join.right())?
    {
        return join.swap_inputs().map(Some);
    }
    Ok(None)
}

/// Returns `true` if one side of a join is an array of more than `few` rows, and the other side is
/// of unknown size but probably smaller.
fn is_larger_array(
    array: &Arc<dyn ExecutionPlan>,
    other: &Arc<dyn ExecutionPlan>,
    few: u64,
) -> Result<bool> {
    if rows(other)?.is_some() {
        return Ok(false);
    }
    let Some(rows) = rows(array)?.filter(|rows| *rows > few) else {
        return Ok(false);
    };
    let has_array = array.exists(|node| {
        let source = node.downcast_ref::<DataSourceExec>();
        Ok(source.is_some_and(|source| source.data_source().is::<ArrayScan>()))
    })?;
    Ok(has_array && rows_of_leaves(other)? < rows)
}

/// Returns `true` if a plan is an aggregation over an array with fewer groups than another array, of more than
/// `few` cells, has rows.
fn has_fewer_groups(
    plan: &Arc<dyn ExecutionPlan>,
    array: &Arc<dyn ExecutionPlan>,
    few: u64,
) -> Result<bool> {
    let Some(groups) = groups(plan)? else {
        return Ok(false);
    };
    let rows = match Side::of_files(array)? {
        Some(side) => GridSelection::cells(&side.grids()),
        None => None,
    };
    Ok(rows.is_some_and(|rows| rows > few && groups < rows))
}

/// Returns the number of groups of an aggregation over an array, perhaps below filters and projections, whose groups are
/// expressions over dimensions; `None` for other plans.
fn groups(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<u64>> {
    let Some(above) = InlinedInput::of(plan)? else {
        return Ok(None);
    };
    let last = above.node.downcast_ref::<AggregateExec>();
    let Some(first) = last.and_then(|last| first_stage(last, Stage::Whole)) else {
        return Ok(None);
    };
    let groups = first.group_expr();
    let Some(side) = Side::of_files(first.input())?.filter(|_| groups.is_single()) else {
        return Ok(None);
    };
    let columns = &side.below.columns;
    let groups = groups.input_exprs();
    let groups = groups
        .iter()
        .map(|group| replace_columns(group, &|number| columns.get(number).cloned()));
    let keys = ProbeKeys::of_cells(&groups.collect::<Result<Vec<_>>>()?, &side.grids())?;
    Ok(keys.map(|keys| keys.count as u64))
}

/// Returns the number of rows of a plan, which may be an estimate.
pub(crate) fn rows(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<u64>> {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
    Ok(match statistics.num_rows {
        Precision::Exact(rows) | Precision::Inexact(rows) => Some(rows as u64),
        Precision::Absent => None,
    })
}

/// Estimates the rows of all leaves of a plan, from row counts or else from file sizes. Leaves with
/// neither count as empty.
fn rows_of_leaves(plan: &Arc<dyn ExecutionPlan>) -> Result<u64> {
    let mut sum = 0u64;
    plan.apply(|node| {
        if !node.children().is_empty() {
            return Ok(TreeNodeRecursion::Continue);
        }
        let files = node
            .downcast_ref::<DataSourceExec>()
            .and_then(|source| source.data_source().downcast_ref::<FileScanConfig>());
        let of_node = match (rows(node)?, files) {
            (Some(rows), _) => rows,
            (None, Some(scan)) => {
                let files = scan.file_groups.iter().flat_map(|group| group.iter());
                files.map(|file| file.object_meta.size).sum::<u64>() / BYTES_PER_ROW
            }
            (None, None) => 0,
        };
        sum = sum.saturating_add(of_node);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(sum)
}
