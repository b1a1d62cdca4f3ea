//! Sorts whose LIMIT is too large to be kept in memory.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;

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
