//! Reads windows of an array that is repeated along some axes of a grid.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use datafusion::common::{Result, internal_err};

use crate::grid::{ChunkGrid, Window};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::{FetchedBlock, GridSource, ReadCounts, WindowReader};

/// The maximum number of cells that are read because they are in the chunks of a window.
const MAX_CELLS: u64 = 1 << 23;

/// Returns the window of the values that a window of the grid repeats. `axes` has the axis of the grid for
/// each axis of the values.
pub(super) fn within(axes: &[usize], window: &[Range<u64>]) -> Vec<Range<u64>> {
    axes.iter().map(|axis| window[*axis].clone()).collect()
}

/// Reads windows of the grid. Keeps the part of the values that was read last, because windows that follow
/// each other often repeat values of the same chunks.
pub(super) struct RepeatedReader {
    /// The number of columns to return, which are all equal.
    copies: usize,
    /// For each axis of the values, the axis of the grid.
    axes: Vec<usize>,
    /// The chunks of the values.
    chunks: ChunkGrid,
    /// Reads the values.
    reader: Box<dyn WindowReader>,
    /// The current window of the grid.
    window: Vec<Range<u64>>,
    /// The part of the values that is read: the window, and what else is in its chunks.
    part: Option<Vec<Range<u64>>>,
    /// The values of that part, once they are read.
    values: Option<ArrayRef>,
}

impl RepeatedReader {
    /// Reads `copies` equal columns. `axes` has the axis of the grid for each axis of the values.
    pub fn new(
        values: &Arc<dyn GridSource>,
        axes: Vec<usize>,
        copies: usize,
        options: &ReadOptions,
    ) -> Result<Self> {
        Ok(Self {
            copies,
            axes,
            chunks: values.chunk_grid().clone(),
            reader: values.window_reader(&[0], options)?,
            window: Vec::new(),
            part: None,
            values: None,
        })
    }

    /// Returns the chunks that a window of the values touches, as a window; the window itself if that
    /// would be too large.
    fn whole_chunks(&self, window: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let window = Window::new(window);
        let touched = self.chunks.chunks_in(&window);
        let spans = self.chunks.axes().zip(&touched);
        let spans = spans.map(|(axis, chunks)| (!chunks.is_empty()).then(|| axis.span(chunks)));
        let whole = spans.collect::<Option<Vec<_>>>().map(Window::new);
        let whole = whole.filter(|whole| whole.cells() <= MAX_CELLS);
        whole.unwrap_or(window).ranges().to_vec()
    }
}

/// The cells of a window of a grid, as indices into the values that it repeats.
struct RepeatedCells {
    /// The extents of the window.
    extents: Vec<u64>,
    /// For each axis of the window, the difference of the indices of cells that follow each other.
    strides: Vec<u64>,
    /// The index of the first cell.
    first: u64,
}

impl RepeatedCells {
    /// `part` are the values, and `axes` has the axis of the window for each of their axes.
    fn new(window: &[Range<u64>], part: &[Range<u64>], axes: &[usize]) -> Self {
        let mut strides = vec![0; window.len()];
        let (mut stride, mut first) = (1, 0);
        for (axis, range) in axes.iter().zip(part).rev() {
            strides[*axis] = stride;
            first += (window[*axis].start - range.start) * stride;
            stride *= range.end - range.start;
        }
        Self {
            extents: window.iter().map(|range| range.end - range.start).collect(),
            strides,
            first,
        }
    }

    /// Appends the index of each cell in a run of cells of the window.
    fn append(&self, run: Range<u64>, indices: &mut Vec<u32>) {
        let (length, stride) = match (self.extents.last(), self.strides.last()) {
            (Some(length), Some(stride)) => ((*length).max(1), *stride),
            _ => (1, 0),
        };
        let mut cell = run.start;
        while cell < run.end {
            let line_end = ((cell / length + 1) * length).min(run.end);
            let mut rest = cell;
            let mut first = self.first;
            for (extent, stride) in self.extents.iter().zip(&self.strides).rev() {
                first += rest % extent.max(&1) * stride;
                rest /= extent.max(&1);
            }
            let count = line_end - cell;
            // The values are fewer than 2^32, like the cells of a window.
            indices.extend((0..count).map(|number| (first + number * stride) as u32));
            cell = line_end;
        }
    }
}

impl WindowReader for RepeatedReader {
    fn open(&mut self, window: &Window, _fetched: Option<FetchedBlock>) -> Result<()> {
        self.window = window.ranges().to_vec();
        let within = within(&self.axes, &self.window);
        let holds = |part: &Vec<Range<u64>>| {
            let mut pairs = part.iter().zip(&within);
            pairs.all(|(part, range)| part.start <= range.start && range.end <= part.end)
        };
        if !self.part.as_ref().is_some_and(holds) {
            (self.part, self.values) = (None, None);
            let part = self.whole_chunks(within);
            self.reader.open(&Window::new(part.clone()), None)?;
            self.part = Some(part);
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<bool> {
        if self.values.is_none() && self.reader.advance()? {
            let part = self.part.clone().unwrap_or_default();
            let cells = 0..Window::new(part).cells();
            let values = self.reader.read(std::slice::from_ref(&cells))?;
            self.values = values.into_iter().next();
        }
        Ok(self.values.is_some())
    }

    fn cells(&mut self, _attribute: usize, _range: Range<u64>) -> Result<&[u8]> {
        internal_err!("repeated values have no stored cells")
    }

    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
        let (Some(values), Some(part)) = (&self.values, &self.part) else {
            return internal_err!("the window is not ready");
        };
        let cells = RepeatedCells::new(&self.window, part, &self.axes);
        let count: u64 = runs.iter().map(|run| run.end - run.start).sum();
        let mut indices = Vec::with_capacity(count as usize);
        for run in runs {
            cells.append(run.clone(), &mut indices);
        }
        let column = take(values, &UInt32Array::from(indices), None)?;
        Ok(vec![column; self.copies])
    }

    fn counts(&self) -> ReadCounts {
        self.reader.counts()
    }
}
