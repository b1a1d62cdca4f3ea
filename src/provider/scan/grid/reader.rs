//! Reads the selected cells of a grid, chunk by chunk.

use std::cell::LazyCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::FilterBuilder;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;

use crate::grid::{Cells, CoordinateColumns, KeptPattern, KeptRows, ScatteredRows};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::cell_predicate::CellPredicate;
use crate::provider::scan::grid::blocks::GridBlocks;
use crate::provider::source::{
    BlockReader, EvaluatedRows, FetchedBlock, ReadCounts, SharedChunks, WindowReader,
};

/// Cells are tested as stored if there are at least this many in a run on average.
const MIN_CELLS_PER_RUN: u64 = 32;
/// The minimum number of rows that are tested at once, unless the block ends earlier. Their cells are enough
/// for the streams of [`CellFilter`](crate::grid::CellFilter), and few enough to stay in the cache until batches read them.
const MIN_TESTED_ROWS: u64 = 1 << 16;
/// The maximum number of rows that are tested at once, unless a batch has more.
const MAX_TESTED_ROWS: u64 = 1 << 20;

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
    /// The rows that were tested last, of which those that pass the cell filters are kept.
    tested: Option<KeptRows>,
    /// The number of rows to test next. It is doubled while too few are kept to fill a batch, and halved while too many are.
    rows_to_test: u64,
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
            rows_to_test: MIN_TESTED_ROWS,
            options: *options,
        })
    }

    /// Reads the few rows of a range that are kept, one by one; `None` if the range has 2^32 rows or more.
    fn read_scattered(&mut self, kept: &KeptRows) -> Result<Option<Vec<ArrayRef>>> {
        let scattered = ScatteredRows::new(kept);
        let (Some(cells), Some(scattered)) = (&self.cells, scattered) else {
            return Ok(None);
        };
        let mut values = Vec::new();
        if let Some(reader) = &mut self.values {
            values = reader.gather(&scattered.cells(cells))?;
        }
        let axes = self.blocks.grid().axes();
        let lines = LazyCell::new(|| scattered.lines(cells));
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
        self.coordinates.batch(cells, first, self.max_rows)
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
        let is_within =
            |tested: &&KeptRows| tested.rows().start <= rows.start && rows.end <= tested.rows().end;
        let tested = match self.tested.as_ref().filter(is_within) {
            Some(known) => known,
            None => {
                self.runs.clear();
                cells.runs(rows.clone(), &mut self.runs);
                if self.runs.len() as u64 * MIN_CELLS_PER_RUN > rows.end - rows.start {
                    return Ok(None);
                }
                let end = rows
                    .start
                    .saturating_add(self.rows_to_test)
                    .min(cells.rows());
                let rows = rows.start..end.max(rows.end);
                self.runs.clear();
                cells.runs(rows.clone(), &mut self.runs);
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
                let tested = self.tested.insert(KeptRows::new(rows, kept));
                let count = tested.count() as u64;
                if 4 * count < 3 * self.max_rows {
                    self.rows_to_test = (2 * self.rows_to_test).min(MAX_TESTED_ROWS);
                } else if count > 2 * self.max_rows {
                    self.rows_to_test = (self.rows_to_test / 2).max(MIN_TESTED_ROWS);
                }
                tested
            }
        };
        // Every batch has a fixed cost, so the kept rows are divided evenly among as few batches as possible. If all rows
        // are built before they are filtered, or none is left out, `rows` suits the reader.
        let mask = tested.mask_of(&rows);
        let kept = match tested.pattern() {
            KeptPattern::Ranges(_) | KeptPattern::Scattered if mask.has_false() => {
                let batches = tested.count().div_ceil(self.max_rows as usize).max(1);
                tested.first_kept(rows.start, tested.count().div_ceil(batches).max(1))
            }
            _ => KeptRows::new(rows, mask),
        };
        Ok(Some(EvaluatedRows {
            kept,
            rest: predicate.rest.clone(),
        }))
    }

    fn read(&mut self, rows: Range<u64>, kept: Option<&KeptRows>) -> Result<Vec<ArrayRef>> {
        let length = rows.end - rows.start;
        let kept = kept.filter(|kept| (kept.count() as u64) < length);
        let pattern = kept.map(|kept| match kept.pattern() {
            // No more rows are built than a batch has.
            KeptPattern::Mixed if length > self.max_rows => &KeptPattern::Scattered,
            pattern => pattern,
        });
        if let (Some(kept), Some(KeptPattern::Scattered)) = (kept, pattern)
            && let Some(columns) = self.read_scattered(kept)?
        {
            return Ok(columns);
        }
        let ranges = match pattern {
            Some(KeptPattern::Ranges(ranges)) => Some(ranges),
            _ => None,
        };
        let Some(cells) = &self.cells else {
            return internal_err!("no block is open");
        };
        let mut values = Vec::new();
        if let Some(reader) = &mut self.values {
            self.runs.clear();
            for range in ranges.map_or(std::slice::from_ref(&rows), Vec::as_slice) {
                cells.runs(range.clone(), &mut self.runs);
            }
            values = reader.read(&self.runs)?;
        }
        let filter = kept.filter(|_| ranges.is_none()).map(|kept| {
            let mut filter = FilterBuilder::new(kept.mask());
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
