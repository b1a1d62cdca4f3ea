//! The rows of `tet_chunks`: chunks are looked up one batch at a time, and only as far as they are
//! read.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ListBuilder, RecordBatch, StringArray, UInt64Array, UInt64Builder, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;

use crate::grid::{ChunkGrid, Window};
use crate::provider::catalog::description::ChunkDescription;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::error::describe;
use crate::provider::introspection::column::repeated;
use crate::provider::introspection::scan::{Batches, Request, RowSource, batch};
use crate::provider::introspection::tables::chunks::ChunkColumn;
use crate::provider::source::{ColumnBounds, GridSource};

/// Maximum number of chunks looked up per batch. A query can be cancelled only between batches,
/// and lookups are slow where every chunk is a file.
const MAX_LOOKED_UP: usize = 1024;
/// The number of failed lookups that are reported as rows. The next failure ends the query, because
/// a file can claim far more chunks than it contains.
const MAX_PROBLEMS: u64 = 1024;

/// The chunks of some datasets: dataset by dataset, each in row-major order.
#[derive(Debug)]
pub(crate) struct ChunkRows {
    label: String,
    parts: Arc<[Arc<dyn GridSource>]>,
    columns: Arc<[ChunkColumn]>,
    options: ReadOptions,
}

impl ChunkRows {
    pub fn new(
        label: String,
        parts: Arc<[Arc<dyn GridSource>]>,
        columns: Arc<[ChunkColumn]>,
        options: ReadOptions,
    ) -> Self {
        Self {
            label,
            parts,
            columns,
            options,
        }
    }
}

impl RowSource for ChunkRows {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn count(&self) -> Option<u64> {
        let mut counts = self.parts.iter().map(|part| part.chunk_grid().count());
        counts.try_fold(0u64, |sum, count| sum.checked_add(count?))
    }

    fn read(self: Arc<Self>, request: Request) -> Batches {
        let columns = request.columns.iter();
        let columns: Vec<_> = columns.map(|number| self.columns[*number]).collect();
        let looks_up = columns.iter().any(|column| column.needs_lookup());
        Box::new(Reader {
            batch_size: match looks_up {
                true => request.batch_size.min(MAX_LOOKED_UP),
                false => request.batch_size,
            },
            looks_up,
            wants_values: columns.iter().any(|column| column.needs_statistics()),
            columns,
            schema: request.schema,
            left: request.fetch,
            part: 0,
            next: 0,
            problems: 0,
            rows: self,
        })
    }
}

/// Reads the chunks in order.
struct Reader {
    rows: Arc<ChunkRows>,
    columns: Vec<ChunkColumn>,
    schema: SchemaRef,
    batch_size: usize,
    looks_up: bool,
    wants_values: bool,
    /// Rows still to be read.
    left: u64,
    /// The index of the current dataset.
    part: usize,
    /// The ordinal of its next chunk, in row-major order.
    next: u64,
    /// The number of failed lookups so far.
    problems: u64,
}

/// A range of chunks of one dataset, with their descriptions and statistics.
struct DescribedChunks {
    chunks: Vec<Vec<u64>>,
    windows: Vec<Window>,
    stored: Vec<Result<ChunkDescription, String>>,
    values: Option<ColumnBounds>,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(part) = self.rows.parts.get(self.part) {
            // A grid with 2^64 chunks or more has no count. The reader cannot reach its end.
            let count = part.chunk_grid().count().unwrap_or(u64::MAX);
            let most = (self.batch_size as u64).min(self.left);
            let range = self.next..count.min(self.next.saturating_add(most));
            if self.left == 0 {
                return None;
            }
            if range.is_empty() {
                self.part += 1;
                self.next = 0;
                continue;
            }
            self.next = range.end;
            self.left -= range.end - range.start;
            let part = Arc::clone(part);
            let batch = self.batch(part.as_ref(), range);
            if batch.is_err() {
                // The iterator ends after an error.
                self.left = 0;
            }
            return Some(batch);
        }
        None
    }
}

