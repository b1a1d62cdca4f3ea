//! Reads windows of a grid of variables.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::buffer::{Buffer, MutableBuffer};
use datafusion::common::{Result, internal_err};
use tet_sql::grid::{Cells, IndexSet, Selection, Window};
use tet_sql::provider::catalog::settings::options::ReadOptions;
use tet_sql::provider::source::{FetchedBlock, ReadCounts, WindowReader};

use crate::grid::source::MemoryGrid;
use crate::grid::variable::{Values, Variable};

/// Reads windows of some variables. A window that is contiguous in the memory of a variable is not
/// copied.
pub struct Reader {
    grid: MemoryGrid,
    attributes: Vec<usize>,
    nan_is_null: bool,
    window: Option<Window>,
    /// The cells of the window, of the attributes that have been read so far.
    cells: Vec<Buffer>,
    counts: ReadCounts,
}

impl Reader {
    pub fn new(grid: MemoryGrid, attributes: &[usize], options: &ReadOptions) -> Self {
        Self {
            grid,
            attributes: attributes.to_vec(),
            nan_is_null: options.nan_as_null,
            window: None,
            cells: Vec::new(),
            counts: ReadCounts::default(),
        }
    }

    fn variable(&self, attribute: usize) -> &Variable {
        &self.grid.variables()[self.attributes[attribute]]
    }
}

impl WindowReader for Reader {
    fn open(&mut self, window: &Window, _fetched: Option<FetchedBlock>) -> Result<()> {
        self.window = Some(window.clone());
        self.cells.clear();
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        let next = self.cells.len();
        if next == self.attributes.len() {
            return Ok(true);
        }
        let Some(window) = &self.window else {
            return internal_err!("a window was read before it was opened");
        };
        let variable = self.variable(next);
        let cells = match variable.values() {
            Values::Memory(all) => {
                window_of(all, self.grid.shape(), window, variable.element().size())
            }
            Values::Read(read) => variable.call(read, window)?,
        };
        self.counts.chunks += 1;
        self.counts.bytes += cells.len() as u64;
        self.cells.push(cells);
        Ok(self.cells.len() == self.attributes.len())
    }

    fn cells(&mut self, attribute: usize, range: Range<u64>) -> Result<&[u8]> {
        let size = self.variable(attribute).element().size() as u64;
        let bytes = (range.start * size) as usize..(range.end * size) as usize;
        match self.cells.get(attribute).and_then(|cells| cells.get(bytes)) {
            Some(cells) => Ok(cells),
            None => internal_err!("cells were requested outside of the window"),
        }
    }

    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
        let attributes = self.cells.iter().enumerate();
        let arrays = attributes.map(|(attribute, cells)| {
            let element = self.variable(attribute).element();
            element.array(gathered(cells, runs, element.size()), self.nan_is_null)
        });
        arrays.collect()
    }

    fn counts(&self) -> ReadCounts {
        self.counts
    }
}

/// Returns the cells of a window of an array in memory.
fn window_of(all: &Buffer, shape: &[u64], window: &Window, size: usize) -> Buffer {
    let whole = Window::new(shape.iter().map(|extent| 0..*extent).collect());
    let sets = shape.iter().zip(window.ranges());
    let sets =
        sets.map(|(extent, range)| IndexSet::from_ranges(*extent, std::iter::once(range.clone())));
    let cells = Cells::new(&whole, &Selection::new(sets.collect()));
    let mut runs = Vec::new();
    cells.runs(0..cells.rows(), &mut runs);
    gathered(all, &runs, size)
}

/// Returns runs of cells. A single run is not copied.
fn gathered(cells: &Buffer, runs: &[Range<u64>], size: usize) -> Buffer {
    // The cells are in memory, so that their offsets fit into `usize`.
    let bytes = |run: &Range<u64>| run.start as usize * size..run.end as usize * size;
    if let [run] = runs {
        let bytes = bytes(run);
        return cells.slice_with_length(bytes.start, bytes.len());
    }
    let length = runs.iter().map(|run| bytes(run).len()).sum();
    let mut gathered = MutableBuffer::with_capacity(length);
    for run in runs {
        gathered.extend_from_slice(&cells[bytes(run)]);
    }
    gathered.into()
}
