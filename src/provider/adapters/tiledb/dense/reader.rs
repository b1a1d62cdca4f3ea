//! Reads windows of dense arrays.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, UInt64Array, new_empty_array};
use arrow::buffer::Buffer;
use arrow::compute::take;
use datafusion::common::{Result, exec_err, internal_err};

use crate::format::tiledb::{DenseReader, IndexBox, TileBuffers};
use crate::grid::{ChunkGrid, Window};
use crate::provider::adapters::tiledb::columns::NullValues;
use crate::provider::adapters::tiledb::dense::grid::DenseGrid;
#[cfg(feature = "remote")]
use crate::provider::adapters::tiledb::fetching::fetched_tiles;
use crate::provider::source::{FetchedBlock, GridSource, ReadCounts, WindowReader};

/// The maximum number of cells of a window that is joined from several tiles.
const MAX_JOINED_CELLS: u64 = 1 << 28;

/// Reads windows of some attributes of a dense array. A window is usually one tile; any other window
/// is joined from the tiles that it intersects.
pub(super) struct DenseWindowReader {
    grid: DenseGrid,
    cells: DenseReader,
    columns: Vec<ReadColumn>,
    nulls: NullValues,
    window: Option<Window>,
    /// The chunks that the window intersects.
    chunks: Vec<Range<u64>>,
    counts: ReadCounts,
}

/// The cells of one attribute in the current window.
struct ReadColumn {
    attribute: usize,
    /// The tiles decoded so far, in row-major order, if the window consists of several tiles.
    parts: Vec<(IndexBox, TileBuffers)>,
    /// The cells of the window in row-major order.
    cells: TileBuffers,
    is_decoded: bool,
    /// The cells as an array, once they are read, and the first buffer of it; `cells` is empty then.
    array: Option<(ArrayRef, Buffer)>,
}

impl DenseWindowReader {
    pub fn new(grid: DenseGrid, attributes: &[usize], nulls: NullValues) -> Self {
        let columns = attributes.iter().map(|attribute| ReadColumn {
            attribute: *attribute,
            parts: Vec::new(),
            cells: TileBuffers::default(),
            is_decoded: false,
            array: None,
        });
        Self {
            cells: DenseReader::new(Arc::clone(grid.stored.array())),
            columns: columns.collect(),
            grid,
            nulls,
            window: None,
            chunks: Vec::new(),
            counts: ReadCounts::default(),
        }
    }

    /// Decodes the next tile of a column. Sets `is_decoded` after the last.
    fn decode(&mut self, column: usize) -> Result<()> {
        let Some(window) = &self.window else {
            return internal_err!("a window reader was advanced without a window");
        };
        let column = &mut self.columns[column];
        let lengths = self.chunks.iter().map(|range| range.end - range.start);
        let count: u64 = lengths.product();
        let array = self.grid.stored.array();
        let chunk = ChunkGrid::nth_of(&self.chunks, column.parts.len() as u64);
        let common = self.grid.cells_in_chunk(window, &chunk);
        let shown = array.window(common.clone())?;
        let stored = &self.grid.stored.attributes()[column.attribute];
        let marks_missing = self.nulls.fill && stored.is_null_where_missing();
        let mut part = std::mem::take(&mut column.cells);
        self.cells.read(&shown, column.attribute, &mut part)?;
        if marks_missing {
            self.cells
                .mark_missing(&shown, column.attribute, &mut part)?;
        }
        if count == 1 {
            column.cells = part;
            column.is_decoded = true;
            return Ok(());
        }
        column.parts.push((common, part));
        if column.parts.len() as u64 == count {
            let whole = self.grid.cells_of(window);
            let description = &array.schema().attributes[column.attribute];
            join(
                &whole,
                &column.parts,
                description.cell_bytes(),
                &mut column.cells,
            );
            column.parts.clear();
            column.is_decoded = true;
        }
        Ok(())
    }
}

impl WindowReader for DenseWindowReader {
    fn open(&mut self, window: &Window, fetched: Option<FetchedBlock>) -> Result<()> {
        #[cfg(feature = "remote")]
        {
            let fetched = fetched_tiles(fetched)?;
            self.counts.requests += fetched.requests;
            self.counts.bytes_fetched += fetched.bytes_fetched;
            self.cells.set_fetched(fetched);
        }
        #[cfg(not(feature = "remote"))]
        drop(fetched);
        self.chunks = self.grid.chunk_grid().chunks_in(window);
        let is_joined = self.chunks.iter().any(|range| range.end - range.start > 1);
        if is_joined && window.cells() > MAX_JOINED_CELLS {
            let cells = window.cells();
            return exec_err!(
                "{}: {cells} cells of several tiles must be joined, of {MAX_JOINED_CELLS} at most",
                self.grid.path().display()
            );
        }
        for column in &mut self.columns {
            column.parts.clear();
            column.is_decoded = window.cells() == 0;
            column.array = None;
            if column.is_decoded {
                let data_type = self.grid.attributes()[column.attribute].data_type();
                column.array = Some((new_empty_array(data_type), Buffer::default()));
            }
        }
        self.window = Some(window.clone());
        self.counts.chunks += u64::from(!self.columns.is_empty());
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        let is_missing = |column: &ReadColumn| !column.is_decoded;
        if let Some(next) = self.columns.iter().position(is_missing) {
            let start = Instant::now();
            self.decode(next)?;
            self.counts.decode_time += start.elapsed();
            self.counts.bytes = self.cells.bytes_read();
        }
        Ok(self.columns.iter().all(|column| column.is_decoded))
    }