impl Reader {
    fn batch(&mut self, part: &dyn GridSource, range: Range<u64>) -> Result<RecordBatch> {
        let found = self.find(part, range)?;
        let columns = self.columns.iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| found.column(part, *column, field.data_type()));
        batch(
            &self.schema,
            columns.collect::<Result<_>>()?,
            found.chunks.len(),
        )
    }

    fn find(&mut self, part: &dyn GridSource, range: Range<u64>) -> Result<DescribedChunks> {
        let grid = part.chunk_grid();
        let all: Vec<_> = grid.axes().map(|axis| 0..axis.count()).collect();
        let chunks: Vec<_> = range.map(|nth| ChunkGrid::nth_of(&all, nth)).collect();
        let windows: Vec<_> = chunks.iter().map(|chunk| grid.window(chunk)).collect();
        let options = &self.rows.options;
        let mut stored = Vec::new();
        if self.looks_up {
            for chunk in &chunks {
                stored.push(match part.describe_chunk(chunk, options) {
                    Ok(found) => Ok(found),
                    Err(error) if self.problems < MAX_PROBLEMS => {
                        self.problems += 1;
                        Err(describe(&error))
                    }
                    Err(error) => return Err(error),
                });
            }
        }
        let values = if self.wants_values && part.availability(0, options).is_known {
            part.window_statistics(0, &windows, options)?
        } else {
            None
        };
        Ok(DescribedChunks {
            chunks,
            windows,
            stored,
            values,
        })
    }
}

impl DescribedChunks {
    fn column(
        &self,
        part: &dyn GridSource,
        column: ChunkColumn,
        data_type: &DataType,
    ) -> Result<ArrayRef> {
        let rows = self.chunks.len();
        let starts = |window: &Window| window.ranges().iter().map(|range| range.start).collect();
        let bound = |of: fn(&ColumnBounds) -> &ArrayRef| match &self.values {
            Some(values) => cast(of(values), data_type),
            None => Ok(new_null_array(data_type, rows)),
        };
        Ok(match column {
            ChunkColumn::Path => repeated(&part.path().display().to_string(), rows),
            ChunkColumn::Dataset => repeated(part.name(), rows),
            ChunkColumn::Chunk => lists(self.chunks.iter().cloned()),
            ChunkColumn::Start => lists(self.windows.iter().map(starts)),
            ChunkColumn::Extent => lists(self.windows.iter().map(|one| one.shape().collect())),
            ChunkColumn::First(axis) => self.coordinates(part, axis, |range| range.start)?,
            // A chunk of a grid is never empty, so `end - 1` cannot underflow.
            ChunkColumn::Last(axis) => self.coordinates(part, axis, |range| range.end - 1)?,
            ChunkColumn::Cells => {
                let cells = self.windows.iter().map(Window::cells);
                Arc::new(UInt64Array::from_iter_values(cells))
            }
            ChunkColumn::Codec => {
                let stored = self.stored.iter();
                let codecs = stored.map(|one| one.as_ref().ok().map(|found| &found.codec));
                Arc::new(StringArray::from_iter(codecs))
            }
            ChunkColumn::PayloadOffset => self.numbers(|found| found.offset),
            ChunkColumn::StoredBytes => self.numbers(|found| Some(found.stored_bytes)),
            ChunkColumn::RawBytes => self.numbers(|found| Some(found.raw_bytes)),
            ChunkColumn::Minimum => bound(|values| &values.min)?,
            ChunkColumn::Maximum => bound(|values| &values.max)?,
            ChunkColumn::Nulls => match &self.values {
                Some(values) => Arc::new(values.nulls.clone()),
                None => new_null_array(data_type, rows),
            },
            ChunkColumn::Problem => {
                let problems = self.stored.iter().map(|one| one.as_ref().err());
                Arc::new(StringArray::from_iter(problems))
            }
        })
    }

    fn coordinates(
        &self,
        part: &dyn GridSource,
        axis: usize,
        position: fn(&Range<u64>) -> u64,
    ) -> Result<ArrayRef> {
        let positions = self.windows.iter().map(|one| position(&one.ranges()[axis]));
        Ok(part.axes()[axis].coordinates()?.at(positions)?)
    }

    fn numbers(&self, of: impl Fn(&ChunkDescription) -> Option<u64>) -> ArrayRef {
        let stored = self.stored.iter();
        let numbers = stored.map(|one| one.as_ref().ok().and_then(&of));
        Arc::new(UInt64Array::from_iter(numbers))
    }
}

fn lists(rows: impl Iterator<Item = Vec<u64>>) -> ArrayRef {
    let mut lists = ListBuilder::new(UInt64Builder::new());
    for row in rows {
        lists.append_value(row.into_iter().map(Some));
    }
    Arc::new(lists.finish())
}
