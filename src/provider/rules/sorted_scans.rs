//! Sorts by the order in which a scan reads its array.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::rules::operators::ReplaceOperators;
use crate::provider::scan::ArrayScan;

/// Removes sorts of rows that a scan can read in this order.
///
/// `ORDER BY time, lat, lon` is the order of the cells of many arrays. Without a sort, rows are
/// returned while the scan runs, in bounded memory:
///
/// ```text
/// SortPreservingMergeExec: [time, lat, lon]        SortPreservingMergeExec: [time, lat, lon]
///   SortExec: [time, lat, lon]                ->     DataSourceExec: chunks dealt to partitions in turn
///     DataSourceExec
/// ```
///
/// The rule runs on the finished plan: DataFusion 55.2 moves a LIMIT below a window if it knows that
/// the input of the window is sorted. Sorts for the first rows stay, since their dynamic filters rule
/// out chunks.
pub(crate) const SORTED_SCANS: ReplaceOperators = ReplaceOperators {
    name: "SortedScans",
    replacement: without_sort,
};

/// A sort key: the index of a column, and its direction.
type Key = (usize, SortOptions);

fn without_sort(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = plan.downcast_ref::<SortExec>() else {
        return Ok(None);
    };
    let (None, Some(keys)) = (sort.fetch(), keys(sort.expr())) else {
        return Ok(None);
    };
    let Some(replaced) = sorted(sort.input(), &keys)? else {
        return Ok(None);
    };
    // The operators above rely on the order, which they look up in the properties of their input.
    let properties = replaced.equivalence_properties();
    let is_known = properties.ordering_satisfy(sort.expr().iter().cloned())?;
    Ok(is_known.then_some(replaced))
}

/// Returns the sort keys; `None` if one of them is not a column.
fn keys(ordering: &LexOrdering) -> Option<Vec<Key>> {
    let keys = ordering.iter();
    keys.map(|key| Some((index_of(&key.expr)?, key.options)))
        .collect()
}

fn index_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

/// Returns a plan of the same rows, where the rows of each partition are sorted by these keys; `None`
/// if they would have to be sorted.
fn sorted(plan: &Arc<dyn ExecutionPlan>, keys: &[Key]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
        let Some(scan) = source.data_source().downcast_ref::<ArrayScan>() else {
            return Ok(None);
        };
        let scan = scan.sorted_by(keys)?;
        return Ok(scan.map(|scan| {
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
    let keys = keys
        .iter()
        .map(|(index, options)| Some((of_input(*index)?, *options)));
    let Some(keys) = keys.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let mut inputs: Vec<_> = plan.children().into_iter().map(Arc::clone).collect();
    let Some(input) = inputs.get_mut(input) else {
        return Ok(None);
    };
    let Some(replaced) = sorted(input, &keys)? else {
        return Ok(None);
    };
    *input = replaced;
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(inputs, options).map(Some)
}
