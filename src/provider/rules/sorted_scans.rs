//! Sorts by the order in which a scan reads its array.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, ReplaceChildrenOptions, replace_children_if_necessary,
};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

#[cfg(feature = "cluster")]
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::rules::ordered_groups::in_order_of_groups;
use crate::provider::scan::ArrayScan;
use crate::provider::scan::sorting::SortedPartitions;

/// Removes sorts of rows that a scan can read in this order.
///
/// `ORDER BY time, lat, lon` is the order of the cells of many arrays. For other orders of dimensions, and if
/// chunks are cut along several of them, the scan reads [windows](SortedGrid) that contain the rows in this order. Without
/// a sort, rows are returned while the scan runs, in bounded memory:
///
/// ```text
/// SortPreservingMergeExec: [time, lat, lon]        SortPreservingMergeExec: [time, lat, lon]
///   SortExec: [time, lat, lon]                ->     DataSourceExec: blocks dealt to partitions in turn
///     DataSourceExec
///
/// BoundedWindowAggExec: [lat, lon, time]           BoundedWindowAggExec: [lat, lon, time]
///   SortExec: [lat, lon, time]                ->     DataSourceExec: latitudes divided among partitions
///     RepartitionExec: Hash([lat, lon])
///       DataSourceExec
/// ```
///
/// The rule runs on the finished plan: DataFusion 55.2 moves a LIMIT below a window if it knows that
/// the input of the window is sorted. Sorts for the first rows stay, since their dynamic filters rule
/// out chunks. So do sorts of the result of a filter on values, which may leave few rows, unless they are those of windows.
///
/// [SortedGrid]: crate::provider::scan::grid::sorted::SortedGrid
#[derive(Debug)]
pub(crate) struct SortedScans;

