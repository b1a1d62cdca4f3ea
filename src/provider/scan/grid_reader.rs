//! Reads the selected cells of a grid, chunk by chunk.

use std::ops::Range;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::FilterBuilder;
use datafusion::common::{Result, internal_err};

use crate::grid::{Cells, CoordinateColumns};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::scan::grid_blocks::GridBlocks;
use crate::provider::source::{BlockReader, FetchedBlock, ReadCounts, WindowReader};

/// Reads the blocks of a grid. Reads no chunk if no column is an attribute.
pub(crate) struct GridReader {
    blocks: GridBlocks,
    columns: Vec<usize>,
    max_rows: u64,
    values: Option<Box<dyn WindowReader>>,
    cells: Option<Cells>,
    coordinates: CoordinateColumns,
    runs: Vec<Range<u64>>,
}

impl GridReader {
    /// Creates a reader of these columns. A batch has at most `max_rows` rows.
    pub fn try_new(
        blocks: &GridBlocks,
        columns: &[usize],
        max_rows: usize,
        options: &ReadOptions,
    ) -> Result<Self> {
        let attributes = blocks.attributes(columns);
        let values = if attributes.is_empty() {
            None
        } else {
            Some(blocks.grid().window_reader(&attributes, options)?)
        };
        Ok(Self {
            blocks: blocks.clone(),
            columns: columns.to_vec(),
            max_rows: max_rows as u64,
            values,
            cells: None,
            coordinates: CoordinateColumns::default(),
            runs: Vec::new(),
        })
    }
}

impl BlockReader for GridReader {
    fn open(&mut self, block: u64, fetched: Option<FetchedBlock>) -> Result<()> {
        let window = self.blocks.window(block)?;
        let cells = Cells::new(&window, self.blocks.selection());
        if let Some(values) = &mut self.values {
            values.open(&window, fetched)?;
            if cells.cover_most_of(&window) {
                values.read_ahead();
            }
        }
        self.coordinates.open(&cells);
        self.cells = Some(cells);
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        match &mut self.values {
            Some(values) => values.advance(),
            None => Ok(true),
        }
    }

    fn rows(&self) -> u64 {
        self.cells.as_ref().map_or(0, Cells::rows)
    }

    fn batch(&self, first: u64) -> Range<u64> {
        match &self.cells {
            Some(cells) => self.coordinates.batch(cells, first, self.max_rows),
            None => first..first,
        }
    }

    fn read(&mut self, rows: Range<u64>, kept: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let Some(cells) = &self.cells else {
            return internal_err!("no block is open");
        };
        let mut values = Vec::new();
        if let Some(reader) = &mut self.values {
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
                    self.max_rows,
                )?,
                None => match values.next() {
                    Some(values) => values,
                    None => return internal_err!("a window reader gave too few attributes"),
                },
            });
        }
        let Some(kept) = kept else {
            return Ok(columns);
        };
        let mut filter = FilterBuilder::new(kept);
        if columns.len() > 1 {
            filter = filter.optimize();
        }
        let filter = filter.build();
        let columns = columns.iter().map(|column| Ok(filter.filter(column)?));
        columns.collect()
    }

    fn counts(&self) -> ReadCounts {
        self.values
            .as_ref()
            .map(|values| values.counts())
            .unwrap_or_default()
    }
}
