//! What workers have found so far.

use datafusion::common::Result;

use crate::grid::reduce::{CellType, Counts, GroupCounts, Layout, Reduction, Results};
use crate::provider::aggregate::exec::accumulators::Accumulated;
use crate::provider::aggregate::exec::chunk_statistics::Known;
use crate::provider::aggregate::exec::job::Job;
use crate::provider::aggregate::plan::program::{Output, Presence, ReductionPlan};
use crate::provider::planning::value_bounds::Bounds;

/// What a worker has found so far.
pub(crate) struct Found {
    pub reductions: Vec<FoundCells>,
    /// Rows of each group, if they have to be counted.
    pub rows: Option<Vec<u64>>,
    /// Of the aggregates that the engine computes.
    pub engine: Vec<Accumulated>,
}

/// What it has found for a reduction.
pub(crate) struct FoundCells {
    reduction: Reduction,
    /// The bounds of cells that count, one after another; `None` if all do.
    passes: Option<Vec<(u64, u64)>>,
    /// Whether those are wanted that do not count.
    others: bool,
    groups: usize,
    /// How many cells of each group were come across, if that has to be counted.
    met: Option<Vec<u64>>,
}

impl Found {
    pub fn new(job: &Job) -> Result<Self> {
        let groups = job.groups.count();
        let program = &job.program;
        let reductions = program.reductions.iter();
        let is_grouped = !job.aggregation.groups.is_empty();
        let engine = program.outputs.iter().zip(&job.aggregation.aggregates);
        Ok(Self {
            reductions: reductions
                .map(|plan| FoundCells::new(plan, groups, job.looks_at_all()))
                .collect(),
            rows: (program.presence == Presence::Rows).then(|| vec![0; groups]),
            engine: engine
                .filter(|(output, _)| **output == Output::Engine)
                .map(|(_, aggregate)| {
                    Accumulated::for_rows(aggregate, is_grouped, &job.schema, groups)
                })
                .collect::<Result<_>>()?,
        })
    }

    /// Bytes of the accumulators that DataFusion made.
    pub fn engine_bytes(&self) -> usize {
        self.engine.iter().map(Accumulated::size).sum()
    }

    /// Adds what another worker has found.
    pub fn merge(&mut self, mut other: Self, groups: usize) -> Result<()> {
        for (one, other) in self.reductions.iter_mut().zip(&other.reductions) {
            one.merge(other);
        }
        if let (Some(rows), Some(others)) = (&mut self.rows, &other.rows) {
            add_all(rows, others);
        }
        for (one, other) in self.engine.iter_mut().zip(&mut other.engine) {
            let state = other.state()?;
            one.merge(&state, groups)?;
        }
        Ok(())
    }
}

impl FoundCells {
    /// Nothing yet. `looks_at_all` tells whether no chunk was left out for its values.
    fn new(plan: &ReductionPlan, groups: usize, looks_at_all: bool) -> Self {
        let format = plan.format;
        let all = Bounds::all(format.cell_type);
        let bounds = plan.bounds.as_deref();
        let bounds = bounds.filter(|bounds| *bounds != [all] || !looks_at_all);
        let mut passes = bounds.map(|bounds| {
            let bounds = bounds.iter().map(|bounds| bounds.patterns());
            bounds.collect::<Vec<_>>()
        });
        let mut fill = format.fill;
        // All numbers but one in a single pass, in which that one is as good as missing.
        if let (Some([low, high]), None, Some(passes)) = (bounds, fill, &mut passes)
            && let Some(but) = low.only_value_before(*high)
            && format.cell_type != CellType::F16
        {
            *passes = vec![(low.patterns().0, high.patterns().1)];
            fill = Some(but);
        }
        let first = passes.as_ref().map(|passes| {
            let first = passes.first().copied();
            first.unwrap_or_else(|| all.none().patterns())
        });
        Self {
            reduction: Reduction::new(format.cell_type, groups, plan.wanted, first, fill),
            passes,
            others: plan.others,
            groups,
            met: (plan.others && !looks_at_all).then(|| vec![0; groups]),
        }
    }

    /// Adds the cells of some chunks of the same layout: of each those of the layout's span.
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

    /// Whether it has to be told of the cells that it comes across.
    pub fn meets(&self) -> bool {
        self.met.is_some()
    }

    /// Notes so many chunks with cells in these groups, read or known.
    pub fn meet(&mut self, cells: &GroupCounts, chunks: usize) {
        if let Some(met) = &mut self.met {
            cells.for_each(|group, count| {
                let count = count.saturating_mul(chunks as u64);
                met[group] = met[group].saturating_add(count);
            });
        }
    }

    /// Adds what is known of cells in these groups.
    pub fn add_known(&mut self, known: Known, cells: &GroupCounts) {
        let reduction = &mut self.reduction;
        match known {
            Known::Nothing => reduction.add_missing(cells),
            Known::Counted => reduction.add_counted(cells),
            Known::Constant(pattern) => reduction.add_constant(cells, pattern),
            Known::OfGroup {
                group,
                extremes,
                count,
                missing,
            } => reduction.add_known(group, extremes, count, missing),
        }
        self.meet(cells, 1);
    }

    fn merge(&mut self, other: &Self) {
        self.reduction.merge(&other.reduction);
        if let (Some(met), Some(others)) = (&mut self.met, &other.met) {
            add_all(met, others);
        }
    }

    /// The results, given how many cells each group has in all. Where those are wanted that do not count, the counts are
    /// theirs.
    pub fn results(self, cells: &Counts) -> Results {
        let mut results = self.reduction.results(cells);
        if self.others {
            let met = self.met.map(Counts::Each);
            let met = met.as_ref().unwrap_or(cells);
            let groups = 0..self.groups;
            let others = groups.map(|group| met.of(group).wrapping_sub(results.counts.of(group)));
            results.counts = Counts::Each(others.collect());
        }
        results
    }
}

fn add_all(counts: &mut [u64], others: &[u64]) {
    for (count, other) in counts.iter_mut().zip(others) {
        *count = count.saturating_add(*other);
    }
}
