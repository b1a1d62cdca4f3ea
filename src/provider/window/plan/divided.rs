//! Divides windows among the tasks of a cluster.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::scan::ArrayScan;
use crate::provider::window::exec::operator::ArrayWindowExec;
use crate::provider::window::plan::rule::operator;

impl ArrayWindowExec {
    /// Divides the operator into at most `tasks` operators, which together return every row once. The
    /// chunks are divided across the series, so that each task has whole series. All operators have the
    /// same number of partitions. `None` if there are too few chunks across the series.
    pub(in crate::provider) fn in_tasks(
        &self,
        tasks: usize,
        config: &ConfigOptions,
    ) -> Result<Option<Vec<Self>>> {
        let axis = self.axis();
        let partitions = config.execution.target_partitions;
        let mut scans = None;
        self.replaced().apply(|node| {
            if let Some((_, scan)) = scan_of(node) {
                scans = scan.across_axis(axis, tasks, partitions)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let Some(scans) = scans else {
            return Ok(None);
        };
        let mut operators = Vec::with_capacity(scans.len());
        for scan in scans {
            let replaced = Arc::clone(self.replaced()).transform_up(|node| {
                Ok(match scan_of(&node) {
                    Some((source, _)) => {
                        let narrowed = source.clone().with_data_source(Arc::new(scan.clone()));
                        Transformed::yes(Arc::new(narrowed) as _)
                    }
                    None => Transformed::no(node),
                })
            })?;
            match operator(&replaced.data, Some(self.columns()), config)? {
                Some(operator) => operators.push(operator),
                None => return Ok(None),
            }
        }
        let partitions = operators.iter().map(Self::partitions).max();
        let partitions = partitions.unwrap_or(1);
        let operators = operators.iter();
        Ok(Some(
            operators
                .map(|operator| operator.with_partitions(partitions))
                .collect(),
        ))
    }
}

/// Returns the node with its scan, if the node is the scan of an array.
fn scan_of(node: &Arc<dyn ExecutionPlan>) -> Option<(&DataSourceExec, &ArrayScan)> {
    let source = node.downcast_ref::<DataSourceExec>()?;
    let scan = source.data_source().downcast_ref::<ArrayScan>()?;
    Some((source, scan))
}
