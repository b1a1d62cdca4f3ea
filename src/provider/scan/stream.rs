//! Runs one partition of a scan.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions};
use arrow::compute::{BatchCoalescer, FilterBuilder};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use crate::grid::KeptRows;
use crate::provider::planning::mask::mask;
use crate::provider::scan::fetching::{BlockFetcher, NextBlock};
use crate::provider::scan::metrics::ScanMetrics;
use crate::provider::source::{BlockReader, EvaluatedRows, FetchedBlock, ReadCounts};

/// The work of one partition.
pub(crate) struct PartitionRequest {
    /// The blocks to read.
    pub blocks: BlockFetcher,
    /// `true` if the columns of the filter are fetched ahead, `false` if those of `reader` are.
    pub is_filtered_first: bool,
    /// If `true`, opening a block reads values.
    pub reads_values: bool,
    pub filter: Option<RowFilter>,
    /// The columns of the output, each from the filter or read for the rows that are left.
    pub output: Vec<OutputColumn>,
    /// Reads the columns that the filter does not read; `None` if there are none.
    pub reader: Option<Box<dyn BlockReader>>,
    /// The table's columns that `reader` reads.
    pub columns: Vec<usize>,
    /// The schema of the output.
    pub schema: SchemaRef,
    pub fetch: Option<usize>,
    pub batch_size: usize,
    pub metrics: ScanMetrics,
}

/// A predicate that the scan applies to its rows, with a reader of the columns that it needs.
pub(crate) struct RowFilter {
    pub reader: Box<dyn BlockReader>,
    /// The predicate, over the columns of the reader.
    pub predicate: Arc<dyn PhysicalExpr>,
    /// The schema of the columns of the reader.
    pub schema: SchemaRef,
    /// `true` if a column of the reader is output.
    pub is_output: bool,
}

impl RowFilter {
    /// Returns the rows that satisfy the predicate, of a range that starts with the first of `rows`.
    fn apply(&mut self, rows: Range<u64>) -> Result<FilteredRows> {
        let Some(EvaluatedRows { kept, rest }) =
            self.reader.evaluate(rows.clone(), &self.predicate)?
        else {
            let columns = self.reader.read(rows.clone(), None)?;
            let count = (rows.end - rows.start) as usize;
            let (mask, columns) = self.filter(&self.predicate, columns, count)?;
            let kept = KeptRows::new(rows, mask);
            return Ok(FilteredRows { kept, columns });
        };
        let is_read = kept.count() > 0 && (rest.is_some() || self.is_output);
        let columns = match is_read {
            true => self.reader.read(kept.rows(), Some(&kept))?,
            false => Vec::new(),
        };
        match rest.filter(|_| is_read) {
            Some(rest) => {
                let (mask, columns) = self.filter(&rest, columns, kept.count())?;
                let kept = KeptRows::new(kept.rows(), kept_by_both(kept.mask(), &mask));
                Ok(FilteredRows { kept, columns })
            }
            None => Ok(FilteredRows { kept, columns }),
        }
    }

    /// Returns the mask of the rows that satisfy a predicate, and their columns; no columns if there are no such rows.
    fn filter(
        &self,
        predicate: &Arc<dyn PhysicalExpr>,
        columns: Vec<ArrayRef>,
        count: usize,
    ) -> Result<(BooleanArray, Vec<ArrayRef>)> {
        let batch = batch(&self.schema, columns, count)?;
        let mask = mask(predicate, &batch)?;
        if !mask.has_true() {
            return Ok((mask, Vec::new()));
        }
        let keep = FilterBuilder::new(&mask).optimize().build();
        let left = batch.columns().iter();
        let left = left.map(|column| Ok(keep.filter(column)?));
        let left = left.collect::<Result<_>>()?;
        Ok((mask, left))
    }
}

