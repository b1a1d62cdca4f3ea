//! Reads windows of a grid whose axes and coordinates are in another order.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use datafusion::common::{Result, internal_err, resources_err};

use crate::grid::{Cells, IndexOrder, IndexSet, Window};
use crate::provider::scan::grid::sorted::CellOrder;
use crate::provider::source::{FetchedBlock, ReadCounts, SharedChunks, WindowReader};

/// Reads the selected cells of a window in their stored order, and returns them in another one.
pub(super) struct SortedReader {
    reader: Box<dyn WindowReader>,
    order: Arc<CellOrder>,
    /// The terms of the indices of cells among those that were read, for each axis of the window.
    terms: Vec<AxisTerms>,
    /// The cells to read, as runs of the stored window.
    runs: Vec<Range<u64>>,
    /// The selected cells of the window in their stored order, once they are read.
    columns: Option<Vec<ArrayRef>>,
    /// The number of windows that were opened. They take the place of chunks in the metrics.
    windows: u64,
}

/// The numbers that the indices along an axis add to the index of a cell among those that were read.
struct AxisTerms {
    /// The length of the window along the axis.
    length: u64,
    /// The first selected index of the window.
    first: u64,
    /// The terms of the indices from the first selected to the last.
    terms: Vec<u32>,
}

impl AxisTerms {
    /// Returns the terms of the selected indices `set` along an axis, in an order of these indices. The window contains those
    /// with these ranks in the order.
    fn new(order: &IndexOrder, ranks: &Range<u64>, set: &IndexSet, stride: u32) -> Self {
        let index = |rank: u64| order.index(rank, set.length());
        let is_selected = |rank: &u64| set.contains(index(*rank));
        let bounds = match (order, set.first(), set.last()) {
            (IndexOrder::Stored, Some(first), Some(last)) => first..last + 1,
            (IndexOrder::Reversed, Some(first), Some(last)) => {
                set.length() - 1 - last..set.length() - first
            }
            _ => {
                let first = ranks.clone().find(is_selected);
                let last = ranks.clone().rev().find(is_selected);
                first.unwrap_or(ranks.start)..last.map_or(ranks.start, |last| last + 1)
            }
        };
        // The terms of other indices are not used.
        let terms = bounds.clone().map(index);
        let terms = terms.map(|index| match set.contains(index) {
            true => set.rank(index) as u32 * stride,
            false => 0,
        });
        Self {
            length: ranks.end - ranks.start,
            first: bounds.start.saturating_sub(ranks.start),
            terms: terms.collect(),
        }
    }

    /// Returns the terms of these indices of the window; `None` if they are not selected.
    fn get(&self, indices: Range<u64>) -> Option<&[u32]> {
        let start = indices.start.checked_sub(self.first)?;
        let end = indices.end.checked_sub(self.first)?;
        self.terms.get(start as usize..end as usize)
    }
}

impl SortedReader {
    /// Creates a reader of the cells that `reader` reads.
    pub fn new(reader: Box<dyn WindowReader>, order: &Arc<CellOrder>) -> Self {
        Self {
            reader,
            order: Arc::clone(order),
            terms: Vec::new(),
            runs: Vec::new(),
            columns: None,
            windows: 0,
        }
    }

    /// Appends the indices, among the cells that were read, of a run of cells of the window. Returns `None` if one is not
    /// selected.
    fn append(&self, run: Range<u64>, indices: &mut Vec<u32>) -> Option<()> {
        let Some((inner, outer)) = self.terms.split_last() else {
            // A grid without axes has one cell.
            indices.extend(run.map(|cell| cell as u32));
            return Some(());
        };
        let mut cell = run.start;
        while cell < run.end {
            let (mut line, first) = (cell / inner.length, cell % inner.length);
            let count = (inner.length - first).min(run.end - cell);
            let mut base = 0;
            for axis in outer.iter().rev() {
                let index = line % axis.length;
                base += axis.get(index..index + 1)?.first()?;
                line /= axis.length;
            }
            let terms = inner.get(first..first + count)?;
            indices.extend(terms.iter().map(|term| base + term));
            cell += count;
        }
        Some(())
    }
}

impl WindowReader for SortedReader {
    fn open(&mut self, window: &Window, fetched: Option<FetchedBlock>) -> Result<()> {
        self.columns = None;
        let (stored, selection) = self.order.stored(window);
        let cells = Cells::new(&stored, &selection);
        if u32::try_from(cells.rows()).is_err() {
            return resources_err!("a window of a sorted array has {} cells", cells.rows());
        }
        self.runs.clear();
        cells.runs(0..cells.rows(), &mut self.runs);
        let sets = selection.axes();
        let mut strides = vec![1u32; sets.len()];
        for axis in (1..sets.len()).rev() {
            // Smaller than the number of cells, unless there are none.
            strides[axis - 1] = strides[axis].saturating_mul(sets[axis].count() as u32);
        }
        let axes = self.order.axes.iter().zip(window.ranges());
        let terms = axes.map(|((axis, order), ranks)| match cells.rows() {
            0 => AxisTerms::new(order, ranks, &IndexSet::none(sets[*axis].length()), 0),
            _ => AxisTerms::new(order, ranks, &sets[*axis], strides[*axis]),
        });
        self.terms = terms.collect();
        self.windows += 1;
        self.reader.open(&stored, fetched)
    }

    fn share_decoded(&mut self, chunks: &Arc<SharedChunks>) -> Result<()> {
        self.reader.share_decoded(chunks)
    }

    fn advance(&mut self) -> Result<bool> {
        if self.columns.is_none() && self.reader.advance()? {
            self.columns = Some(self.reader.read(&self.runs)?);
        }
        Ok(self.columns.is_some())
    }

    fn cells(&mut self, _attribute: usize, _range: Range<u64>) -> Result<&[u8]> {
        internal_err!("sorted cells are not stored")
    }

    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
        let Some(columns) = &self.columns else {
            return internal_err!("the window is not ready");
        };
        let count: u64 = runs.iter().map(|run| run.end - run.start).sum();
        let mut indices = Vec::with_capacity(count as usize);
        for run in runs {
            if self.append(run.clone(), &mut indices).is_none() {
                return internal_err!("cells that are not selected were read in another order");
            }
        }
        if indices.is_sorted_by(|one, next| one + 1 == *next)
            && let Some(first) = indices.first()
        {
            let slice = |column: &ArrayRef| column.slice(*first as usize, indices.len());
            return Ok(columns.iter().map(slice).collect());
        }
        let indices = UInt32Array::from(indices);
        let columns = columns.iter().map(|column| take(column, &indices, None));
        Ok(columns.collect::<Result<_, _>>()?)
    }

    fn counts(&self) -> ReadCounts {
        ReadCounts {
            chunks: self.windows,
            ..self.reader.counts()
        }
    }
}
