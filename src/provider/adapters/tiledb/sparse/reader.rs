//! Reads the data tiles of sparse arrays.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::filter;
use datafusion::common::{Result, internal_err};

use crate::format::tiledb::{SparseReader, TileBuffers};
use crate::grid::KeptRows;
use crate::provider::adapters::tiledb::columns::NullValues;
#[cfg(feature = "remote")]
use crate::provider::adapters::tiledb::fetching::fetched_tiles;
use crate::provider::adapters::tiledb::sparse::blocks::SparseBlocks;
use crate::provider::source::{BlockReader, FetchedBlock, ReadCounts};

/// Reads the cells of data tiles that count. Each tile is decoded column by column.
pub(super) struct SparseBlockReader {
    blocks: SparseBlocks,
    cells: SparseReader,
    /// The columns of the table.
    columns: Vec<usize>,
    max_rows: u64,
    nulls: NullValues,
    /// The fragment and the tile of the current block.
    tile: (usize, u64),
    /// The cells that count, once they are found; the inner value is `None` if all of them do.
    selection: Option<Option<BooleanArray>>,
    /// The number of cells that count.
    rows: u64,
    /// The columns that are decoded, without the cells that do not count.
    arrays: Vec<ArrayRef>,
    counts: ReadCounts,
}

impl SparseBlockReader {
    pub fn try_new(
        blocks: SparseBlocks,
        columns: &[usize],
        max_rows: usize,
        nulls: NullValues,
    ) -> Result<Self> {
        Ok(Self {
            cells: SparseReader::new(Arc::clone(blocks.stored.array()))?,
            blocks,
            columns: columns.to_vec(),
            max_rows: max_rows.max(1) as u64,
            nulls,
            tile: (0, 0),
            selection: None,
            rows: 0,
            arrays: Vec::new(),
            counts: ReadCounts::default(),
        })
    }

    /// Returns the cells of the current tile that count; `None` if all of them do.
    fn find_selection(&mut self) -> Result<Option<BooleanArray>> {
        let selections = &self.blocks.selections;
        let known = || selections.lock().ok()?.get(&self.tile).cloned();
        if let Some(known) = known() {
            return Ok(known);
        }
        let (fragment, tile) = self.tile;
        let selection = self
            .cells
            .selection(fragment, tile)?
            .map(BooleanArray::from);
        if let Ok(mut selections) = selections.lock() {
            selections.put(self.tile, selection.clone());
        }
        Ok(selection)
    }

    /// Decodes a column of the current tile.
    fn decode(&mut self, column: usize) -> Result<ArrayRef> {
        let (fragment, tile) = self.tile;
        let mut buffers = TileBuffers::default();
        let stored = &self.blocks.stored;
        let dimensions = stored.dimensions();
        let (column, nulls) = match column.checked_sub(dimensions.len()) {
            None => {
                self.cells.dimension(fragment, tile, column, &mut buffers)?;
                (&dimensions[column], NullValues::NONE)
            }
            Some(attribute) => {
                self.cells
                    .attribute(fragment, tile, attribute, &mut buffers)?;
                (&stored.attributes()[attribute], self.nulls)
            }
        };
        let array = column.array(buffers, nulls)?;
        Ok(match &self.selection {
            Some(Some(selection)) => filter(&array, selection)?,
            _ => array,
        })
    }
}

impl BlockReader for SparseBlockReader {
    fn open(&mut self, block: u64, fetched: Option<FetchedBlock>) -> Result<()> {
        #[cfg(feature = "remote")]
        {
            let fetched = fetched_tiles(fetched)?;
            self.counts.requests += fetched.requests;
            self.counts.bytes_fetched += fetched.bytes_fetched;
            self.cells.set_fetched(fetched);
        }
        #[cfg(not(feature = "remote"))]
        drop(fetched);
        self.tile = self.blocks.tile(block)?;
        self.selection = None;
        self.rows = 0;
        self.arrays.clear();
        self.counts.chunks += 1;
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        let start = Instant::now();
        let (fragment, tile) = self.tile;
        if self.selection.is_none() {
            let selection = self.find_selection()?;
            let cells = self.blocks.stored.array().fragments().get(fragment);
            self.rows = match &selection {
                Some(selection) => selection.true_count() as u64,
                None => cells.map_or(0, |cells| cells.cells(tile)),
            };
            self.selection = Some(selection);
        } else if let Some(column) = self.columns.get(self.arrays.len())
            && self.rows > 0
        {
            let array = self.decode(*column)?;
            if array.len() as u64 != self.rows {
                return internal_err!("a tile has {} cells, expected {}", array.len(), self.rows);
            }
            self.arrays.push(array);
        }
        self.counts.decode_time += start.elapsed();
        self.counts.bytes = self.cells.bytes_read();
        Ok(self.rows == 0 || self.arrays.len() == self.columns.len())
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn batch(&self, first: u64) -> Range<u64> {
        first..self.rows.min(first.saturating_add(self.max_rows))
    }

    fn read(&mut self, rows: Range<u64>, kept: Option<&KeptRows>) -> Result<Vec<ArrayRef>> {
        let (start, length) = (rows.start as usize, (rows.end - rows.start) as usize);
        let arrays = self.arrays.iter().map(|array| {
            let slice = array.slice(start, length);
            Ok(match kept {
                Some(kept) => filter(&slice, kept.mask())?,
                None => slice,
            })
        });
        arrays.collect()
    }

    fn counts(&self) -> ReadCounts {
        self.counts
    }
}
