//! Reads windows of an array on the axes of another grid.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use datafusion::common::Result;

use crate::grid::Window;
use crate::provider::join::lookup::keys::KeyTerms;
use crate::provider::join::lookup::term_lines::TermLines;
use crate::provider::join::reindexed::part::Part;
use crate::provider::source::{FetchedBlock, ReadCounts, SharedChunks, WindowReader};

/// Reads, for each window of the other grid, the [`Part`] of the array that it needs.
pub(super) struct ReindexedReader {
    values: Box<dyn WindowReader>,
    positions: Arc<[KeyTerms]>,
    /// The lengths of the axes of the other grid, and of the array.
    lengths: [Vec<u64>; 2],
    /// The terms of the current part; `None` if cells and matches have the same numbers.
    terms: Option<Vec<KeyTerms>>,
    lines: TermLines,
    /// The number of cells of the current part.
    cells: u64,
    /// All cells of the current part, once they are needed.
    whole: Option<Vec<ArrayRef>>,
    /// The stored cells that were returned last.
    bytes: Vec<u8>,
}

impl ReindexedReader {
    pub fn new(
        values: Box<dyn WindowReader>,
        positions: Arc<[KeyTerms]>,
        lengths: [Vec<u64>; 2],
    ) -> Self {
        Self {
            values,
            positions,
            lengths,
            terms: None,
            lines: TermLines::default(),
            cells: 0,
            whole: None,
            bytes: Vec::new(),
        }
    }

    /// Returns the cells of the part that match the cells of these runs, in their order.
    fn matches(&mut self, runs: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut matches: Vec<Range<u64>> = Vec::new();
        let mut add = |first: u64, count: u64| match matches.last_mut() {
            Some(last) if last.end == first => last.end += count,
            _ => matches.push(first..first + count),
        };
        let terms = self.terms.as_deref().unwrap_or_default();
        for run in runs {
            self.lines.visit(terms, run.clone(), |line| {
                let base = u64::from(line.base);
                match line.along {
                    Some(along) => {
                        let consecutive = along.chunk_by(|one, next| one + 1 == *next);
                        consecutive
                            .for_each(|terms| add(base + u64::from(terms[0]), terms.len() as u64));
                    }
                    None => (0..line.count).for_each(|_| add(base, 1)),
                }
            });
        }
        matches
    }
}

impl WindowReader for ReindexedReader {
    fn share_decoded(&mut self, chunks: &Arc<SharedChunks>) -> Result<()> {
        self.values.share_decoded(chunks)
    }

    fn open(&mut self, window: &Window, fetched: Option<FetchedBlock>) -> Result<()> {
        let [lengths, own] = &self.lengths;
        let part = Part::try_new(&self.positions, lengths, window, own)?;
        let extents: Vec<u64> = window.shape().collect();
        let all = extents.iter().map(|extent| 0..*extent).collect();
        self.lines = TermLines::new(extents, all);
        self.terms = part.terms;
        self.cells = part.window.cells();
        self.whole = None;
        self.values.open(&part.window, fetched)
    }

    fn read_ahead(&mut self) {
        self.values.read_ahead();
    }

    fn advance(&mut self) -> Result<bool> {
        self.values.advance()
    }

    fn cells(&mut self, attribute: usize, range: Range<u64>) -> Result<&[u8]> {
        if self.terms.is_none() {
            return self.values.cells(attribute, range);
        }
        let count = (range.end - range.start) as usize;
        let matches = self.matches(std::slice::from_ref(&range));
        self.bytes.clear();
        let first = matches.iter().map(|run| run.start).min().unwrap_or(0);
        let last = matches.iter().map(|run| run.end).max().unwrap_or(0);
        let found = self.values.cells(attribute, first..last)?;
        let size = found.len() / ((last - first) as usize).max(1);
        self.bytes.reserve(count * size);
        for run in matches {
            let [start, end] = [run.start, run.end].map(|cell| (cell - first) as usize * size);
            self.bytes.extend_from_slice(&found[start..end]);
        }
        Ok(&self.bytes)
    }

    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
        if self.terms.is_none() {
            return self.values.read(runs);
        }
        let matches = self.matches(runs);
        if matches.windows(2).all(|two| two[0].end <= two[1].start) {
            return self.values.read(&matches);
        }
        let whole = match &self.whole {
            Some(whole) => whole,
            None => {
                let all = 0..self.cells;
                let whole = self.values.read(std::slice::from_ref(&all))?;
                self.whole.insert(whole)
            }
        };
        let cells = matches.into_iter().flatten().map(|cell| cell as u32);
        let cells = UInt32Array::from_iter_values(cells);
        let columns = whole.iter();
        columns
            .map(|column| Ok(take(column, &cells, None)?))
            .collect()
    }

    fn counts(&self) -> ReadCounts {
        self.values.counts()
    }
}
