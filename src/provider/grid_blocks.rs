//! Any grid as a table of blocks: a row per selected cell, its coordinates first, then its attributes; a block per
//! chunk.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, internal_err};

use crate::grid::{Axis, Cells, ChunkSelection, IndexSet, Monotonicity, Selection};
use crate::provider::description::TableDescription;
use crate::provider::options::ReadOptions;
use crate::provider::source::{
    BlockList, BlockReader, BlockSource, GridSource, Progress, ReadCounts, WindowReader,
};

/// A grid as a [`BlockSource`].
#[derive(Debug)]
pub struct GridTable {
    grid: Arc<dyn GridSource>,
    schema: SchemaRef,
}

impl GridTable {
    /// The table of a grid: the dimensions in order, never null, then the attributes.
    pub fn new(grid: Arc<dyn GridSource>) -> Self {
        let dimensions = grid
            .axes()
            .iter()
            .map(|axis| Arc::new(Field::new(axis.name(), axis.data_type(), false)));
        let fields: Vec<_> = dimensions
            .chain(grid.attributes().iter().map(Arc::clone))
            .collect();
        Self {
            schema: Arc::new(Schema::new(fields)),
            grid,
        }
    }
}

impl BlockSource for GridTable {
    fn format(&self) -> &'static str {
        self.grid.format()
    }

    fn name(&self) -> &str {
        self.grid.name()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn as_grid(&self) -> Option<&dyn GridSource> {
        Some(self.grid.as_ref())
    }

    fn blocks(&self, selection: &Selection) -> Arc<dyn BlockList> {
        Arc::new(GridBlocks {
            grid: Arc::clone(&self.grid),
            chunks: selection.chunks(self.grid.chunk_grid()),
            selection: selection.clone(),
        })
    }

    fn describe(&self) -> Result<TableDescription> {
        self.grid.describe()
    }
}

/// The chunks of a grid that a selection touches.
#[derive(Debug, Clone)]
struct GridBlocks {
    grid: Arc<dyn GridSource>,
    selection: Selection,
    chunks: ChunkSelection,
}

impl GridBlocks {
    fn chunk(&self, position: u64) -> Result<Vec<u64>> {
        match self.chunks.nth(position) {
            Some(chunk) => Ok(chunk),
            None => internal_err!(
                "block {position} of {:?} was asked for",
                self.chunks.count()
            ),
        }
    }
}

impl BlockList for GridBlocks {
    fn total(&self) -> Option<u64> {
        self.grid.chunk_grid().count()
    }

    fn count(&self) -> Option<u64> {
        self.chunks.count()
    }

    fn rows(&self) -> Option<u64> {
        self.selection.count()
    }

    fn block_rows(&self, position: u64) -> Result<u64> {
        let window = self.grid.chunk_grid().window(&self.chunk(position)?);
        Ok(Cells::new(&window, &self.selection).rows())
    }

    fn block_bytes(&self, position: u64, options: &ReadOptions) -> Result<u64> {
        self.grid.stored_bytes(&self.chunk(position)?, options)
    }

    fn column_statistics(
        &self,
        column: usize,
        position: Option<u64>,
        options: &ReadOptions,
    ) -> Result<ColumnStatistics> {
        let mut statistics = ColumnStatistics::new_unknown();
        let Some(axis) = self.grid.axes().get(column) else {
            let attribute = column - self.grid.axes().len();
            if !self.grid.may_have_nulls(attribute, options) {
                statistics.null_count = Precision::Exact(0);
            }
            return Ok(statistics);
        };
        statistics.null_count = Precision::Exact(0);
        let selected = &self.selection.axes()[column];
        let range = match position {
            None if self.selection.is_empty() => None,
            None => axis_range(axis, selected)?,
            Some(position) => {
                let window = self.grid.chunk_grid().window(&self.chunk(position)?);
                let range = window.ranges()[column].clone();
                let inside = IndexSet::from_ranges(axis.length(), [range]);
                axis_range(axis, &selected.intersect(&inside))?
            }
        };
        if let Some((least, greatest)) = range {
            statistics.min_value = Precision::Exact(least);
            statistics.max_value = Precision::Exact(greatest);
        }
        if position.is_none()
            && axis.monotonicity() != Monotonicity::None
            && let Ok(count) = usize::try_from(selected.count())
        {
            statistics.distinct_count = if self.selection.is_empty() {
                Precision::Exact(0)
            } else {
                Precision::Exact(count)
            };
        }
        Ok(statistics)
    }

