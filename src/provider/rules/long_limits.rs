//! Sorts whose LIMIT is too large to be kept in memory.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;

/// Maximum number of rows that a sort keeps in memory for a limit.
const MAX_ROWS_IN_MEMORY: usize = 100_000;

/// A rule that replaces a sort for the first rows by a full sort, if LIMIT plus OFFSET exceeds
/// [`MAX_ROWS_IN_MEMORY`].
///
/// DataFusion keeps the first rows in memory, however many, and fails if they do not fit. A full
/// sort spills to disk.
#[derive(Debug, Default)]
pub(crate) struct SpillLongLimits;

impl PhysicalOptimizerRule for SpillLongLimits {
    fn name(&self) -> &str {
        "SpillLongLimits"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| {
            let sort = plan.downcast_ref::<SortExec>();
            let Some((sort, fetch)) = sort.and_then(|sort| Some((sort, sort.fetch()?))) else {
                return Ok(Transformed::no(plan));
            };
            if fetch <= MAX_ROWS_IN_MEMORY {
                return Ok(Transformed::no(plan));
            }
            let all = SortExec::new(sort.expr().clone(), Arc::clone(sort.input()))
                .with_preserve_partitioning(sort.preserve_partitioning());
            let limit = LocalLimitExec::new(Arc::new(all), fetch);
            Ok(Transformed::yes(Arc::new(limit) as _))
        });
        Ok(plan?.data)
    }
}
