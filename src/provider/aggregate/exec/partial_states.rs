//! The partial states of the workers.

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::grid::reduce::{CellType, Counts, GroupCounts, Layout, Reduction, Results};
use crate::provider::aggregate::exec::accumulators::Accumulated;
use crate::provider::aggregate::exec::chunk_statistics::ChunkContribution;
use crate::provider::aggregate::exec::job::Job;
use crate::provider::aggregate::plan::program::Presence;
use crate::provider::aggregate::plan::reductions::ReductionPlan;
use crate::provider::planning::value_range::ValueRange;

/// The maximum number of bytes that an accumulator takes per row whose value it keeps. The capacity is at most twice the
/// values, and the next growth is reserved as well.
const MAX_BYTES_PER_ROW: usize = 4 * size_of::<f64>();

/// The partial state of a worker.
pub(crate) struct PartialState {
    pub reductions: Vec<PartialReduction>,
    /// The number of rows in each group, if rows are counted one by one.
    pub rows: Option<Vec<u64>>,
    /// The accumulators of the aggregates that are computed row by row.
    pub accumulated: Vec<Accumulated>,
}

/// The partial state of a reduction.
pub(crate) struct PartialReduction {
    reduction: Reduction,
    /// The bounds of the cells that count, one pass over the cells each; `None` if all cells count.
    passes: Option<Vec<(u64, u64)>>,
    /// If `true`, the final counts are those of the cells outside the bounds.
    others: bool,
    groups: usize,
    /// The number of cells seen in each group. Needed to count the other cells if chunks were
    /// pruned.
    met: Option<Vec<u64>>,
}

impl PartialState {
    pub fn new(job: &Job) -> Result<Self> {
        let groups = job.groups.count();
        let program = &job.program;
        let reductions = program.reductions.iter().zip(&job.bounds);
        let is_all = job.reads_every_chunk();
        Ok(Self {
            reductions: reductions
                .map(|(plan, bounds)| {
                    // Masked cells are skipped, and so are chunks that the mask prunes.
                    let is_all = is_all && plan.mask.is_none();
                    PartialReduction::new(plan, bounds.as_deref(), groups, is_all)
                })
                .collect(),
            rows: (program.presence == Presence::Rows).then(|| vec![0; groups]),
            accumulated: program
                .by_row()
                .map(|aggregate| {
                    Accumulated::for_rows(aggregate, program.is_grouped(), &job.schema, groups)
                })
                .collect::<Result<_>>()?,
        })
    }

    /// Lets the groups of accumulators that keep values double their memory up to the number of rows that one of `workers`
    /// workers adds to a group on average, if `memory` could grow by the most that they then take.
    pub fn expect_rows(&mut self, job: &Job, workers: usize, memory: &MemoryReservation) {
        let selections = job.grid_selections();
        let rows = selections.filter_map(|part| part.part.selection.count());
        let rows = rows.fold(0, u64::saturating_add) as usize;
        let bytes = rows.saturating_mul(MAX_BYTES_PER_ROW * self.accumulated.len());
        if memory.try_grow(bytes).is_err() {
            return;
        }
        memory.shrink(bytes);
        let rows_per_group = rows / workers / job.groups.count().max(1);
        for accumulated in &mut self.accumulated {
            accumulated.double_up_to(rows_per_group);
        }
    }

    /// Returns the size of DataFusion's accumulators in bytes.
    pub fn accumulator_bytes(&self) -> usize {
        self.accumulated.iter().map(Accumulated::size).sum()
    }

    /// Merges the partial state of another worker. `memory` accounts for the states while they are merged.
    pub fn merge(&mut self, other: Self, groups: usize, memory: &MemoryReservation) -> Result<()> {
        for (one, other) in self.reductions.iter_mut().zip(&other.reductions) {
            one.merge(other);
        }
        if let (Some(rows), Some(others)) = (&mut self.rows, &other.rows) {
            add_all(rows, others);
        }
        for (one, other) in self.accumulated.iter_mut().zip(other.accumulated) {
            if let Some(mut other) = one.absorb(other) {
                // The partial state and a copy of it exist at the same time.
                memory.try_grow(other.size().saturating_mul(2))?;
                one.merge_all(&other.state()?, groups)?;
            }
        }
        Ok(())
    }
}

