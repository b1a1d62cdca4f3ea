//! A worker: takes chunks, and adds their cells to the results of all groups.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Schema;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;

use crate::grid::reduce::{AxisGroups, Layout, Reduction};
use crate::grid::{Cells, Window};
use crate::provider::aggregate::engine::Accumulated;
use crate::provider::aggregate::job::{Job, JobPart};
use crate::provider::aggregate::known::{Known, known};
use crate::provider::aggregate::program::{Output, Presence};
use crate::provider::mask::mask;
use crate::provider::metrics::ScanMetrics;
use crate::provider::pruning::Pruner;
use crate::provider::source::{ReadCounts, WindowReader};

/// Cells between two times that others may run.
const TURN: u64 = 1 << 18;
/// As many cells is it worth to find that a chunk need not be read.
const LOOK: u64 = 1 << 10;

/// What workers have found so far.
pub(super) struct Found {
    pub reductions: Vec<Reduction>,
    /// Rows of each group, if they have to be counted.
    pub rows: Option<Vec<u64>>,
    /// Of the aggregates that the engine computes.
    pub engine: Vec<Accumulated>,
}

impl Found {
    pub fn new(job: &Job) -> Result<Self> {
        let groups = job.groups.count();
        let program = &job.program;
        let reductions = program.reductions.iter().map(|plan| {
            // Also such as no number is out of: chunks without one may have been left out.
            let bounds = plan.bounds.map(|bounds| bounds.patterns());
            let format = plan.format;
            Reduction::new(format.cell_type, groups, plan.wanted, bounds, format.fill)
        });
        let is_grouped = !job.aggregation.groups.is_empty();
        let engine = program.outputs.iter().zip(&job.aggregation.aggregates);
        Ok(Self {
            reductions: reductions.collect(),
            rows: (program.presence == Presence::Rows).then(|| vec![0; groups]),
            engine: engine
                .filter(|(output, _)| **output == Output::Engine)
                .map(|(_, aggregate)| {
                    Accumulated::for_rows(aggregate, is_grouped, &job.schema, groups)
                })
                .collect::<Result<_>>()?,
        })
    }

    /// Adds what another worker has found.
    pub fn merge(&mut self, mut other: Self, groups: usize) -> Result<()> {
        for (one, other) in self.reductions.iter_mut().zip(&other.reductions) {
            one.merge(other);
        }
        if let (Some(rows), Some(others)) = (&mut self.rows, &other.rows) {
            rows.iter_mut()
                .zip(others)
                .for_each(|(one, other)| *one += other);
        }
        for (one, other) in self.engine.iter_mut().zip(&mut other.engine) {
            let state = other.state()?;
            one.merge(&state, groups)?;
        }
        Ok(())
    }
}

