//! Memory that sorts leave to the operators above them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

#[cfg(feature = "proto")]
use crate::provider::codec::Operator;
use crate::provider::rules::pass_through::{PassThrough, PassThroughExec};

/// Returns an operator that reserves a quarter of the memory pool until its input, a sort, returns the
/// first rows.
///
/// A sort reserves all memory that the pool grants it, also while it merges what it has spilled. An
/// operator above that cannot spill would then get none.
pub(crate) fn with_headroom(sort: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    PassThroughExec::over(sort, Headroom)
}

#[derive(Debug)]
struct Headroom;

impl PassThrough for Headroom {
    const NAME: &'static str = "HeadroomExec";

    fn fresh(&self) -> Self {
        Self
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let pool = context.memory_pool();
        let MemoryLimit::Finite(bytes) = pool.memory_limit() else {
            return input.execute(partition, context);
        };
        let partitions = input.output_partitioning().partition_count();
        let headroom = MemoryConsumer::new(format!("{}[{partition}]", Self::NAME)).register(pool);
        // If other operators have taken the memory, the sort runs without headroom.
        let _ = headroom.try_grow(bytes / (4 * partitions.max(1)));
        let rows = input.execute(partition, context)?;
        let schema = rows.schema();
        let mut headroom = Some(headroom);
        let rows = rows.inspect(move |_| drop(headroom.take()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    #[cfg(feature = "proto")]
    fn encoded(&self) -> Operator {
        Operator::Headroom {}
    }
}
