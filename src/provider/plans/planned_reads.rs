//! Lists the chunks that a physical plan is going to read, before the plan runs.

use datafusion::physical_plan::ExecutionPlan;
#[cfg(feature = "cluster")]
use datafusion_distributed::DistributedLeafExec;

use crate::provider::aggregate::ArrayAggregateExec;
use crate::provider::scan::ArrayScan;
use crate::provider::window::ArrayWindowExec;

/// The chunks of one table that one operator of a plan is going to read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedRead {
    /// The table, as EXPLAIN calls it: `temperature`, or `zip(temperature, humidity)`.
    pub table: String,
    /// The number of chunks in the whole table; `None` if 2^64 or more.
    pub total: Option<u64>,
    /// The number of chunks that are going to be read; `None` if 2^64 or more.
    pub chunks: Option<u64>,
    /// The stored bytes of these chunks.
    pub bytes: Option<u64>,
    /// `true` if `bytes` is exact. With many chunks, the sum is estimated from a sample.
    pub is_exact: bool,
    /// The aggregate functions that the operator computes, and the source of each.
    pub aggregates: Vec<(String, ComputedFrom)>,
    /// `true` if statistics or dynamic filters may rule out chunks while the operator runs.
    pub may_read_less: bool,
}

/// The source that an aggregate is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputedFrom {
    /// The stored cells, without materialising rows.
    Cells,
    /// The coordinates of an axis.
    Axis,
    /// Rows, with DataFusion's accumulators.
    Rows,
}

/// Lists the reads of all operators of a plan, in plan order. Looks up the sizes of some chunks,
/// but reads none of them.
pub fn planned_reads(plan: &dyn ExecutionPlan) -> Vec<PlannedRead> {
    let mut reads = Vec::new();
    collect(plan, &mut reads);
    reads
}

fn collect(plan: &dyn ExecutionPlan, reads: &mut Vec<PlannedRead>) {
    if let Some(aggregate) = plan.downcast_ref::<ArrayAggregateExec>() {
        reads.push(aggregate.planned_read());
    } else if let Some(windows) = plan.downcast_ref::<ArrayWindowExec>() {
        reads.push(windows.planned_read());
    } else if let Some((_, scan)) = ArrayScan::of(plan) {
        reads.push(scan.planned_read());
    }
    #[cfg(feature = "cluster")]
    if let Some(divided) = plan.downcast_ref::<DistributedLeafExec>() {
        collect(divided.original().as_ref(), reads);
    }
    for child in plan.children() {
        collect(child.as_ref(), reads);
    }
}
