//! Sorts with a LIMIT that is too long to be kept in memory.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;

/// The most rows that a sort keeps in memory for a limit.
const MOST_ROWS: usize = 100_000;

/// Sorts all rows where a limit and its offset ask for more than [`MOST_ROWS`]. DataFusion keeps the first rows of such a sort in memory,
/// however many there are, and fails where they do not fit. A sort of all rows spills to disk.
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
            if fetch <= MOST_ROWS {
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
