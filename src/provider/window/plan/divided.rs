//! Divides windows among the tasks of a cluster.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;

use crate::provider::scan::tasks::scan_of;
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
                let counts = scan.chunk_counts().unwrap_or_default();
                let counts: Vec<u64> = counts.into_iter().map(|(_, count)| count).collect();
                let others = (0..counts.len()).filter(|other| *other != axis);
                let cut = others.max_by_key(|other| (counts[*other], usize::MAX - other));
                if let Some(cut) = cut {
                    scans = scan.along_axis(&counts, cut, tasks, partitions)?;
                }
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
