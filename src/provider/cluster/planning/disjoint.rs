//! Aggregations whose tasks have other groups each.
//!
//! If an array is grouped by a dimension along which it has several chunks, each task can have all cells of some
//! coordinates. It then computes the results of its groups, and nothing is left to merge:
//!
//! ```text
//! GROUP BY lat, lon over time, lat, lon in 1 x 4 x 1 chunks
//!
//! task 0   lat chunks 0, 1   the means of the first half of the latitudes
//! task 1   lat chunks 2, 3   the means of the second half
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::aggregate::ArrayAggregateExec;
use crate::provider::aggregate::plan::aggregation::Stage;
use crate::provider::aggregate::rule;
use crate::provider::scan::ArrayScan;
use crate::provider::scan::grid::blocks::MAX_READ;
use crate::provider::scan::tasks::scan_of;

/// Returns the operators of at most `tasks` tasks that together compute a whole aggregation; `None` if the groups
/// cannot be divided, or only into parts of different sizes.
pub fn in_tasks(
    whole: &ArrayAggregateExec,
    tasks: usize,
    scan_for_tasks: impl Fn(&ArrayScan) -> ArrayScan,
    config: &ConfigOptions,
) -> Result<Option<Vec<ArrayAggregateExec>>> {
    let Some(axes) = whole.scan().chunk_counts() else {
        return Ok(None);
    };
    let program = whole.program();
    let groups = program.aggregation.groups.iter();
    let grouped = groups
        .zip(&program.group_columns)
        .filter(|(expr, column)| expr.is::<Column>() && **column < axes.len());
    let mut grouped: Vec<usize> = grouped.map(|(_, column)| *column).collect();
    grouped.sort_unstable();
    // Whether the coordinates of such axes are sorted is known only where they were read.
    if grouped
        .iter()
        .any(|column| axes[*column].0.length() > MAX_READ)
    {
        return Ok(None);
    }
    let mut axis = None;
    for column in grouped {
        let (along, count) = &axes[column];
        // Indices with the same coordinate belong to the same group.
        if axis.is_none() && is_even(*count, tasks as u64) && along.has_unique_coordinates()? {
            axis = Some(column);
        }
    }
    let Some(axis) = axis else {
        return Ok(None);
    };
    let counts: Vec<u64> = axes.iter().map(|(_, count)| *count).collect();
    let partitions = config.execution.target_partitions;
    let scan = scan_for_tasks(whole.scan());
    let Some(scans) = scan.along_axis(&counts, axis, tasks, partitions)? else {
        return Ok(None);
    };
    let operators = scans.into_iter().map(|scan| {
        let scan = Arc::new(scan);
        let of_task = Arc::clone(whole.fallback()).transform_up(|node| {
            Ok(match scan_of(&node) {
                Some((source, _)) => {
                    let source = source.clone().with_data_source(Arc::clone(&scan) as _);
                    Transformed::yes(Arc::new(source) as Arc<dyn ExecutionPlan>)
                }
                None => Transformed::no(node),
            })
        })?;
        rule::operator(&of_task.data, Stage::Whole)
    });
    operators.collect()
}

/// Returns `true` if this many chunks can be divided among tasks so that none has an eighth more than its share.
fn is_even(chunks: u64, tasks: u64) -> bool {
    let most = chunks.div_ceil(tasks.max(1));
    chunks >= tasks && most.saturating_mul(tasks).saturating_mul(8) <= chunks.saturating_mul(9)
}
