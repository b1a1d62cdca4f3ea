//! Divides windows among the tasks of a cluster.

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;

use crate::provider::scan::ArrayScan;
use crate::provider::scan::tasks::with_scan;
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
            if let Some((_, scan)) = ArrayScan::of(node.as_ref()) {
                let counts = scan.chunk_counts().unwrap_or_default();
                let others = (0..counts.len()).filter(|other| *other != axis);
                let cut = others.max_by_key(|other| (counts[*other].1, usize::MAX - other));
                if let Some(cut) = cut {
                    scans = scan.along_axis(cut, tasks, partitions)?;
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let Some(scans) = scans else {
            return Ok(None);
        };
        let mut operators = Vec::with_capacity(scans.len());
        for scan in scans {
            let replaced = with_scan(self.replaced(), &scan)?;
            match operator(&replaced, Some(self.columns()), config)? {
                Some(operator) => operators.push(operator.with_max_ranks(self.max_ranks())?),
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
