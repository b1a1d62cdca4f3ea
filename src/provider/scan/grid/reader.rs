//! Reads the selected cells of a grid, chunk by chunk.

use std::cell::LazyCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::FilterBuilder;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;

use crate::grid::{Cells, CoordinateColumns, KeptPattern, KeptRows, kept_ranges, prefix_keeping};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::cell_predicate::CellPredicate;
use crate::provider::scan::grid::blocks::GridBlocks;
use crate::provider::source::{
    BlockReader, EvaluatedRows, FetchedBlock, ReadCounts, SharedChunks, WindowReader,
};

/// Cells are tested as stored if there are at least this many in a run on average.
const MIN_CELLS_PER_RUN: u64 = 32;
/// The minimum number of rows that are tested at once, unless the block ends earlier. Their cells are enough
/// for the streams of [`CellFilter`](crate::grid::CellFilter), and stay in the cache until the batches read them.
const MIN_TESTED_ROWS: u64 = 1 << 16;

/// Reads the blocks of a grid. Reads no chunk if no column is an attribute.
pub(crate) struct GridReader {
    blocks: GridBlocks,
    columns: Vec<usize>,
    max_rows: u64,
    values: Option<Box<dyn WindowReader>>,
    cells: Option<Cells>,
    coordinates: CoordinateColumns,
    runs: Vec<Range<u64>>,
    /// The predicate of [`BlockReader::evaluate`] as filters of cells, once it was called; `None`
    /// inside if there are none.
    predicate: Option<Option<CellPredicate>>,
    /// The range of rows tested last, and a mask of the rows in it that pass the cell filters, without the rest of
    /// the predicate.
    tested: Option<(Range<u64>, BooleanArray)>,
    options: ReadOptions,
}

impl GridReader {
    /// Creates a reader of these columns. At most `max_rows` rows of a batch are kept.
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
            predicate: None,
            tested: None,
            options: *options,
        })
    }

    /// Reads the few rows of a range that are kept, one by one; `None` if the range has 2^32 rows or more.
    fn read_sparse(
        &mut self,
        rows: Range<u64>,
        kept: &BooleanArray,
    ) -> Result<Option<Vec<ArrayRef>>> {
        let few = KeptRows::new(rows, kept);
        let (Some(cells), Some(few)) = (&self.cells, few) else {
            return Ok(None);
        };
        let mut values = Vec::new();
        if let Some(reader) = &mut self.values {
            values = reader.gather(&few.cells(cells))?;
        }
        let axes = self.blocks.grid().axes();
        let lines = LazyCell::new(|| few.lines(cells));
        let mut values = values.into_iter();
        let columns = self.columns.iter().map(|column| {
            let column = match axes.get(*column) {
                Some(axis) => match lines.as_ref() {
                    Some(lines) => Some(lines.coordinates(cells, *column, axis.coordinates()?)?),
                    None => None,
                },
                None => values.next(),
            };
            match column {
                Some(column) => Ok(column),
                None => internal_err!("a reader has too few columns for kept rows"),
            }
        });
        columns.collect::<Result<_>>().map(Some)
    }
}

