//! Reads windows of a grid whose axes and coordinates are in another order.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use datafusion::common::{Result, internal_err, resources_err};

use crate::grid::{Cells, Window};
use crate::provider::scan::grid::sorted::CellOrder;
use crate::provider::source::{FetchedBlock, ReadCounts, SharedChunks, WindowReader};

/// Reads the selected cells of a window in their stored order, and returns them in another one.
pub(super) struct SortedReader {
    reader: Box<dyn WindowReader>,
    order: Arc<CellOrder>,
    /// For each axis of the window and each index along it, the number that a selected cell adds to its index
    /// among the cells that were read.
    terms: Vec<Vec<u32>>,
    /// The cells to read, as runs of the stored window.
    runs: Vec<Range<u64>>,
    /// The selected cells of the window in their stored order, once they are read.
    columns: Option<Vec<ArrayRef>>,
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
        }
    }

    /// Appends the indices, among the cells that were read, of a run of cells of the window.
    fn append(&self, run: Range<u64>, indices: &mut Vec<u32>) {
        let Some((inner, outer)) = self.terms.split_last() else {
            // A grid without axes has one cell.
            return indices.extend(run.map(|cell| cell as u32));
        };
        let length = inner.len() as u64;
        let mut cell = run.start;
        while cell < run.end {
            let (mut line, first) = (cell / length, cell % length);
            let count = (length - first).min(run.end - cell);
            let mut base = 0;
            for terms in outer.iter().rev() {
                let length = terms.len() as u64;
                base += terms[(line % length) as usize];
                line /= length;
            }
            let terms = &inner[first as usize..(first + count) as usize];
            indices.extend(terms.iter().map(|term| base + term));
            cell += count;
        }
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
            strides[axis - 1] = strides[axis] * sets[axis].count() as u32;
        }
        let axes = self.order.axes.iter().zip(window.ranges());
        let terms = axes.map(|((axis, order), ranks)| {
            let (set, stride) = (&sets[*axis], strides[*axis]);
            let rank = |index: u64| set.rank(index) as u32 * stride;
            let indices = ranks.clone().map(|rank| order.index(rank, set.length()));
            // The terms of other indices are not used.
            indices
                .map(|index| if set.contains(index) { rank(index) } else { 0 })
                .collect()
        });
        self.terms = terms.collect();
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
            self.append(run.clone(), &mut indices);
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
        self.reader.counts()
    }
}