impl PartialReduction {
    /// Creates an empty state. `looks_at_all` is `true` if no chunk was pruned by its values.
    fn new(
        plan: &ReductionPlan,
        bounds: Option<&[ValueRange]>,
        groups: usize,
        looks_at_all: bool,
    ) -> Self {
        let format = plan.format;
        let all = ValueRange::all(format.cell_type);
        let bounds = bounds.filter(|bounds| *bounds != [all] || !looks_at_all);
        let mut passes = bounds.map(|bounds| {
            let bounds = bounds.iter().map(|bounds| bounds.bit_patterns());
            bounds.collect::<Vec<_>>()
        });
        let mut fill = format.fill;
        // All numbers but one take a single pass that treats the excluded number as the fill value.
        if let (Some([low, high]), None, Some(passes)) = (bounds, fill, &mut passes)
            && let Some(but) = low.only_value_between(*high)
            && format.cell_type != CellType::F16
        {
            *passes = vec![(low.bit_patterns().0, high.bit_patterns().1)];
            fill = Some(but);
        }
        let first = passes.as_ref().map(|passes| {
            let first = passes.first().copied();
            first.unwrap_or_else(|| all.none().bit_patterns())
        });
        Self {
            reduction: Reduction::new(format.cell_type, groups, plan.wanted, first, fill),
            passes,
            others: plan.counts_others(),
            groups,
            met: (plan.counts_others() && !looks_at_all).then(|| vec![0; groups]),
        }
    }

    /// Adds the cells of chunks with the same layout. Each source holds the cells of the layout's
    /// span.
    pub fn add(&mut self, sources: &[&[u8]], layout: &Layout) {
        match &self.passes {
            None => self.reduction.add(sources, layout),
            Some(passes) => {
                for bounds in passes {
                    self.reduction.set_bounds(*bounds);
                    self.reduction.add(sources, layout);
                }
            }
        }
    }

    /// Returns `true` if [`Self::count_seen_cells`] has to be called for every chunk.
    pub fn counts_seen_cells(&self) -> bool {
        self.met.is_some()
    }

    /// Counts the cells of `chunks` chunks that have cells in these groups, whether read or
    /// answered from statistics.
    pub fn count_seen_cells(&mut self, cells: &GroupCounts, chunks: usize) {
        if let Some(met) = &mut self.met {
            cells.for_each(|group, count| {
                let count = count.saturating_mul(chunks as u64);
                met[group] = met[group].saturating_add(count);
            });
        }
    }

    /// Adds the contribution of a chunk whose cells are in these groups.
    pub fn add_known(&mut self, known: ChunkContribution, cells: &GroupCounts) {
        let reduction = &mut self.reduction;
        match known {
            ChunkContribution::Nothing => reduction.add_missing(cells),
            ChunkContribution::Counted => reduction.add_counted(cells),
            ChunkContribution::Constant(pattern) => reduction.add_constant(cells, pattern),
            ChunkContribution::OfGroup {
                group,
                extremes,
                sum,
                count,
                missing,
            } => reduction.add_known(group, extremes, sum, count, missing),
        }
        self.count_seen_cells(cells, 1);
    }

    fn merge(&mut self, other: &Self) {
        self.reduction.merge(&other.reduction);
        if let (Some(met), Some(others)) = (&mut self.met, &other.met) {
            add_all(met, others);
        }
    }

    /// Returns the final values, given the number of selected cells in each group.
    pub fn results(self, cells: &Counts) -> Results {
        let mut results = self.reduction.results(cells);
        if self.others {
            let met = self.met.map(|met| Counts::Each(met.into()));
            let met = met.as_ref().unwrap_or(cells);
            let groups = 0..self.groups;
            let others = groups.map(|group| met.of(group).wrapping_sub(results.counts.of(group)));
            results.counts = Counts::Each(others.collect::<Vec<_>>().into());
        }
        results
    }
}

fn add_all(counts: &mut [u64], others: &[u64]) {
    for (count, other) in counts.iter_mut().zip(others) {
        *count = count.saturating_add(*other);
    }
}
