//! Joins the rows of the probe side of a lookup join with their matches.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{FilterBuilder, filter, not, take};
use arrow::datatypes::{DataType, SchemaRef, UInt32Type};
use datafusion::common::{JoinSide, JoinType, Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};
use futures::TryStreamExt;

use crate::provider::join::lookup::build::BuildSide;
use crate::provider::join::lookup::build::matches::{NO_ROW, is_row};
use crate::provider::join::lookup::conditions::run_matches::Line;
use crate::provider::planning::mask::mask;
use crate::provider::planning::unions::take_or_null;

/// The output of a lookup join.
#[derive(Debug, Clone)]
pub(super) struct JoinOutput {
    /// The kind of join.
    pub join_type: JoinType,
    /// The side of each output column, and its index among the columns of that side. The column of neither side
    /// has the row number on the build side of rows that are returned at the end, and is null for all other rows.
    pub columns: Vec<ColumnIndex>,
    /// The column of the probe side that holds key indices.
    pub key_index: usize,
    /// The join filter beside the keys. Only inner joins have one.
    pub filter: Option<JoinFilter>,
}

/// The output column with the row numbers of the build side.
#[cfg(any(feature = "cluster", feature = "proto"))]
pub(super) const ROW_NUMBER: ColumnIndex = ColumnIndex {
    index: 0,
    side: JoinSide::None,
};

impl JoinOutput {
    /// Returns `true` if the last column is [`ROW_NUMBER`].
    #[cfg(feature = "proto")]
    pub fn has_row_numbers(&self) -> bool {
        let last = self.columns.last();
        last.is_some_and(|column| column.side == JoinSide::None)
    }

    /// Returns `true` if the output depends on which rows of the build side have a match.
    pub fn tracks_matches(&self) -> bool {
        matches!(
            self.join_type,
            JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti
        )
    }
}

/// Rows from which output rows are assembled.
#[derive(Clone, Copy)]
enum JoinedRows<'a> {
    /// Rows of the probe side, and for each the row number of its match on the build side, or null.
    Pairs(&'a RecordBatch, &'a UInt32Array),
    /// Rows of the probe side alone.
    Probe(&'a RecordBatch),
    /// Rows of the build side alone, and the mask that selects them among all its rows.
    Build(&'a RecordBatch, &'a BooleanArray),
}

/// Joins one partition of the probe side with the build side.
pub(super) struct Probe {
    /// The rows of the partition.
    pub input: SendableRecordBatchStream,
    pub build: Arc<BuildSide>,
    pub output: Arc<JoinOutput>,
    pub schema: SchemaRef,
    pub batch_size: usize,
    pub metrics: BaselineMetrics,
    /// The batch whose matches have not all been returned, if a key index may have several.
    pub pending: Option<Pending>,
    /// The rows found for the previous key index.
    pub line: Line,
    pub is_finished: bool,
}

/// A batch of rows whose matches are being returned.
pub(super) struct Pending {
    batch: RecordBatch,
    /// The next row.
    row: usize,
    /// The number of matches of this row that were returned.
    matches: usize,
}