impl PhysicalOptimizerRule for SortedScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        without_sorts(plan, is_local(config), true, false)
    }

    fn name(&self) -> &str {
        "SortedScans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns `true` if no workers run parts of the plan. Workers cannot divide a scan if an operator above relies on which rows are in
/// the same partition.
#[cfg(feature = "cluster")]
fn is_local(config: &ConfigOptions) -> bool {
    let settings = config.extensions.get::<ArraySettings>();
    settings.is_none_or(|settings| settings.cluster.is_empty())
}

#[cfg(not(feature = "cluster"))]
fn is_local(_config: &ConfigOptions) -> bool {
    true
}

/// A sort key: the index of a column, and its direction.
pub(super) type Key = (usize, SortOptions);

/// Removes the sorts of a plan. `is_local` is `false` if workers run parts of the plan, and `is_of_window` is `true` for the input
/// of a window. `is_free` is `false` below operators that match the partitions of several inputs by the hash of their rows.
fn without_sorts(
    plan: Arc<dyn ExecutionPlan>,
    is_local: bool,
    is_free: bool,
    is_of_window: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let moves_rows = plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>();
    let ordered = match is_local && is_free {
        true => in_order_of_groups(&plan)?,
        false => None,
    };
    if let Some(ordered) = ordered {
        return Ok(ordered);
    }
    let is_free = moves_rows || (is_free && plan.children().len() <= 1);
    let has_window = plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>()
        || (is_of_window && plan.is::<SortPreservingMergeExec>());
    let children = plan.children().into_iter();
    let children =
        children.map(|child| without_sorts(Arc::clone(child), is_local, is_free, has_window));
    let children = children.collect::<Result<Vec<_>>>()?;
    let plan = replace_children_if_necessary(plan, children)?;
    Ok(without_sort(&plan, is_local && is_free, is_of_window)?.unwrap_or(plan))
}

fn without_sort(
    plan: &Arc<dyn ExecutionPlan>,
    is_free: bool,
    is_of_window: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = plan.downcast_ref::<SortExec>() else {
        return Ok(None);
    };
    let (None, Some(keys)) = (sort.fetch(), keys(sort.expr())) else {
        return Ok(None);
    };
    let properties = sort.input().equivalence_properties();
    let is_single = sort.input().output_partitioning().partition_count() == 1;
    if (is_single || sort.preserve_partitioning())
        && properties.ordering_satisfy(sort.expr().iter().cloned())?
    {
        return Ok(Some(Arc::clone(sort.input())));
    }
    let mut order = RowOrder {
        keys,
        partitions: SortedPartitions::Merged,
        may_be_few: !is_of_window,
        is_optional: false,
        is_filtered: false,
    };
    let mut input = sort.input();
    // The rows of a partition of the window are in the same partition of the plan.
    if let Some(exchange) = input.downcast_ref::<RepartitionExec>()
        && let Partitioning::Hash(hashed, count) = exchange.partitioning()
        && is_free
    {
        let (first, _) = order.keys[0];
        if !hashed.iter().any(|expr| index_of(expr) == Some(first)) {
            return Ok(None);
        }
        order.partitions = SortedPartitions::ByFirstKey(*count);
        input = exchange.input();
    }
    let Some(replaced) = sorted(input, order)? else {
        return Ok(None);
    };
    // The operators above rely on the order, which they look up in the properties of their input.
    let properties = replaced.equivalence_properties();
    let is_known = properties.ordering_satisfy(sort.expr().iter().cloned())?;
    Ok(is_known.then_some(replaced))
}

/// The order in which a plan should return its rows.
#[derive(Debug)]
pub(super) struct RowOrder {
    /// The sort keys.
    pub keys: Vec<Key>,
    /// The partitions of the rows.
    pub partitions: SortedPartitions,
    /// `true` if filtered rows are sorted instead, because a filter may leave few of them.
    pub may_be_few: bool,
    /// `true` if the plan does not need the order, but takes less memory with it.
    pub is_optional: bool,
    /// `true` if the rows are filtered.
    pub is_filtered: bool,
}

/// Returns the sort keys; `None` if one of them is not a column.
fn keys(ordering: &LexOrdering) -> Option<Vec<Key>> {
    let keys = ordering.iter();
    keys.map(|key| Some((index_of(&key.expr)?, key.options)))
        .collect()
}

/// Returns the index of a column; `None` for other expressions.
pub(super) fn index_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

/// Returns a plan of the same rows in this order; `None` if they would have to be sorted.
pub(super) fn sorted(
    plan: &Arc<dyn ExecutionPlan>,
    mut order: RowOrder,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
        let Some(scan) = source.data_source().downcast_ref::<ArrayScan>() else {
            return Ok(None);
        };
        let is_merged = order.partitions == SortedPartitions::Merged;
        order.is_filtered |= scan.plan().filter.is_some();
        let mut replaced = None;
        if is_merged {
            replaced = scan.sorted_by(&order.keys)?;
        }
        if replaced.is_none() && !(order.may_be_few && order.is_filtered) {
            // Decoding a chunk several times takes less time than sorting its rows, unless few rows are left.
            let most_decodes = match order.is_filtered || order.is_optional {
                true => 3,
                false => 16,
            };
            replaced = scan.sorted_by_axes(&order.keys, order.partitions, most_decodes)?;
        }
        return Ok(replaced.map(|scan| {
            let source = source.clone().with_data_source(Arc::new(scan));
            Arc::new(source) as Arc<dyn ExecutionPlan>
        }));
    }
    // The input that decides the order of the rows, and its column for an output column.
    let (input, of_input): (usize, Box<dyn Fn(usize) -> Option<usize>>) =
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let column = |index: usize| index_of(&projection.expr().get(index)?.expr);
            (0, Box::new(column))
        } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            if filter.fetch().is_some() {
                return Ok(None);
            }
            order.is_filtered = true;
            let column = |index: usize| match filter.projection() {
                Some(projection) => projection.get(index).copied(),
                None => Some(index),
            };
            (0, Box::new(column))
        } else if let Some(join) = plan.downcast_ref::<ArrayLookupJoinExec>() {
            if !join.keeps_probe_rows() {
                return Ok(None);
            }
            let columns = join.columns_of_input(1);
            let column = move |index: usize| index_of(columns.get(index)?.as_ref()?);
            (1, Box::new(column))
        } else if plan.is::<CooperativeExec>() {
            (0, Box::new(Some))
        } else {
            return Ok(None);
        };
    let keys = order.keys.iter();
    let keys = keys.map(|(index, options)| Some((of_input(*index)?, *options)));
    let Some(keys) = keys.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let mut inputs: Vec<_> = plan.children().into_iter().map(Arc::clone).collect();
    let Some(input) = inputs.get_mut(input) else {
        return Ok(None);
    };
    let Some(replaced) = sorted(input, RowOrder { keys, ..order })? else {
        return Ok(None);
    };
    *input = replaced;
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(inputs, options).map(Some)
}
