//! A worker takes chunks and adds their cells to its partial state of all groups.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;

use crate::grid::reduce::{AxisGroups, GroupCounts, Layout, MaskedCells};
use crate::grid::{Cells, Window};
use crate::provider::aggregate::exec::chunk_statistics::{ChunkContribution, known};
use crate::provider::aggregate::exec::job::{GridJob, Job};
use crate::provider::aggregate::exec::partial_states::PartialState;
use crate::provider::aggregate::exec::row_evaluation::{RowEvaluation, RowsOfChunk};
use crate::provider::planning::pruning::Pruner;
use crate::provider::scan::in_flight::{InFlight, PendingBlock};
use crate::provider::scan::metrics::ScanMetrics;
use crate::provider::source::{FetchedBlock, ReadCounts, WindowReader};

/// The number of cells between two yields to the scheduler.
const TURN: u64 = 1 << 18;
/// The cost of finding out that a chunk need not be read, in cells.
const SKIP_COST: u64 = 1 << 10;
/// The number of rows between two measurements of the accumulators' size. With more groups than
/// this, the number of groups.
const GROWTH: u64 = 1 << 16;

/// Processes units until none is left, as one of `workers` workers. `memory` is reserved for everything but the growth of
/// DataFusion's accumulators.
pub(crate) async fn work(
    job: Arc<Job>,
    workers: usize,
    metrics: ScanMetrics,
    batch_size: usize,
    memory: MemoryReservation,
) -> Result<(PartialState, MemoryReservation)> {
    let elapsed = metrics.baseline.elapsed_compute().clone();
    let mut found = PartialState::new(&job)?;
    found.expect_rows(&job, workers, &memory);
    let mut worker = Worker {
        found,
        rows: RowEvaluation::try_new(&job, batch_size)?,
        readers: Vec::new(),
        masked: Vec::new(),
        pruner: None,
        open: None,
        is_open: false,
        known_groups: 0,
        counts: ReadCounts::default(),
        metrics,
        reserved: memory.size(),
        job,
    };
    // Computing the size of the accumulators takes time proportional to the number of groups.
    let often = GROWTH.max(worker.job.groups.count() as u64);
    let mut since = 0;
    let mut in_flight = InFlight::new(memory.new_empty());
    let mut taken: VecDeque<Batch> = VecDeque::new();
    loop {
        in_flight.release();
        // Remote chunks are fetched ahead, and others are taken when they are read.
        while taken.back().is_none_or(Batch::is_fetched) && in_flight.has_room() {
            let timer = elapsed.timer();
            let Some((part, positions)) = worker.job.take() else {
                break;
            };
            let mut batches = worker.chunks(part, &positions)?;
            for batch in &mut batches {
                worker.job.fetch(batch, &mut in_flight)?;
            }
            taken.extend(batches);
            since += positions.len() as u64 * SKIP_COST + std::mem::take(&mut worker.known_groups);
            drop(timer);
            if since >= TURN {
                since = 0;
                tokio::task::yield_now().await;
            }
        }
        let Some(mut batch) = taken.pop_front() else {
            worker.account_for(&memory)?;
            return Ok((worker.found, memory));
        };
        let mut fetched = Vec::with_capacity(batch.pending.len());
        for number in 0..batch.pending.len() {
            in_flight.start_waiting(&mut batch.pending[number..])?;
            let pending = std::mem::replace(&mut batch.pending[number], PendingBlock::InPlace);
            fetched.push(in_flight.arrive(pending).await?);
        }
        worker.metrics.add_wait(in_flight.take_wait());
        let mut next = 0;
        loop {
            let timer = elapsed.timer();
            let is_done = worker.step(&batch, &mut fetched, &mut next)?;
            if worker.rows.added >= often {
                worker.account_for(&memory)?;
            }
            drop(timer);
            if is_done {
                break;
            }
            tokio::task::yield_now().await;
        }
        since += batch.windows.iter().map(Window::cells).sum::<u64>();
        if since >= TURN {
            since = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Chunks of one [`GridJob`] whose cells have the same layout.
struct Batch {
    part: usize,
    windows: Vec<Window>,
    groups: ChunkGroups,
    /// The stored bytes of each window.
    pending: Vec<PendingBlock>,
}

impl Batch {
    /// Returns `true` if every chunk of the batch is being fetched.
    fn is_fetched(&self) -> bool {
        let mut pending = self.pending.iter();
        pending.all(PendingBlock::is_started)
    }
}

impl Job {
    /// Returns the selected cells of a chunk, and their groups.
    fn chunk_groups(&self, part: &GridJob, window: &Window) -> ChunkGroups {
        let selection = &part.part.selection;
        let (axes, base) = self
            .groups
            .of_window(part.number, selection, selection, window);
        let products = |restriction| self.products(part, restriction, window).0.collect();
        let restricted = (0..part.restricted.len()).map(|number| products(Some(number)));
        ChunkGroups {
            base,
            axes,
            selected: products(None),
            restricted: restricted.collect(),
        }
    }

    /// Starts to fetch the chunks of a batch, unless they are read in place.
    fn fetch(&self, batch: &mut Batch, in_flight: &mut InFlight) -> Result<()> {
        let part = &self.parts[batch.part];
        for window in &batch.windows {
            let fetch = match part.attributes.is_empty() {
                true => None,
                false => part
                    .part
                    .grid
                    .fetch(window, &part.attributes, &self.options),
            };
            batch.pending.push(in_flight.start(fetch)?);
        }
        Ok(())
    }
}

/// The groups of a chunk's selected cells.
#[derive(PartialEq, Eq)]
struct ChunkGroups {
    base: usize,
    /// The terms along each axis, without those of the pair.
    axes: Vec<AxisGroups>,
    /// The cells to reduce.
    selected: ChunkProducts,
    /// For each restriction of the program, the cells that it keeps.
    restricted: Vec<ChunkProducts>,
}

/// Cells of a chunk as disjoint products of indices along the axes, none of which is empty.
type ChunkProducts = Vec<Vec<AxisGroups>>;

impl ChunkGroups {
    fn products(&self, restriction: Option<usize>) -> &ChunkProducts {
        restriction.map_or(&self.selected, |number| &self.restricted[number])
    }

    /// Returns the layout of the selected cells, or of those that a restriction keeps; `None` if
    /// there are none.
    fn layout(&self, restriction: Option<usize>) -> Option<Layout> {
        let products = self.products(restriction);
        let axes = products.iter().map(Vec::as_slice);
        (!products.is_empty()).then(|| Layout::of_products(axes, self.base))
    }

    /// Returns the number of cells of each product per group.
    fn counts(&self, restriction: Option<usize>) -> impl Iterator<Item = GroupCounts> {
        let products = self.products(restriction).iter();
        products.map(|axes| GroupCounts::new(axes, self.base))
    }
}

struct Worker {
    job: Arc<Job>,
    found: PartialState,
    rows: RowEvaluation,
    /// One reader per chunk of a batch, all of the same [`GridJob`].
    readers: Vec<Box<dyn WindowReader>>,
    /// For each chunk of a batch, the cells that the mask of a reduction leaves.
    masked: Vec<MaskedCells>,
    /// The index of the [`GridJob`] that the last chunks belong to, and its pruner.
    pruner: Option<(usize, Option<Pruner>)>,
    open: Option<usize>,
    /// `true` while the next chunk is open but not ready.
    is_open: bool,
    /// The number of groups updated from statistics since the last yield.
    known_groups: u64,
    counts: ReadCounts,
    metrics: ScanMetrics,
    /// The number of bytes reserved at the start.
    reserved: usize,
}

impl Worker {
    /// Batches the chunks of a unit that have to be read. Skips chunks without selected cells, and
    /// answers chunks from statistics where possible.
    fn chunks(&mut self, number: usize, positions: &[u64]) -> Result<Vec<Batch>> {
        let job = Arc::clone(&self.job);
        let part = &job.parts[number];
        let mut batches: Vec<Batch> = Vec::new();
        if self.pruner.as_ref().is_none_or(|(of, _)| *of != number) {
            self.pruner = Some((number, job.pruner(part)?));
        }
        for position in positions {
            if let Some((_, Some(pruner))) = &mut self.pruner
                && !pruner.keeps(*position, part.read_ahead_end(*position))?
            {
                self.metrics.add_pruned();
                continue;
            }
            let chunk = part.blocks.chunk(*position)?;
            let window = part.part.grid.chunk_grid().window(&chunk);
            let groups = job.chunk_groups(part, &window);
            if groups.selected.is_empty() {
                // The predicate became known after the scan was planned.
                self.metrics.add_pruned();
                continue;
            }
            if self.add_known(part, &window, &groups)? {
                continue;
            }
            match batches.last_mut() {
                Some(last) if last.groups == groups => last.windows.push(window),
                _ => batches.push(Batch {
                    part: number,
                    windows: vec![window],
                    groups,
                    pending: Vec::new(),
                }),
            }
        }
        Ok(batches)
    }

    /// Returns `true` if statistics can answer all reductions of the [`GridJob`] for a chunk. If
    /// so, adds them to the partial state.
    fn add_known(&mut self, part: &GridJob, window: &Window, groups: &ChunkGroups) -> Result<bool> {
        let plans = &self.job.program.reductions;
        if self.job.program.needs_rows() || part.reductions.is_empty() {
            return Ok(false);
        }
        let mut all = Vec::with_capacity(part.reductions.len());
        for number in &part.reductions {
            let products = groups.products(plans[*number].restriction);
            let axes = match products.as_slice() {
                [] => {
                    all.push(None);
                    continue;
                }
                [axes] => axes,
                _ => &groups.axes,
            };
            match known(*number, &self.job, part, window, axes, groups.base)? {
                None => return Ok(false),
                // The terms of `groups.axes` are without those of the pair.
                Some(ChunkContribution::OfGroup { .. }) if products.len() > 1 => return Ok(false),
                known => all.push(known),
            }
        }
        let mut updated = 0;
        for (known, number) in all.into_iter().zip(&part.reductions) {
            let Some(known) = known else {
                continue;
            };
            for cells in groups.counts(plans[*number].restriction) {
                updated += cells.groups();
                self.found.reductions[*number].add_known(known, &cells);
            }
        }
        if updated == 0 {
            self.metrics.add_sliced();
        } else {
            self.metrics.add_known();
        }
        self.known_groups += updated;
        Ok(true)
    }

    /// Adjusts the reservation to the current size of DataFusion's accumulators.
    fn account_for(&mut self, memory: &MemoryReservation) -> Result<()> {
        self.rows.added = 0;
        if self.found.accumulated.is_empty() {
            return Ok(());
        }
        let bytes = self.job.other_bytes();
        let bytes = bytes.saturating_add(self.found.accumulator_bytes());
        memory.try_resize(bytes.max(self.reserved))
    }

    /// Does a bounded amount of work on a batch, and returns `true` once the batch is done. `next`
    /// is the number of chunks that are ready, and `fetched` the stored bytes of each.
    fn step(
        &mut self,
        batch: &Batch,
        fetched: &mut [Option<FetchedBlock>],
        next: &mut usize,
    ) -> Result<bool> {
        let part = &self.job.parts[batch.part];
        if self.open != Some(batch.part) {
            self.readers.clear();
            self.counts = ReadCounts::default();
            self.open = Some(batch.part);
        }
        if !part.attributes.is_empty() && *next < batch.windows.len() {
            if self.readers.len() == *next {
                let grid = &part.part.grid;
                let mut reader = grid.window_reader(&part.attributes, &self.job.options)?;
                if let Some(shared) = &self.job.shared {
                    reader.share_decoded(shared)?;
                }
                self.readers.push(reader);
            }
            let reader = &mut self.readers[*next];
            if !self.is_open {
                let window = &batch.windows[*next];
                reader.open(window, fetched[*next].take())?;
                let mut selections = self.job.read_selections(part);
                if selections.any(|cells| Cells::new(window, cells).cover_most_of(window)) {
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
        if self.rows.is_at_start() && !part.reductions.is_empty() {
            let layout = batch.groups.layout(None);
            let restrictions = 0..job.program.restrictions.len();
            let restricted = restrictions.map(|number| batch.groups.layout(Some(number)));
            let restricted: Vec<Option<Layout>> = restricted.collect();
            for number in &part.reductions {
                let plan = &job.program.reductions[*number];
                let reduction = &mut self.found.reductions[*number];
                let layout = plan
                    .restriction
                    .map_or(&layout, |number| &restricted[number]);
                let Some(layout) = layout else {
                    continue;
                };
                let attribute = part.attributes.iter().position(|a| *a == plan.attribute);
                let Some(attribute) = attribute else {
                    return internal_err!(
                        "the attribute of a reduction is not among those to read"
                    );
                };
                let readers = self.readers.iter_mut().take(batch.windows.len());
                let span = &layout.span;
                match &plan.mask {
                    None => {
                        let sources = readers.map(|reader| reader.cells(attribute, span.clone()));
                        reduction.add(&sources.collect::<Result<Vec<_>>>()?, layout);
                    }
                    Some(mask) => {
                        let of_mask = part.attributes.iter().position(|a| *a == mask.attribute);
                        let Some(of_mask) = of_mask else {
                            return internal_err!(
                                "the attribute of a mask is not among those to read"
                            );
                        };
                        self.masked
                            .resize_with(batch.windows.len(), Default::default);
                        for (reader, masked) in readers.zip(&mut self.masked) {
                            let (format, bounds) = (mask.format, &job.masks[*number]);
                            let cells = reader.cells(of_mask, span.clone())?;
                            masked.mark(cells, format.cell_type, bounds, format.fill);
                            let cells = reader.cells(attribute, span.clone())?;
                            masked.copy(cells, plan.format.cell_type, mask.skipped);
                        }
                        let sources = self.masked.iter().map(MaskedCells::cells);
                        reduction.add(&sources.collect::<Vec<_>>(), layout);
                    }
                }
                if reduction.counts_seen_cells() {
                    for cells in batch.groups.counts(plan.restriction) {
                        reduction.count_seen_cells(&cells, batch.windows.len());
                    }
                }
            }
        }
        if !job.program.needs_rows() {
            return Ok(true);
        }
        let [window] = batch.windows.as_slice() else {
            return internal_err!("row-by-row evaluation needs batches of a single chunk");
        };
        let reader = self.readers.first_mut();
        let groups = &batch.groups;
        let chunk = RowsOfChunk {
            part: batch.part,
            window,
            base: groups.base,
            axes: &groups.axes,
        };
        self.rows.add(job, &chunk, reader, &mut self.found)
    }
}