/// Returns the rows of `first` whose value in `second` is `true`. `second` has one value for each
/// row that `first` keeps.
fn kept_by_both(first: &BooleanArray, second: &BooleanArray) -> BooleanArray {
    let mut kept = BooleanBufferBuilder::new(first.len());
    kept.append_n(first.len(), false);
    for (number, row) in first.values().set_indices().enumerate() {
        kept.set_bit(row, second.value(number));
    }
    BooleanArray::new(kept.finish(), None)
}

/// The reader that an output column comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OutputColumn {
    /// A column that the filter reads.
    Filter(usize),
    /// A column that is read for the rows that the filter leaves.
    Reader(usize),
}

/// Returns the rows of a partition. The stream yields to the scheduler after every bounded amount
/// of work, so that dropping it stops the scan within one chunk.
///
/// With a filter, the columns of the filter are read first. The other columns are read only for the
/// rows that satisfy it, and not at all in blocks without such a row:
///
/// ```text
/// filter columns     value   | 7 1 2 9 4 3 |     value > 6: rows 0 and 3
///                              x     x
/// other columns      lat, lon                    built for rows 0 and 3
/// ```
pub(crate) fn scan(request: PartitionRequest) -> Result<SendableRecordBatchStream> {
    let schema = Arc::clone(&request.schema);
    let scan = Scan {
        coalescer: BatchCoalescer::new(Arc::clone(&schema), request.batch_size)
            .with_biggest_coalesce_batch_size(Some(request.batch_size / 2)),
        left: request.fetch.unwrap_or(usize::MAX),
        block: None,
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
                ScanStep::NextBlock => scan.next_block().await?,
                ScanStep::Fetch(block) => scan.open_reader(block).await?,
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
    block: Option<OpenBlock>,
    is_finished: bool,
    counts: ReadCounts,
}

/// The block that is being read.
struct OpenBlock {
    block: u64,
    /// The stored bytes for `reader`, if they were fetched ahead.
    fetched: Option<FetchedBlock>,
    /// `true` once `reader` has opened the block.
    is_open: bool,
    /// The next row to read.
    next: u64,
    /// Rows that passed the filter and wait for the other columns.
    filtered: Option<FilteredRows>,
}

/// The rows of a batch that satisfy the filter.
struct FilteredRows {
    kept: KeptRows,
    /// The columns of the filter, with only the rows that satisfy it.
    columns: Vec<ArrayRef>,
}

enum ScanStep {
    Batch(RecordBatch),
    /// Some work was done, but there is no batch yet. Yield, so that other tasks can run and the
    /// query can be cancelled.
    Working,
    Continue,
    /// No block is open.
    NextBlock,
    /// The scan needs the columns of this block that the filter does not read.
    Fetch(u64),
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
        let filter = self.request.filter.iter().map(|filter| &filter.reader);
        let readers = filter.chain(&self.request.reader);
        let counts = readers.map(|reader| reader.counts()).sum();
        self.request.metrics.add(self.counts, counts);
        self.counts = counts;
        step
    }

    /// Moves on to the next block.
    async fn next_block(&mut self) -> Result<()> {
        let next = match self.left {
            0 => NextBlock::End,
            _ => {
                let next = self.request.blocks.next().await;
                let waited = self.request.blocks.take_wait();
                self.request.metrics.add_wait(waited);
                next?
            }
        };
        match next {
            NextBlock::Block(block, mut fetched) => {
                let mut is_open = false;
                match (&mut self.request.filter, &mut self.request.reader) {
                    (Some(filter), _) => {
                        let of_filter = match self.request.is_filtered_first {
                            true => fetched.take(),
                            false => None,
                        };
                        filter.reader.open(block, of_filter)?;
                    }
                    (None, Some(reader)) => {
                        reader.open(block, fetched.take())?;
                        is_open = true;
                    }
                    (None, None) => return internal_err!("the scan has no reader"),
                }
                self.block = Some(OpenBlock {
                    block,
                    fetched,
                    is_open,
                    next: 0,
                    filtered: None,
                });
            }
            NextBlock::Pruned => {
                if self.request.reads_values {
                    self.request.metrics.add_pruned();
                }
                tokio::task::yield_now().await;
            }
            NextBlock::End => {
                self.is_finished = true;
                self.coalescer.finish_buffered_batch()?;
            }
        }
        Ok(())
    }

    /// Opens the reader of the columns that the filter does not read.
    async fn open_reader(&mut self, block: u64) -> Result<()> {
        let request = &mut self.request;
        if let (Some(reader), Some(open)) = (&mut request.reader, &mut self.block) {
            let mut fetched = open.fetched.take();
            if request.is_filtered_first {
                fetched = request.blocks.fetch_now(block, &request.columns).await?;
                request.metrics.add_wait(request.blocks.take_wait());
            }
            reader.open(block, fetched)?;
            open.is_open = true;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<ScanStep> {
        let Some(open) = &mut self.block else {
            return Ok(ScanStep::NextBlock);
        };
        let request = &mut self.request;
        if let Some(filter) = &mut request.filter
            && open.filtered.is_none()
        {
            if !filter.reader.advance()? {
                return Ok(ScanStep::Working);
            }
            let rows = filter.reader.batch(open.next);
            if rows.is_empty() {
                return Ok(self.end_block());
            }
            let filtered = filter.apply(rows)?;
            open.next = filtered.kept.rows().end;
            if filtered.kept.count() == 0 {
                return Ok(ScanStep::Working);
            }
            open.filtered = Some(filtered);
        }
        let mut columns = Vec::new();
        if let Some(reader) = &mut request.reader {
            if !open.is_open {
                return Ok(ScanStep::Fetch(open.block));
            }
            if !reader.advance()? {
                return Ok(ScanStep::Working);
            }
            let (rows, kept) = match &open.filtered {
                Some(filtered) => (filtered.kept.rows(), Some(&filtered.kept)),
                None => (reader.batch(open.next), None),
            };
            if rows.is_empty() {
                return Ok(self.end_block());
            }
            open.next = rows.end;
            // Without columns to read, the reader only counts rows.
            columns = reader.read(rows.clone(), kept)?;
            if kept.is_none() {
                let rows = (rows.end - rows.start) as usize;
                return self.emit(columns, rows);
            }
        }
        let Some(filtered) = open.filtered.take() else {
            return internal_err!("the scan has no reader");
        };
        let rows = filtered.kept.count();
        let output = request.output.iter().map(|column| match column {
            OutputColumn::Filter(column) => Arc::clone(&filtered.columns[*column]),
            OutputColumn::Reader(column) => Arc::clone(&columns[*column]),
        });
        let output = output.collect();
        self.emit(output, rows)
    }

    fn end_block(&mut self) -> ScanStep {
        self.block = None;
        // A block may have few rows or none, so many blocks may pass before a batch is full.
        ScanStep::Working
    }

    /// Emits rows, up to the limit.
    fn emit(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<ScanStep> {
        let mut batch = batch(&self.request.schema, columns, rows)?;
        if rows > self.left {
            batch = batch.slice(0, self.left);
        }
        let rows = batch.num_rows();
        self.left -= rows;
        if self.left == 0 {
            self.block = None;
        }
        if batch.num_columns() == 0 {
            if rows == 0 {
                return Ok(ScanStep::Continue);
            }
            // A batch without columns has only a row count, and cannot be coalesced.
            return Ok(ScanStep::Batch(
                batch.record_output(&self.request.metrics.baseline),
            ));
        }
        if rows > self.request.batch_size / 2 {
            // Pass large batches on instead of copying them behind the buffered rows of earlier
            // chunks.
            self.coalescer.finish_buffered_batch()?;
        }
        self.coalescer.push_batch(batch)?;
        Ok(ScanStep::Continue)
    }
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::clone(schema);
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}