    fn cells(&mut self, attribute: usize, range: Range<u64>) -> Result<&[u8]> {
        let Some(column) = self.columns.get(attribute) else {
            return internal_err!("the reader has no attribute {attribute}");
        };
        let description = &self.grid.stored.array().schema().attributes[column.attribute];
        let size = description.cell_bytes().unwrap_or(0);
        let bytes = range.start as usize * size..range.end as usize * size;
        let values = match &column.array {
            Some((_, values)) => values.as_slice(),
            None => column.cells.values.as_slice(),
        };
        match values.get(bytes) {
            Some(bytes) if column.is_decoded => Ok(bytes),
            _ => internal_err!("a window was read before it was decoded"),
        }
    }

    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            if !column.is_decoded {
                return internal_err!("a window was read before it was decoded");
            }
            let (whole, _) = match &column.array {
                Some(array) => array,
                None => {
                    let cells = std::mem::take(&mut column.cells);
                    let stored = &self.grid.stored.attributes()[column.attribute];
                    let array = stored.array(cells, self.nulls)?;
                    let values = array.to_data().buffers().first().cloned();
                    column.array.insert((array, values.unwrap_or_default()))
                }
            };
            arrays.push(match runs {
                [run] => whole.slice(run.start as usize, (run.end - run.start) as usize),
                _ => {
                    let indices = UInt64Array::from_iter_values(runs.iter().cloned().flatten());
                    take(whole, &indices, None)?
                }
            });
        }
        Ok(arrays)
    }

    fn counts(&self) -> ReadCounts {
        self.counts
    }
}

/// Joins the parts of a box of cells, each in row-major order, to the cells of the box in row-major
/// order. The parts are in row-major order themselves, and cover the box.
fn join(
    whole: &IndexBox,
    parts: &[(IndexBox, TileBuffers)],
    cell_bytes: Option<usize>,
    output: &mut TileBuffers,
) {
    output.cells = 0;
    output.values.clear();
    output.offsets.clear();
    output.validity.clear();
    if cell_bytes.is_none() {
        output.offsets.push(0);
    }
    let Some((_, outer)) = whole.ranges.split_last() else {
        return;
    };
    let mut line: Vec<u64> = outer.iter().map(|range| range.start).collect();
    loop {
        let is_in_part = |(cells, _): &&(IndexBox, TileBuffers)| {
            let mut ranges = line.iter().zip(&cells.ranges);
            ranges.all(|(index, range)| range.contains(index))
        };
        // The parts of a line, from its start to its end.
        for (cells, buffers) in parts.iter().filter(is_in_part) {
            let in_part = line
                .iter()
                .zip(&cells.ranges)
                .fold(0, |start, (index, range)| {
                    start * (range.end - range.start) + (index - range.start)
                });
            let Some(range) = cells.ranges.last() else {
                continue;
            };
            let length = (range.end - range.start) as usize;
            let start = in_part as usize * length;
            let cells = start..start + length;
            output.cells += length;
            match cell_bytes {
                Some(size) => {
                    let bytes = cells.start * size..cells.end * size;
                    output.values.extend_from_slice(&buffers.values[bytes]);
                }
                None => {
                    let first = buffers.offsets[cells.start];
                    let before = output.values.len() as u64;
                    let ends = &buffers.offsets[cells.start + 1..=cells.end];
                    output
                        .offsets
                        .extend(ends.iter().map(|end| end - first + before));
                    let bytes = first as usize..buffers.offsets[cells.end] as usize;
                    output.values.extend_from_slice(&buffers.values[bytes]);
                }
            }
            // Parts without validity have no nulls.
            if let Some(validity) = buffers.validity.get(cells) {
                output.validity.resize(output.cells - length, 1);
                output.validity.extend_from_slice(validity);
            }
        }
        let advanced = outer.iter().enumerate().rev().any(|(axis, range)| {
            line[axis] += 1;
            let is_inside = line[axis] < range.end;
            if !is_inside {
                line[axis] = range.start;
            }
            is_inside
        });
        if !advanced {
            break;
        }
    }
    if !output.validity.is_empty() {
        output.validity.resize(output.cells, 1);
    }
}
