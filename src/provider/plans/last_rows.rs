//! Reads the last rows of a plan without reading the rows before them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::projection::ProjectionExec;

use crate::provider::scan::ArrayScan;

/// Returns a plan whose output ends with the last `rows` rows of `plan`, in the order of the array,
/// and which reads only the chunks that hold these rows. `None` if `plan` does more than project
/// the rows of one array.
///
/// # Errors
/// Returns an error if a chunk cannot be looked up.
pub fn last_rows(
    plan: &Arc<dyn ExecutionPlan>,
    rows: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
        let scan = source.data_source().downcast_ref::<ArrayScan>();
        let last = scan.map(|scan| scan.of_last_rows(rows)).transpose()?;
        return Ok(last.flatten().map(|scan| scan.into_exec() as _));
    }
    if plan.fetch().is_some() {
        return Ok(None);
    }
    let (is_projection, is_passed) = (
        plan.downcast_ref::<ProjectionExec>().is_some(),
        plan.downcast_ref::<CoalescePartitionsExec>().is_some()
            || plan.downcast_ref::<CooperativeExec>().is_some(),
    );
    let [child] = plan.children()[..] else {
        return Ok(None);
    };
    let child = match is_projection || is_passed {
        true => last_rows(child, rows)?,
        false => None,
    };
    match child {
        Some(child) if is_projection => {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            let replaced = Arc::clone(plan).replace_children(vec![child], options)?;
            Ok(Some(replaced))
        }
        child => Ok(child),
    }
}
