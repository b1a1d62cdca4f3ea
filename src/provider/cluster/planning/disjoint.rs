//! Aggregations whose tasks have disjoint groups.
//!
//! If an array is grouped by a dimension along which it has several chunks, each task can read all cells of some
//! coordinates. It then computes the final values of their groups, and the coordinator merges no states:
//!
//! ```text
//! GROUP BY lat, lon over time, lat, lon in 1 x 4 x 1 chunks
//!
//! task 0   lat chunks 0, 1   the means of the first half of the latitudes
//! task 1   lat chunks 2, 3   the means of the second half
//! ```

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;

use crate::provider::aggregate::ArrayAggregateExec;
use crate::provider::aggregate::plan::aggregation::Stage;
use crate::provider::aggregate::plan::group_columns::GroupColumns;
use crate::provider::aggregate::rule;
use crate::provider::scan::ArrayScan;
use crate::provider::scan::grid::blocks::MAX_READ;
use crate::provider::scan::tasks::with_scan;

/// Divides an aggregation among at most `tasks` operators with disjoint groups. `scan` is the scan of `whole` as
/// tasks read it. Returns `None` unless the aggregation is grouped by a dimension with unique coordinates whose
/// chunks can be divided evenly, and by no dimension of more than [`MAX_READ`] coordinates.
pub fn in_tasks(
    whole: &ArrayAggregateExec,
    scan: &ArrayScan,
    tasks: usize,
    config: &ConfigOptions,
) -> Result<Option<Vec<ArrayAggregateExec>>> {
    let Some(axes) = scan.chunk_counts() else {
        return Ok(None);
    };
    let program = whole.program();
    let is_grouped_by = |axis: &usize| {
        let mut groups = program
            .aggregation
            .groups
            .iter()
            .zip(&program.group_columns);
        groups.any(|(expr, column)| expr.is::<Column>() && *column == GroupColumns::One(*axis))
    };
    let mut cut = None;
    for axis in (0..axes.len()).filter(is_grouped_by) {
        let (along, count) = &axes[axis];
        // The order of such an axis is known only where its coordinates are loaded. A worker could sort its rows
        // in another way than the coordinator expects.
        if along.length() > MAX_READ {
            return Ok(None);
        }
        // Indices with the same coordinate belong to the same group.
        if cut.is_none() && is_even(*count, tasks as u64) && along.has_unique_coordinates()? {
            cut = Some(axis);
        }
    }
    let Some(axis) = cut else {
        return Ok(None);
    };
    let Some(scans) = scan.along_axis(axis, tasks, config.execution.target_partitions)? else {
        return Ok(None);
    };
    let operators = scans.into_iter().map(|scan| {
        let of_task = with_scan(whole.fallback(), &scan)?;
        rule::operator(&of_task, Stage::Whole)
    });
    operators.collect()
}

/// Returns `true` if this many chunks can be divided among tasks so that no task gets more than 9/8 of the
/// average.
fn is_even(chunks: u64, tasks: u64) -> bool {
    let most = chunks.div_ceil(tasks.max(1));
    chunks >= tasks && most.saturating_mul(tasks).saturating_mul(8) <= chunks.saturating_mul(9)
}