/// Works until no chunk is left, in memory that is reserved for everything but what accumulators take later on.
pub(super) async fn work(
    job: Arc<Job>,
    metrics: ScanMetrics,
    batch_size: usize,
    memory: MemoryReservation,
) -> Result<(Found, MemoryReservation)> {
    let reserved = memory.size();
    let elapsed = metrics.baseline.elapsed_compute().clone();
    let mut worker = Worker {
        found: Found::new(&job)?,
        rows: Rows::try_new(&job, batch_size)?,
        readers: Vec::new(),
        pruner: None,
        open: None,
        is_open: false,
        made_up: 0,
        constant: Vec::new(),
        counts: ReadCounts::default(),
        metrics,
        job,
    };
    let mut since = 0;
    loop {
        let timer = elapsed.timer();
        let Some((part, positions)) = worker.job.take() else {
            return Ok((worker.found, memory));
        };
        let chunks = worker.chunks(part, &positions)?;
        since += positions.len() as u64 * LOOK + std::mem::take(&mut worker.made_up);
        drop(timer);
        if since >= TURN {
            since = 0;
            tokio::task::yield_now().await;
        }
        for batch in chunks {
            let mut next = 0;
            loop {
                let timer = elapsed.timer();
                let is_done = worker.step(&batch, &mut next)?;
                drop(timer);
                if is_done {
                    break;
                }
                tokio::task::yield_now().await;
            }
            if !worker.found.engine.is_empty() {
                let engine = worker.found.engine.iter();
                let grown: usize = engine.map(Accumulated::size).sum();
                memory.try_resize(reserved.max(worker.job.other_bytes().saturating_add(grown)))?;
            }
            since += batch.windows.iter().map(Window::cells).sum::<u64>();
            if since >= TURN {
                since = 0;
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Chunks whose cells have the same layout.
struct Batch {
    part: usize,
    windows: Vec<Window>,
    axes: Vec<AxisGroups>,
    base: usize,
}

struct Worker {
    job: Arc<Job>,
    found: Found,
    rows: Rows,
    /// One per chunk of a batch, all of one part.
    readers: Vec<Box<dyn WindowReader>>,
    /// The number of the part that chunks were last taken of, and what rules some of them out.
    pruner: Option<(usize, Option<Pruner>)>,
    open: Option<usize>,
    /// Whether the next chunk is open but not yet ready.
    is_open: bool,
    /// Cells of them since others last ran.
    made_up: u64,
    /// Cells that all have the same value.
    constant: Vec<u8>,
    counts: ReadCounts,
    metrics: ScanMetrics,
}

impl Worker {
    /// The chunks of a unit that have selected cells and are not known without being read, by their layout.
    fn chunks(&mut self, number: usize, positions: &[u64]) -> Result<Vec<Batch>> {
        let job = Arc::clone(&self.job);
        let part = &job.parts[number];
        let mut batches: Vec<Batch> = Vec::new();
        if self.pruner.as_ref().is_none_or(|(of, _)| *of != number) {
            self.pruner = Some((number, job.pruner(part)?));
        }
        for position in positions {
            if let Some((_, Some(pruner))) = &mut self.pruner
                && !pruner.keeps(*position, *position + 1)?
            {
                self.metrics.add_pruned();
                continue;
            }
            let chunk = part.blocks.chunk(*position)?;
            let window = part.part.grid.chunk_grid().window(&chunk);
            let (axes, base) = job
                .groups
                .of_window(part.number, &part.part.selection, &window);
            if axes.iter().any(|axis| axis.selected.is_empty()) {
                // By a predicate that was not known when the scan was planned.
                self.metrics.add_pruned();
                continue;
            }
            if self.add_known(part, &window, &axes, base)? {
                self.metrics.add_known();
                continue;
            }
            match batches.last_mut() {
                Some(last) if last.axes == axes && last.base == base => last.windows.push(window),
                _ => batches.push(Batch {
                    part: number,
                    windows: vec![window],
                    axes,
                    base,
                }),
            }
        }
        Ok(batches)
    }

    /// Adds what is known of a chunk without reading it. Returns whether that is all.
    fn add_known(
        &mut self,
        part: &JobPart,
        window: &Window,
        axes: &[AxisGroups],
        base: usize,
    ) -> Result<bool> {
        if self.job.program.needs_rows() || !part.is_known.iter().all(|is_known| *is_known) {
            return Ok(false);
        }
        let plans = &self.job.program.reductions;
        let mut all = Vec::with_capacity(part.reductions.len());
        for number in &part.reductions {
            match known(&plans[*number], part, window, axes, base, &self.job.options)? {
                Some(known) => all.push(known),
                None => return Ok(false),
            }
        }
        if all.is_empty() {
            return Ok(false);
        }
        for (known, number) in all.into_iter().zip(&part.reductions) {
            let plan = &plans[*number];
            let reduction = &mut self.found.reductions[*number];
            match known {
                Known::Nothing => {}
                Known::OfGroup {
                    group,
                    extremes,
                    count,
                    missing,
                } => reduction.add_known(group, extremes, count, missing),
                Known::Constant(pattern) => {
                    let layout = Layout::new(axes, base);
                    let cells = layout.span.end - layout.span.start;
                    let bytes = pattern.to_le_bytes();
                    let cell = &bytes[..plan.format.cell_type.size()];
                    self.constant = cell.repeat(cells as usize);
                    self.made_up += cells;
                    reduction.add(&[&self.constant], &layout);
                }
            }
        }
        Ok(true)
    }

    /// Does a bounded piece of the work on a batch. `next` counts the chunks that are ready. Returns whether it is done.
    fn step(&mut self, batch: &Batch, next: &mut usize) -> Result<bool> {
        let part = &self.job.parts[batch.part];
        if self.open != Some(batch.part) {
            self.readers.clear();
            self.counts = ReadCounts::default();
            self.open = Some(batch.part);
        }
        if !part.attributes.is_empty() && *next < batch.windows.len() {
            if self.readers.len() == *next {
                let grid = &part.part.grid;
                let reader = grid.window_reader(&part.attributes, &self.job.options)?;
                self.readers.push(reader);
            }
            let reader = &mut self.readers[*next];
            if !self.is_open {
                let window = &batch.windows[*next];
                reader.open(window)?;
                if Cells::new(window, &part.part.selection).are_most_of(window) {
                    reader.read_ahead();
                }
                self.is_open = true;
            }
            if !reader.advance()? {
                return Ok(false);
            }
            self.is_open = false;
            *next += 1;
            if *next < batch.windows.len() {
                return Ok(false);
            }
        }
        let is_done = self.add(batch)?;
        let counts = self.readers.iter().map(|reader| reader.counts()).sum();
        self.metrics.add(self.counts, counts);
        self.counts = counts;
        Ok(is_done)
    }

    fn add(&mut self, batch: &Batch) -> Result<bool> {
        let job = &self.job;
        let part = &job.parts[batch.part];
        if self.rows.next == 0 && !part.reductions.is_empty() {
            let layout = Layout::new(&batch.axes, batch.base);
            for number in &part.reductions {
                let plan = &job.program.reductions[*number];
                let reduction = &mut self.found.reductions[*number];
                let attribute = part.attributes.iter().position(|a| *a == plan.attribute);
                let Some(attribute) = attribute else {
                    return internal_err!("an attribute is not read");
                };
                let readers = self.readers.iter_mut().take(batch.windows.len());
                let sources = readers.map(|reader| reader.cells(attribute, layout.span.clone()));
                reduction.add(&sources.collect::<Result<Vec<_>>>()?, &layout);
            }
        }
        if !job.program.needs_rows() {
            return Ok(true);
        }
        let [window] = batch.windows.as_slice() else {
            return internal_err!("rows are looked at of one chunk after another");
        };
        let reader = self.readers.first_mut();
        self.rows.add(job, batch, window, reader, &mut self.found)
    }
}

/// The arguments of an aggregate, and its filter.
struct Operands {
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
}

/// What is done row by row.
struct Rows {
    batch_size: usize,
    /// Of the columns that are needed.
    schema: Arc<Schema>,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    /// What each aggregate that the engine computes is computed of.
    aggregates: Vec<Operands>,
    /// The selected cells of the chunk that is worked on, and the next row of it.
    cells: Option<Cells>,
    next: u64,
    groups: Vec<usize>,
}

impl Rows {
    fn try_new(job: &Job, batch_size: usize) -> Result<Self> {
        let schema = Arc::new(job.schema.project(&job.row_columns)?);
        let bind = |expr: &Arc<dyn PhysicalExpr>| reassign_expr_columns(Arc::clone(expr), &schema);
        let aggregates = job.program.outputs.iter().zip(&job.aggregation.aggregates);
        let aggregates = aggregates
            .filter(|(output, _)| **output == Output::Engine)
            .map(|(_, aggregate)| {
                let arguments = aggregate.arguments.iter().map(bind);
                let filter = aggregate.filter.as_ref().map(bind);
                Ok(Operands {
                    arguments: arguments.collect::<Result<_>>()?,
                    filter: filter.transpose()?,
                })
            });
        Ok(Self {
            batch_size,
            predicate: job.program.predicate.as_ref().map(bind).transpose()?,
            aggregates: aggregates.collect::<Result<_>>()?,
            cells: None,
            next: 0,
            groups: Vec::new(),
            schema,
        })
    }

    /// Adds some more rows of a chunk. Returns whether these were the last.
    fn add(
        &mut self,
        job: &Job,
        batch: &Batch,
        window: &Window,
        reader: Option<&mut Box<dyn WindowReader>>,
        found: &mut Found,
    ) -> Result<bool> {
        let part = &job.parts[batch.part].part;
        let cells = self
            .cells
            .get_or_insert_with(|| Cells::new(window, &part.selection));
        let end = cells.rows().min(self.next + self.batch_size as u64);
        let rows = self.next..end;
        let count = (rows.end - rows.start) as usize;
        let mut values = Vec::new();
        if let Some(reader) = reader {
            let mut runs = Vec::new();
            cells.runs(rows.clone(), &mut runs);
            values = reader.read(&runs)?;
        }
        let axes = part.grid.axes();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(job.row_columns.len());
        for column in &job.row_columns {
            let attribute = column.checked_sub(axes.len());
            let attribute = attribute.and_then(|a| job.attributes.iter().position(|b| *b == a));
            columns.push(match (axes.get(*column), attribute, &part.file) {
                (Some(axis), ..) => {
                    cells.coordinates(*column, axis.coordinates()?, rows.clone())?
                }
                (None, Some(attribute), _) => Arc::clone(&values[attribute]),
                (None, None, Some(file)) => {
                    ScalarValue::try_from_array(file, 0)?.to_array_of_size(count)?
                }
                (None, None, None) => return internal_err!("column {column} is not read"),
            });
        }
        self.groups.clear();
        self.groups.resize(count, batch.base);
        for (axis, groups) in batch.axes.iter().enumerate() {
            if let Some(terms) = &groups.terms {
                cells.add_terms(axis, terms, rows.clone(), &mut self.groups);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&self.schema);
        let mut some = RecordBatch::try_new_with_options(schema, columns, &options)?;
        if let Some(predicate) = &self.predicate {
            let mask = mask(predicate, &some)?;
            some = filter_record_batch(&some, &mask)?;
            let mut kept = mask.values().iter();
            self.groups.retain(|_| kept.next().unwrap_or(false));
        }
        if let Some(rows) = &mut found.rows {
            self.groups.iter().for_each(|group| rows[*group] += 1);
        }
        if some.num_rows() > 0 {
            let total = job.groups.count();
            for (operands, accumulated) in self.aggregates.iter().zip(&mut found.engine) {
                let arguments = operands
                    .arguments
                    .iter()
                    .map(|argument| argument.evaluate(&some)?.into_array(some.num_rows()));
                let arguments = arguments.collect::<Result<Vec<_>>>()?;
                let filter = operands
                    .filter
                    .as_ref()
                    .map(|filter| mask(filter, &some))
                    .transpose()?;
                accumulated.update(&arguments, &self.groups, filter.as_ref(), total)?;
            }
        }
        self.next = end;
        if end < cells.rows() {
            return Ok(false);
        }
        self.next = 0;
        self.cells = None;
        Ok(true)
    }
}