impl BlockReader for GridReader {
    fn share_decoded(&mut self, chunks: &Arc<SharedChunks>) -> Result<()> {
        match &mut self.values {
            Some(values) => values.share_decoded(chunks),
            None => Ok(()),
        }
    }

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
        self.tested = None;
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
        let Some(cells) = &self.cells else {
            return first..first;
        };
        let batch = self.coordinates.batch(cells, first, self.max_rows);
        // Every batch has a fixed cost, so a batch ends where `max_rows` of its rows are kept, or the tested rows end.
        if let Some((tested, kept)) = &self.tested
            && tested.contains(&first)
        {
            let start = (first - tested.start) as usize;
            let left = kept.slice(start, kept.len() - start);
            if !left.has_true() {
                return first..tested.end;
            }
            let of_batch = left.slice(0, left.len().min((batch.end - first) as usize));
            if of_batch.has_false() && KeptPattern::of(&left) != KeptPattern::Mixed {
                return first..first + prefix_keeping(&left, self.max_rows as usize) as u64;
            }
        }
        batch
    }

    fn evaluate(
        &mut self,
        rows: Range<u64>,
        predicate: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<EvaluatedRows>> {
        let (Some(cells), Some(values)) = (&self.cells, &mut self.values) else {
            return Ok(None);
        };
        let columns = &self.columns;
        let grid = self.blocks.grid();
        let attribute = |column: usize| columns[column].checked_sub(grid.axes().len());
        let predicate = match &mut self.predicate {
            Some(known) => known,
            unknown => unknown.insert(CellPredicate::try_new(predicate, |column| {
                grid.cell_format(attribute(column)?, &self.options)
            })?),
        };
        let Some(predicate) = predicate else {
            return Ok(None);
        };
        let is_within = |(tested, _): &&(Range<u64>, BooleanArray)| {
            tested.start <= rows.start && rows.end <= tested.end
        };
        let (tested, kept) = match self.tested.as_ref().filter(is_within) {
            Some(known) => known,
            None => {
                self.runs.clear();
                cells.runs(rows.clone(), &mut self.runs);
                if self.runs.len() as u64 * MIN_CELLS_PER_RUN > rows.end - rows.start {
                    return Ok(None);
                }
                let end = rows.start.saturating_add(MIN_TESTED_ROWS).min(cells.rows());
                let tested = rows.start..end.max(rows.end);
                self.runs.clear();
                cells.runs(tested.clone(), &mut self.runs);
                let kept = predicate.evaluate(|column, filter, kept| {
                    // The reader has only the attributes among the columns.
                    let before = columns[..column].iter();
                    let number = before
                        .filter(|column| **column >= grid.axes().len())
                        .count();
                    for run in &self.runs {
                        filter.test(values.cells(number, run.clone())?, kept);
                    }
                    Ok(())
                })?;
                self.tested.insert((tested, kept))
            }
        };
        let first = (rows.start - tested.start) as usize;
        let kept = kept.slice(first, (rows.end - rows.start) as usize);
        Ok(Some(EvaluatedRows {
            kept,
            rest: predicate.rest.clone(),
        }))
    }

    fn read(&mut self, rows: Range<u64>, kept: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let kept = kept.filter(|kept| kept.has_false());
        let pattern = kept.map(KeptPattern::of).map(|pattern| match pattern {
            // No more rows are built than a batch has.
            KeptPattern::Mixed if rows.end - rows.start > self.max_rows => KeptPattern::Scattered,
            pattern => pattern,
        });
        if let (Some(kept), Some(KeptPattern::Scattered)) = (kept, pattern)
            && let Some(columns) = self.read_sparse(rows.clone(), kept)?
        {
            return Ok(columns);
        }
        let ranges = match (kept, pattern) {
            (Some(kept), Some(KeptPattern::Ranges)) => Some(kept_ranges(&rows, kept)),
            _ => None,
        };
        let Some(cells) = &self.cells else {
            return internal_err!("no block is open");
        };
        let mut values = Vec::new();
        if let Some(reader) = &mut self.values {
            self.runs.clear();
            for range in ranges.as_deref().unwrap_or(std::slice::from_ref(&rows)) {
                cells.runs(range.clone(), &mut self.runs);
            }
            values = reader.read(&self.runs)?;
        }
        let filter = kept.filter(|_| ranges.is_none()).map(|kept| {
            let mut filter = FilterBuilder::new(kept);
            if self.columns.len() > 1 {
                filter = filter.optimize();
            }
            filter.build()
        });
        let mut values = values.into_iter();
        let axes = self.blocks.grid().axes();
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let all = match axes.get(*column) {
                Some(axis) => {
                    let coordinates = axis.coordinates()?;
                    match &ranges {
                        Some(ranges) => {
                            cells.coordinates_of_ranges(*column, coordinates, ranges)?
                        }
                        None => {
                            let (rows, max_rows) = (rows.clone(), self.max_rows);
                            self.coordinates
                                .column(cells, *column, coordinates, rows, max_rows)?
                        }
                    }
                }
                None => match values.next() {
                    Some(values) => values,
                    None => return internal_err!("a window reader gave too few attributes"),
                },
            };
            columns.push(match &filter {
                Some(filter) => filter.filter(&all)?,
                None => all,
            });
        }
        Ok(columns)
    }

    fn counts(&self) -> ReadCounts {
        self.values
            .as_ref()
            .map(|values| values.counts())
            .unwrap_or_default()
    }
}