    fn ordering(&self) -> Vec<(usize, bool)> {
        // Rows come chunk after chunk. Ahead of the last axis along which there is more than one chunk, an axis whose
        // chunks hold more than one selected position starts over with every chunk, and ends the order.
        let last_cut = self
            .chunks
            .axes()
            .iter()
            .rposition(|chunks| chunks.count() > 1)
            .unwrap_or(0);
        let mut ordering = Vec::new();
        for (number, axis) in self.grid.axes().iter().enumerate() {
            let one_per_chunk =
                self.chunks.axes()[number].count() == self.selection.axes()[number].count();
            if number < last_cut && !one_per_chunk {
                break;
            }
            match axis.monotonicity() {
                Monotonicity::Ascending => ordering.push((number, false)),
                Monotonicity::Descending => ordering.push((number, true)),
                Monotonicity::None => break,
            }
        }
        ordering
    }

    fn reader(&self, columns: &[usize], options: &ReadOptions) -> Result<Box<dyn BlockReader>> {
        let dimensions = self.grid.axes().len();
        let attributes: Vec<_> = columns
            .iter()
            .filter_map(|column| column.checked_sub(dimensions))
            .collect();
        let values = if attributes.is_empty() {
            None
        } else {
            Some(self.grid.window_reader(&attributes, options)?)
        };
        Ok(Box::new(GridReader {
            blocks: self.clone(),
            columns: columns.to_vec(),
            values,
            cells: None,
            next_row: 0,
            is_ready: false,
            runs: Vec::new(),
        }))
    }
}

/// Reads one chunk of a grid after another. Without an attribute among its columns it reads no chunk at all.
struct GridReader {
    blocks: GridBlocks,
    columns: Vec<usize>,
    values: Option<Box<dyn WindowReader>>,
    cells: Option<Cells>,
    next_row: u64,
    is_ready: bool,
    runs: Vec<Range<u64>>,
}

impl BlockReader for GridReader {
    fn open(&mut self, position: u64) -> Result<()> {
        self.cells = None;
        let chunk = self.blocks.chunk(position)?;
        let window = self.blocks.grid.chunk_grid().window(&chunk);
        if let Some(values) = &mut self.values {
            values.open(&window)?;
        }
        self.cells = Some(Cells::new(&window, &self.blocks.selection));
        self.next_row = 0;
        self.is_ready = self.values.is_none();
        Ok(())
    }

    fn next(&mut self, max_rows: usize) -> Result<Progress> {
        let Some(cells) = &self.cells else {
            return Ok(Progress::Done);
        };
        let rows = self.next_row
            ..cells
                .rows()
                .min(self.next_row.saturating_add(max_rows as u64));
        if rows.is_empty() {
            self.cells = None;
            return Ok(Progress::Done);
        }
        let mut values = Vec::new();
        if let Some(reader) = &mut self.values {
            if !self.is_ready {
                self.is_ready = reader.advance()?;
                if !self.is_ready {
                    return Ok(Progress::Working);
                }
            }
            self.runs.clear();
            cells.runs(rows.clone(), &mut self.runs);
            values = reader.read(&self.runs)?;
        }
        let mut values = values.into_iter();
        let axes = self.blocks.grid.axes();
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            columns.push(match axes.get(*column) {
                Some(axis) => cells.coordinates(*column, axis.coordinates(), rows.clone())?,
                None => match values.next() {
                    Some(values) => values,
                    None => return internal_err!("a window reader gave too few attributes"),
                },
            });
        }
        self.next_row = rows.end;
        Ok(Progress::Rows {
            columns,
            // At most `max_rows`.
            rows: (rows.end - rows.start) as usize,
        })
    }

    fn counts(&self) -> ReadCounts {
        self.values
            .as_ref()
            .map(|values| values.counts())
            .unwrap_or_default()
    }
}

/// The least and the greatest coordinate of the positions in `set`; `None` if it is empty.
pub(crate) fn axis_range(
    axis: &Axis,
    set: &IndexSet,
) -> Result<Option<(ScalarValue, ScalarValue)>> {
    let Some(extremes) = axis.extremes(set)? else {
        return Ok(None);
    };
    Ok(Some((
        ScalarValue::try_from_array(&extremes, 0)?,
        ScalarValue::try_from_array(&extremes, 1)?,
    )))
}