impl Probe {
    /// Returns the next batch that has rows; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let elapsed = self.metrics.elapsed_compute().clone();
            let batch = if let Some(pending) = self.pending.take() {
                let _timer = elapsed.timer();
                self.some_matches(pending)?
            } else if self.is_finished {
                return Ok(None);
            } else if let Some(batch) = self.input.try_next().await? {
                let _timer = elapsed.timer();
                self.join(batch)?
            } else {
                self.is_finished = true;
                match self.output.tracks_matches() && self.build.finish_partition() {
                    true => self.build_rows()?,
                    false => continue,
                }
            };
            if batch.num_rows() > 0 {
                return Ok(Some(batch.record_output(&self.metrics)));
            }
            tokio::task::yield_now().await;
        }
    }

    fn join(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let keys = batch
            .column(self.output.key_index)
            .as_primitive::<UInt32Type>();
        let kind = self.output.join_type;
        if matches!(kind, JoinType::RightSemi | JoinType::RightAnti) {
            let has_match = keys.values().iter();
            let line = &mut self.line;
            let has_match = has_match.map(|key| !self.build.matches.rows_of(*key, line).is_empty());
            let has_match = BooleanArray::from(has_match.collect::<Vec<_>>());
            let kept = match kind {
                JoinType::RightSemi => has_match,
                _ => not(&has_match)?,
            };
            return self.assemble(JoinedRows::Probe(&filtered(&batch, &kept)?));
        }
        let Some((rows, have_all)) = self.build.matches.only_rows(keys) else {
            return self.some_matches(Pending {
                batch,
                row: 0,
                matches: 0,
            });
        };
        let found = match have_all {
            true => None,
            false => Some(is_row(&rows)),
        };
        if self.output.tracks_matches() {
            let matched = rows.iter().enumerate();
            let matched =
                matched.filter(|(row, _)| found.as_ref().is_none_or(|found| found.value(*row)));
            matched.for_each(|(_, row)| self.build.set_matched(*row));
        }
        let keeps_all = matches!(kind, JoinType::Right | JoinType::Full);
        match found {
            Some(found) if keeps_all => {
                let rows = UInt32Array::new(rows.into(), Some(NullBuffer::new(found)));
                self.assemble(JoinedRows::Pairs(&batch, &rows))
            }
            Some(found) => {
                let found = BooleanArray::new(found, None);
                let rows = filter(&UInt32Array::from(rows), &found)?;
                self.pairs(&filtered(&batch, &found)?, rows.as_primitive())
            }
            None => self.pairs(&batch, &UInt32Array::from(rows)),
        }
    }

    /// Returns the next `batch_size` matches of rows that may have several matches each. Keeps the
    /// remaining rows in `pending`.
    fn some_matches(&mut self, mut pending: Pending) -> Result<RecordBatch> {
        let keys = pending
            .batch
            .column(self.output.key_index)
            .as_primitive::<UInt32Type>();
        let keeps_all = matches!(self.output.join_type, JoinType::Right | JoinType::Full);
        let tracks = self.output.tracks_matches();
        let likely = self.batch_size.min(keys.len() - pending.row);
        let mut probe_rows = Vec::with_capacity(likely);
        let mut build_rows = Vec::with_capacity(likely);
        while pending.row < keys.len() && probe_rows.len() < self.batch_size {
            let all = self
                .build
                .matches
                .rows_of(keys.value(pending.row), &mut self.line);
            let left = &all[pending.matches..];
            let some = &left[..left.len().min(self.batch_size - probe_rows.len())];
            if tracks {
                some.iter().for_each(|row| self.build.set_matched(*row));
            }
            let rows = match all.is_empty() && keeps_all {
                true => &[NO_ROW],
                false => some,
            };
            probe_rows.extend(std::iter::repeat_n(pending.row as u32, rows.len()));
            build_rows.extend_from_slice(rows);
            if some.len() < left.len() {
                pending.matches += some.len();
            } else {
                (pending.row, pending.matches) = (pending.row + 1, 0);
            }
        }
        let probe_rows = UInt32Array::from(probe_rows);
        let columns = pending.batch.columns().iter();
        let columns = columns.map(|column| Ok(take(column, &probe_rows, None)?));
        let rows = batch_of(
            &pending.batch.schema(),
            columns.collect::<Result<_>>()?,
            probe_rows.len(),
        )?;
        if pending.row < pending.batch.num_rows() {
            self.pending = Some(pending);
        }
        let nulls = keeps_all.then(|| NullBuffer::new(is_row(&build_rows)));
        self.pairs(&rows, &UInt32Array::new(build_rows.into(), nulls))
    }

    /// Returns the output rows of those pairs of matching rows that satisfy the filter.
    fn pairs(&self, probe: &RecordBatch, build: &UInt32Array) -> Result<RecordBatch> {
        if matches!(
            self.output.join_type,
            JoinType::LeftSemi | JoinType::LeftAnti
        ) {
            // The output depends only on the matched rows of the build side, which are recorded.
            return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
        }
        let Some(condition) = &self.output.filter else {
            return self.assemble(JoinedRows::Pairs(probe, build));
        };
        let columns = condition.column_indices().iter();
        let columns = columns.map(|column| self.column(column, JoinedRows::Pairs(probe, build)));
        let columns = columns.collect::<Result<_>>()?;
        let rows = batch_of(condition.schema(), columns, probe.num_rows())?;
        let kept = mask(condition.expression(), &rows)?;
        let build = filter(build, &kept)?;
        self.assemble(JoinedRows::Pairs(
            &filtered(probe, &kept)?,
            build.as_primitive(),
        ))
    }

    /// Returns the rows of the build side that are output once all matches are known.
    fn build_rows(&self) -> Result<RecordBatch> {
        let matched = self.build.matched();
        let kept = match self.output.join_type {
            JoinType::LeftSemi => matched,
            _ => not(&matched)?,
        };
        let rows = filtered(&self.build.rows, &kept)?;
        self.assemble(JoinedRows::Build(&rows, &kept))
    }

    fn assemble(&self, rows: JoinedRows<'_>) -> Result<RecordBatch> {
        let columns = self.output.columns.iter();
        let columns = columns.map(|column| self.column(column, rows));
        let (JoinedRows::Pairs(batch, _) | JoinedRows::Probe(batch) | JoinedRows::Build(batch, _)) =
            rows;
        batch_of(
            &self.schema,
            columns.collect::<Result<_>>()?,
            batch.num_rows(),
        )
    }

    fn column(&self, column: &ColumnIndex, rows: JoinedRows<'_>) -> Result<ArrayRef> {
        let index = column.index;
        Ok(match (column.side, rows) {
            (JoinSide::Left, JoinedRows::Pairs(_, rows)) => {
                take_or_null(self.build.rows.column(index), rows)?
            }
            (JoinSide::Left, JoinedRows::Build(batch, _))
            | (JoinSide::Right, JoinedRows::Pairs(batch, _) | JoinedRows::Probe(batch)) => {
                Arc::clone(batch.column(index))
            }
            (JoinSide::Right, JoinedRows::Build(batch, _)) => {
                let schema = self.input.schema();
                new_null_array(schema.field(index).data_type(), batch.num_rows())
            }
            (JoinSide::None, JoinedRows::Build(_, kept)) => {
                let numbers = kept.values().set_indices().map(|row| row as u32);
                Arc::new(UInt32Array::from_iter_values(numbers))
            }
            (JoinSide::None, JoinedRows::Pairs(batch, _) | JoinedRows::Probe(batch)) => {
                new_null_array(&DataType::UInt32, batch.num_rows())
            }
            _ => return internal_err!("a lookup join has no such column: {column:?}"),
        })
    }
}

fn filtered(batch: &RecordBatch, kept: &BooleanArray) -> Result<RecordBatch> {
    let filter = FilterBuilder::new(kept).optimize().build();
    Ok(filter.filter_record_batch(batch)?)
}

fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::clone(schema);
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}
