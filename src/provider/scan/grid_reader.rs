//! Reads the selected cells of a grid, chunk by chunk.

use std::ops::Range;

use datafusion::common::{Result, internal_err};

use crate::grid::{Cells, CoordinateColumns};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::scan::grid_blocks::GridBlocks;
use crate::provider::source::{BlockReader, Progress, ReadCounts, WindowReader};

/// Reads the blocks of a grid. Reads no chunk if no column is an attribute.
pub(crate) struct GridReader {
    blocks: GridBlocks,
    columns: Vec<usize>,
    values: Option<Box<dyn WindowReader>>,
    cells: Option<Cells>,
    has_coordinates: bool,
    coordinates: CoordinateColumns,
    next_row: u64,
    is_ready: bool,
    runs: Vec<Range<u64>>,
}

impl GridReader {
    /// Creates a reader of these columns.
    pub fn try_new(blocks: &GridBlocks, columns: &[usize], options: &ReadOptions) -> Result<Self> {
        let dimensions = blocks.grid().axes().len();
        let attributes: Vec<_> = columns
            .iter()
            .filter_map(|column| column.checked_sub(dimensions))
            .collect();
        let values = if attributes.is_empty() {
            None
        } else {
            Some(blocks.grid().window_reader(&attributes, options)?)
        };
        Ok(Self {
            blocks: blocks.clone(),
            columns: columns.to_vec(),
            values,
            cells: None,
            has_coordinates: attributes.len() < columns.len(),
            coordinates: CoordinateColumns::default(),
            next_row: 0,
            is_ready: false,
            runs: Vec::new(),
        })
    }
}

impl BlockReader for GridReader {
    fn open(&mut self, position: u64) -> Result<()> {
        self.cells = None;
        let chunk = self.blocks.chunk(position)?;
        let window = self.blocks.grid().chunk_grid().window(&chunk);
        let cells = Cells::new(&window, self.blocks.selection());
        if let Some(values) = &mut self.values {
            values.open(&window)?;
            if cells.cover_most_of(&window) {
                values.read_ahead();
            }
        }
        if self.has_coordinates {
            self.coordinates.open(&cells);
        }
        self.cells = Some(cells);
        self.next_row = 0;
        self.is_ready = self.values.is_none();
        Ok(())
    }

    fn next(&mut self, max_rows: usize) -> Result<Progress> {
        let Some(cells) = &self.cells else {
            return Ok(Progress::Done);
        };
        let max_rows = max_rows as u64;
        let rows = self.coordinates.batch(cells, self.next_row, max_rows);
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
        let axes = self.blocks.grid().axes();
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            columns.push(match axes.get(*column) {
                Some(axis) => self.coordinates.column(
                    cells,
                    *column,
                    axis.coordinates()?,
                    rows.clone(),
                    max_rows,
                )?,
                None => match values.next() {
                    Some(values) => values,
                    None => return internal_err!("a window reader gave too few attributes"),
                },
            });
        }
        self.next_row = rows.end;
        Ok(Progress::Rows {
            columns,
            // The batch has at most `max_rows` rows, a `usize`.
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
