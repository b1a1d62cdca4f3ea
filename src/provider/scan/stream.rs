//! Runs one partition of a scan.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::{BatchCoalescer, filter_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use crate::provider::planning::mask::mask;
use crate::provider::planning::pruning::Pruner;
use crate::provider::scan::block_queue::BlockQueue;
use crate::provider::scan::metrics::ScanMetrics;
use crate::provider::source::{BlockReader, Progress, ReadCounts};

/// The work of one partition.
pub(crate) struct PartitionRequest {
    pub reader: Box<dyn BlockReader>,
    /// If `true`, opening a block reads values.
    pub reads_values: bool,
    /// The blocks to read, and the index of the partition among those that share them.
    pub blocks: Arc<BlockQueue>,
    pub partition: usize,
    pub pruner: Option<Pruner>,
    /// The schema of the columns that the reader returns.
    pub read_schema: SchemaRef,
    /// The schema of the output: the first columns of `read_schema`.
    pub schema: SchemaRef,
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    pub fetch: Option<usize>,
    pub batch_size: usize,
    pub metrics: ScanMetrics,
}

/// Returns the rows of a partition. The stream yields to the scheduler after every bounded amount
/// of work, so that dropping it stops the scan within one chunk.
pub(crate) fn scan(request: PartitionRequest) -> Result<SendableRecordBatchStream> {
    let schema = Arc::clone(&request.schema);
    let scan = Scan {
        coalescer: BatchCoalescer::new(Arc::clone(&schema), request.batch_size)
            .with_biggest_coalesce_batch_size(Some(request.batch_size / 2)),
        left: request.fetch.unwrap_or(usize::MAX),
        is_open: false,
        is_finished: false,
        counts: ReadCounts::default(),
        request,
    };
    let batches = futures::stream::try_unfold(scan, |mut scan| async move {
        loop {
            match scan.step()? {
                ScanStep::Batch(batch) => return Ok(Some((batch, scan))),
                ScanStep::Working => tokio::task::yield_now().await,
                ScanStep::Continue => {}
                ScanStep::Finished => return Ok(None),
            }
        }
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
}

struct Scan {
    request: PartitionRequest,
    /// Merges small batches, since many chunks may have only a few selected rows each.
    coalescer: BatchCoalescer,
    /// The number of rows until the limit is reached.
    left: usize,
    is_open: bool,
    is_finished: bool,
    counts: ReadCounts,
}

enum ScanStep {
    Batch(RecordBatch),
    /// Some work was done, but there is no batch yet. Yield, so that other tasks can run and the
    /// query can be cancelled.
    Working,
    Continue,
    Finished,
}

impl Scan {
    fn step(&mut self) -> Result<ScanStep> {
        if let Some(batch) = self.coalescer.next_completed_batch() {
            return Ok(ScanStep::Batch(
                batch.record_output(&self.request.metrics.baseline),
            ));
        }
        if self.is_finished {
            self.request.metrics.baseline.done();
            return Ok(ScanStep::Finished);
        }
        let elapsed = self.request.metrics.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let step = self.read();
        let counts = self.request.reader.counts();
        self.request.metrics.add(self.counts, counts);
        self.counts = counts;
        step
    }

    fn read(&mut self) -> Result<ScanStep> {
        if !self.is_open {
            let next = match self.left {
                0 => None,
                _ => self.request.blocks.take(self.request.partition),
            };
            let Some((block, end)) = next else {
                self.is_finished = true;
                self.coalescer.finish_buffered_batch()?;
                return Ok(ScanStep::Continue);
            };
            if let Some(pruner) = &mut self.request.pruner
                && !pruner.keeps(block, end)?
            {
                if self.request.reads_values {
                    self.request.metrics.add_pruned();
                }
                return Ok(ScanStep::Working);
            }
            self.request.reader.open(block)?;
            self.is_open = true;
        }
        match self.request.reader.next(self.request.batch_size)? {
            Progress::Working => Ok(ScanStep::Working),
            Progress::Done => {
                self.is_open = false;
                // A chunk may have few rows or none, so many chunks may pass before a batch is
                // full.
                Ok(ScanStep::Working)
            }
            Progress::Rows { columns, rows } => {
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                let schema = Arc::clone(&self.request.read_schema);
                let mut batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
                if let Some(filter) = &self.request.filter {
                    batch = filter_record_batch(&batch, &mask(filter, &batch)?)?;
                    if batch.num_rows() == 0 {
                        return Ok(ScanStep::Working);
                    }
                }
                self.emit(batch)
            }
        }
    }

    /// Emits the output columns of a batch, up to the limit.
    fn emit(&mut self, batch: RecordBatch) -> Result<ScanStep> {
        let rows = batch.num_rows().min(self.left);
        self.left -= rows;
        if self.left == 0 {
            self.is_open = false;
        }
        let columns = self.request.schema.fields().len();
        if columns == 0 {
            if rows == 0 {
                return Ok(ScanStep::Continue);
            }
            // A batch without columns has only a row count, and cannot be coalesced.
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let schema = Arc::clone(&self.request.schema);
            let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &options)?;
            return Ok(ScanStep::Batch(
                batch.record_output(&self.request.metrics.baseline),
            ));
        }
        let columns = batch.columns()[..columns]
            .iter()
            .map(|column| column.slice(0, rows))
            .collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.request.schema), columns)?;
        if rows > self.request.batch_size / 2 {
            // Pass large batches on instead of copying them behind the buffered rows of earlier
            // chunks.
            self.coalescer.finish_buffered_batch()?;
        }
        self.coalescer.push_batch(batch)?;
        Ok(ScanStep::Continue)
    }
}
