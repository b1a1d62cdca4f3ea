//! Reserved memory for the rows that window operators keep.
//!
//! DataFusion's [`WindowAggExec`] collects all batches of its input, also if the input is sorted by the partition keys.
//! It then copies them to a single batch and appends the results. It reserves none of that memory. Therefore an operator
//! below reserves the rows as they pass, and fails before the copy and the results exceed the memory limit:
//!
//! ```text
//! WindowAggExec: avg(value) OVER ()
//!   KeptRowsExec                        reserves the rows that have passed
//!     DataSourceExec
//! ```

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use futures::{StreamExt, stream};

#[cfg(feature = "proto")]
use crate::provider::codec::Operator;
use crate::provider::rules::operators::ReplaceOperators;
use crate::provider::rules::pass_through::{PassThrough, PassThroughExec};

/// The bytes of a result whose type has no fixed width.
const RESULT_BYTES: usize = 16;

/// Puts a [`KeptRows`] below each [`WindowAggExec`].
pub(crate) const RESERVE_KEPT_ROWS: ReplaceOperators = ReplaceOperators {
    name: "ReserveKeptRows",
    replacement: with_reservation,
};

fn with_reservation(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(windows) = plan.downcast_ref::<WindowAggExec>() else {
        return Ok(None);
    };
    let input = Arc::clone(windows.input());
    if input.is::<PassThroughExec<KeptRows>>() {
        return Ok(None);
    }
    let schema = plan.schema();
    let results = schema.fields().iter().skip(input.schema().fields().len());
    let widths = results.map(|field| field.data_type().primitive_width().unwrap_or(RESULT_BYTES));
    let kept = kept_rows(input, widths.sum());
    replace_children_if_necessary(Arc::clone(plan), vec![kept]).map(Some)
}

/// Returns an operator that reserves memory for all rows of its input. `result_width` is the number of bytes that the
/// operator above appends to a row.
pub(in crate::provider) fn kept_rows(
    input: Arc<dyn ExecutionPlan>,
    result_width: usize,
) -> Arc<dyn ExecutionPlan> {
    PassThroughExec::over(input, KeptRows { result_width })
}

/// The reservation for the rows that the operator above keeps.
#[derive(Debug)]
pub(in crate::provider) struct KeptRows {
    /// The number of bytes that the operator above appends to a row.
    result_width: usize,
}

impl PassThrough for KeptRows {
    const NAME: &'static str = "KeptRowsExec";

    fn fresh(&self) -> Self {
        Self {
            result_width: self.result_width,
        }
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let consumer = MemoryConsumer::new("rows of windows");
        let mut kept = Kept {
            memory: consumer.register(context.memory_pool()),
            counter: RecordBatchMemoryCounter::new(),
            batches: 0,
            rows: 0,
            result_width: self.result_width,
        };
        let input = input.execute(partition, context)?;
        let schema = input.schema();
        // The operator above drops this stream, and with it the reservation, when it has read `None`.
        let ended = stream::once(async { None });
        let batches = input.map(Some).chain(ended).filter_map(move |batch| {
            let passed = match batch {
                Some(Ok(batch)) => Some(kept.add(&batch).map(|()| batch)),
                Some(Err(error)) => Some(Err(error)),
                None => kept.reserve_result().err().map(Err),
            };
            futures::future::ready(passed)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    #[cfg(feature = "proto")]
    fn encoded(&self) -> Operator {
        Operator::KeptRows {
            result_width: self.result_width,
        }
    }
}

/// The rows that have passed.
struct Kept {
    memory: MemoryReservation,
    /// Counts buffers that batches share once.
    counter: RecordBatchMemoryCounter,
    batches: usize,
    rows: usize,
    result_width: usize,
}

impl Kept {
    /// Reserves memory for a batch.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.batches += 1;
        self.rows += batch.num_rows();
        let bytes = self.counter.count_batch(batch);
        self.grow(bytes)
    }

    /// Reserves memory for the result: a copy of all batches with the results of the windows, which are computed for
    /// each partition and then joined.
    fn reserve_result(&mut self) -> Result<()> {
        let copied = match self.batches {
            0 | 1 => 0,
            _ => self.counter.memory_usage(),
        };
        let results = self.rows.saturating_mul(self.result_width);
        self.grow(copied.saturating_add(results.saturating_mul(2)))
    }

    fn grow(&self, bytes: usize) -> Result<()> {
        self.memory.try_grow(bytes).map_err(|_| {
            let needed = self.memory.size().saturating_add(bytes);
            resources_datafusion_err!(
                "a window needs all rows of its input at once, and the {needed} bytes that {} rows take do not fit in \
                 the memory limit; select fewer columns or rows, join with a grouped subquery instead of the window, or \
                 raise the memory limit",
                self.rows
            )
        })
    }
}
