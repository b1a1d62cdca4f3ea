//! The work of an aggregation, divided into units that workers take one after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;

use crate::grid::reduce::Counts;
use crate::grid::{Selection, Window};
use crate::provider::aggregate::exec::accumulators::Accumulated;
use crate::provider::aggregate::exec::chunk_order::Order;
use crate::provider::aggregate::plan::axis_filters::{AxisFilters, narrow, narrow_dynamically};
use crate::provider::aggregate::plan::groups::{Groups, Products};
use crate::provider::aggregate::plan::program::{Output, Presence, Program};
use crate::provider::aggregate::plan::reductions::Reduced;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::planned_blocks::{BlockOrder, PlannedBlocks};
use crate::provider::planning::pruning::Pruner;
use crate::provider::planning::value_range::ValueRange;
use crate::provider::scan::grid::blocks::GridBlocks;
use crate::provider::source::{BlockList, GridSelection, SharedChunks};

/// The work of one execution of an aggregation, shared by all workers.
///
/// Every worker calls [`Job::take`] until no unit is left. A unit is one chunk, or several chunks
/// with the same groups along a reduced axis.
#[derive(Debug)]
pub(crate) struct Job {
    pub program: Arc<Program>,
    /// For each reduction, the disjoint bounds of the cells that count; `None` if all cells count.
    pub bounds: Vec<Option<Vec<ValueRange>>>,
    /// For each reduction, the bounds of its mask as bit patterns; empty without a mask.
    pub masks: Vec<Vec<(u64, u64)>>,
    pub groups: Groups,
    pub parts: Vec<GridJob>,
    /// The filter that prunes chunks: the dynamic filter as long as it may change, otherwise its residual
    /// conjuncts, which the axes cannot answer.
    dynamic_filter: Option<Arc<dyn PhysicalExpr>>,
    /// The schema of the table.
    pub schema: SchemaRef,
    pub options: ReadOptions,
    /// The decoded chunks that other operators of the plan read as well.
    pub shared: Option<Arc<SharedChunks>>,
    /// For each of `parts`, the end of its range of units.
    ends: Vec<u64>,
    next: AtomicU64,
}

/// The chunks of one grid, for some of the attributes to read.
#[derive(Debug)]
pub(crate) struct GridJob {
    /// The ordinal of the grid in the table.
    pub number: usize,
    pub part: GridSelection,
    /// The attributes to read, and the indices of the reductions that need them.
    pub attributes: Vec<usize>,
    pub reductions: Vec<usize>,
    /// The chunks of the selection that the scan was planned with.
    pub blocks: GridBlocks,
    order: Option<Order>,
    /// For each restriction of the program, the selected cells that it keeps.
    pub restricted: Vec<Selection>,
    /// For each reduction, `true` if there are statistics of its attribute.
    pub is_known: Vec<bool>,
}

impl Job {
    /// Prepares an execution of a program over the grids of a table. Reads coordinates, but no
    /// values. Cells that `dynamic_filter` rejects may be skipped. Returns `None` if the values of
    /// scalar subqueries do not fit the program.
    pub fn try_new(
        program: &Arc<Program>,
        dynamic_filter: Option<&Arc<dyn PhysicalExpr>>,
        mut parts: Vec<GridSelection>,
        schema: &SchemaRef,
        options: ReadOptions,
        shared: Option<Arc<SharedChunks>>,
        workers: usize,
    ) -> Result<Option<Self>> {
        let dimensions = program.dimensions;
        let mut bounds = Vec::with_capacity(program.reductions.len());
        let mut masks = Vec::with_capacity(program.reductions.len());
        for plan in &program.reductions {
            bounds.push(match (&plan.values, &plan.mask) {
                (Some(values), _) => match values.bounds(plan.format.cell_type)? {
                    None => return Ok(None),
                    some => some,
                },
                // Cells are counted within bounds, instead of subtracting the skipped ones from the
                // selected ones.
                (None, Some(_)) => Some(vec![ValueRange::all(plan.format.cell_type)]),
                (None, None) => None,
            });
            masks.push(match &plan.mask {
                None => Vec::new(),
                Some(mask) => match mask.values.bounds(mask.format.cell_type)? {
                    None => return Ok(None),
                    Some(bounds) => bounds.iter().map(|bounds| bounds.bit_patterns()).collect(),
                },
            });
        }
        let has_masks = program.reductions.iter().any(|plan| plan.mask.is_some());
        let originals: Vec<Selection> = parts.iter().map(|part| part.selection.clone()).collect();
        if !narrow(&program.on_axes, &mut parts, dimensions)? {
            return Ok(None);
        }
        let residual =
            dynamic_filter.map(|filter| narrow_dynamically(filter, &mut parts, dimensions));
        let residual = residual.transpose()?.flatten();
        let grouped = program.grouped_axes();
        let groups = Groups::try_new(
            &program.aggregation.groups,
            &program.group_columns,
            program.group_pair.as_ref(),
            &parts,
        )?;
        let restrictions = program.restrictions.iter().flatten();
        let restrictions = restrictions.filter(|conjunct| !program.is_on_pair(conjunct));
        let Some(filters) = AxisFilters::try_new(restrictions, &parts, dimensions)? else {
            return Ok(None);
        };
        let attributes = &program.attributes;
        let is_read = program.needs_rows() || !program.reductions.is_empty();
        let mut ends = Vec::new();
        let mut end = 0u64;
        let mut job_parts = Vec::with_capacity(parts.len());
        for (number, (part, original)) in parts.into_iter().zip(originals).enumerate() {
            let restrictions = program.restrictions.iter();
            let restricted =
                restrictions.map(|conjuncts| filters.restrict(&part.selection, number, conjuncts));
            let restricted: Vec<Selection> = restricted.collect();
            // A reduction without a mask reads one attribute, so the chunks of different attributes
            // need not be aligned.
            let is_separable = !program.needs_rows() && part.kept.is_none() && !has_masks;
            let separate = if is_separable && attributes.len() > 1 {
                attributes
                    .iter()
                    .map(|attribute| vec![*attribute])
                    .collect()
            } else {
                vec![attributes.clone()]
            };
            for attributes in separate {
                let mut part = part.clone();
                // The ordinals of `kept` refer to the chunks of the current chunk grid.
                if part.kept.is_none()
                    && let Some(grid) = part.grid.for_attributes(&attributes)
                {
                    part.grid = grid;
                }
                let blocks = GridBlocks::new(&part.grid, original.clone());
                let reductions = program.reductions.iter().enumerate();
                let own = reductions.filter(|(_, plan)| attributes.contains(&plan.attribute));
                let own: Vec<usize> = own.map(|(number, _)| number).collect();
                let plans = program.reductions.iter();
                let known = plans.map(|plan| {
                    blocks
                        .availability(dimensions + plan.attribute, &options)
                        .is_known
                });
                let mut part = GridJob {
                    number,
                    is_known: known.collect(),
                    restricted: restricted.clone(),
                    reductions: own,
                    order: None,
                    blocks,
                    attributes,
                    part,
                };
                if !program.needs_rows() {
                    part.order = part.order(&grouped, workers, &options);
                }
                if is_read && !part.part.selection.is_empty() {
                    let Some(units) = part.units().and_then(|units| end.checked_add(units)) else {
                        return internal_err!("there are 2^64 chunks or more");
                    };
                    end = units;
                }
                ends.push(end);
                job_parts.push(part);
            }
        }
        Ok(Some(Self {
            program: Arc::clone(program),
            bounds,
            masks,
            groups,
            parts: job_parts,
            dynamic_filter: residual,
            schema: Arc::clone(schema),
            options,
            shared,
            ends,
            next: AtomicU64::new(0),
        }))
    }

    /// Returns the number of units.
    pub fn units(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the approximate number of bytes that a worker needs for the results of all groups
    /// and for its buffers.
    pub fn bytes(&self) -> Result<usize> {
        let is_grouped = self.program.is_grouped();
        let mut bytes = self.other_bytes();
        for aggregate in self.program.by_row() {
            let groups = self.groups.count();
            let more = Accumulated::initial_bytes(&aggregate.function, is_grouped, groups)?;
            bytes = bytes.saturating_add(more);
        }
        Ok(bytes)
    }

    /// Returns the number of bytes of [`Self::bytes`] without DataFusion's accumulators.
    pub fn other_bytes(&self) -> usize {
        let reductions = self.program.reductions.iter().map(|plan| {
            let size = plan.format.cell_type.size();
            let wanted = &plan.wanted;
            16 + size * (usize::from(wanted.min) + usize::from(wanted.max))
                + if wanted.deviation { 24 } else { 0 }
                + if plan.counts_others() { 8 } else { 0 }
        });
        let per_group = 8 + reductions.sum::<usize>();
        let buffers = self.parts.iter().filter_map(|part| part.order.as_ref());
        let buffers = buffers.map(|order| order.bytes).max().unwrap_or(0);
        per_group
            .saturating_mul(self.groups.count())
            .saturating_add(buffers as usize)
            .saturating_add(self.masked_bytes())
    }

    /// Returns the number of bytes of the masked copies of a unit's cells.
    fn masked_bytes(&self) -> usize {
        let plans = self.program.reductions.iter();
        let masked = plans.filter(|plan| plan.mask.is_some());
        let size = masked.map(|plan| 1 + plan.format.cell_type.size()).max();
        let cells = self.parts.iter().map(|part| {
            let chunk = part.part.grid.chunk_grid().chunk_shape().iter();
            let chunks = part.order.as_ref().map_or(1, |order| order.batched.1);
            chunk.fold(chunks, |product, extent| product.saturating_mul(*extent))
        });
        let cells = usize::try_from(cells.max().unwrap_or(0)).unwrap_or(usize::MAX);
        cells.saturating_mul(size.unwrap_or(0))
    }

    /// Returns the approximate number of bytes that the output takes beside the results that it is
    /// made from.
    pub fn answer_bytes(&self) -> usize {
        let outputs = self.program.outputs.iter().map(|output| match output {
            Output::Reduced(_, Reduced::Deviation) => 48,
            Output::Axis(..) => 16,
            _ => 8,
        });
        let columns = outputs.sum::<usize>() + 8 * self.program.restrictions.len();
        let per_group = match self.program.presence {
            Presence::Selected if self.program.is_product() => columns,
            // Groups with rows are gathered by group index, which copies the columns.
            Presence::Selected | Presence::Counted(_) | Presence::Rows => 2 * columns + 16,
        };
        per_group.saturating_mul(self.groups.count())
    }

    /// Returns one [`GridJob`] per grid of the table. A grid has several if its attributes are read
    /// separately.
    pub fn grid_selections(&self) -> impl Iterator<Item = &GridJob> {
        let mut last = None;
        let parts = self.parts.iter();
        parts.filter(move |part| last.replace(part.number) != Some(part.number))
    }

    /// Returns the number of selected cells in each group, or of those that a restriction keeps.
    pub async fn cells(&self, restriction: Option<usize>) -> Result<Counts> {
        let parts = self.grid_selections();
        let has_filters = self.program.filters_of(restriction).next().is_some();
        if !has_filters && self.groups.pair().is_none() {
            let parts = parts.map(|part| (&part.part.selection, part.selection(restriction)));
            return self.groups.cells(parts).await;
        }
        let products = parts.flat_map(|part| {
            let windows = part.windows();
            windows.map(move |window| Ok(self.products(part, restriction, &window?)))
        });
        self.groups.cells_of_products(products).await
    }

    /// Returns the selected cells of a window of a grid, or those that a restriction keeps, as products of
    /// indices along the axes, and the base of their group indices.
    pub(super) fn products(
        &self,
        part: &GridJob,
        restriction: Option<usize>,
        window: &Window,
    ) -> (Products<'_>, usize) {
        let (selection, wanted) = (&part.part.selection, part.selection(restriction));
        let (axes, base) = self
            .groups
            .of_window(part.number, selection, wanted, window);
        let filters = self.program.filters_of(restriction);
        let products = self.groups.products(part.number, window, axes, filters);
        (products, base)
    }

    /// Returns `true` if no chunk was pruned by the values of its cells.
    pub fn reads_every_chunk(&self) -> bool {
        self.parts.iter().all(|part| part.part.kept.is_none())
    }

    /// Returns the selections of the cells to read for a [`GridJob`].
    pub fn read_selections<'a>(&'a self, part: &'a GridJob) -> impl Iterator<Item = &'a Selection> {
        let plans = &self.program.reductions;
        let reductions = part.reductions.iter();
        let restrictions = reductions.map(move |number| plans[*number].restriction);
        let rows = self.program.needs_rows().then_some(None);
        restrictions
            .chain(rows)
            .map(|restriction| part.selection(restriction))
    }

    /// Returns the pruner that applies the dynamic filter to the chunks of a [`GridJob`]; `None` if
    /// there is no filter, or if the axes answer all of it.
    pub fn pruner(&self, part: &GridJob) -> Result<Option<Pruner>> {
        let Some(filter) = &self.dynamic_filter else {
            return Ok(None);
        };
        // The blocks of a grid do not include the file column.
        let grid = &part.part.grid;
        let columns: Vec<usize> = (0..grid.axes().len() + grid.attributes().len()).collect();
        let schema = Arc::new(self.schema.project(&columns)?);
        let blocks = PlannedBlocks::new(Arc::new(part.blocks.clone()), BlockOrder::All);
        let pruner = Pruner::new(&blocks, &schema, &schema, filter, &self.options);
        Ok(Some(pruner))
    }

    /// Takes the next unit. Returns an index into [`Self::parts`], and the ordinals of the chunks
    /// within that [`GridJob`].
    pub fn take(&self) -> Option<(usize, Vec<u64>)> {
        let unit = self.next.fetch_add(1, Ordering::Relaxed);
        let part = self.ends.partition_point(|end| *end <= unit);
        let start = match part.checked_sub(1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        let positions = self.parts.get(part)?.positions(unit - start);
        Some((part, positions))
    }
}

impl GridJob {
    /// Returns the selected cells, or those that a restriction keeps.
    pub fn selection(&self, restriction: Option<usize>) -> &Selection {
        restriction.map_or(&self.part.selection, |number| &self.restricted[number])
    }

    /// Returns the end of the range of chunk ordinals for which [`Pruner::keeps`] evaluates statistics ahead.
    pub fn read_ahead_end(&self, ordinal: u64) -> u64 {
        let all = self.blocks.count().unwrap_or(u64::MAX);
        self.order.as_ref().map_or(all, |_| ordinal + 1)
    }

    /// Returns the windows of the chunks that were not pruned; one window over the whole grid if none was.
    fn windows(&self) -> Box<dyn Iterator<Item = Result<Window>> + Send + '_> {
        let Some(kept) = &self.part.kept else {
            let axes = self.part.selection.axes().iter();
            let all = Window::new(axes.map(|set| 0..set.length()).collect());
            return Box::new(std::iter::once(Ok(all)));
        };
        Box::new(kept.ranges().flatten().map(|ordinal| {
            let chunk = self.blocks.chunk(ordinal)?;
            Ok(self.part.grid.chunk_grid().window(&chunk))
        }))
    }

    fn units(&self) -> Option<u64> {
        match (&self.part.kept, &self.order) {
            (Some(kept), _) => Some(kept.count()),
            (None, None) => self.blocks.count(),
            (None, Some(order)) => {
                let axes = 0..order.counts.len();
                Some(axes.map(|axis| order.steps(axis)).product())
            }
        }
    }

    fn positions(&self, unit: u64) -> Vec<u64> {
        let Some(order) = &self.order else {
            let kept = self.part.kept.as_ref();
            return vec![kept.and_then(|kept| kept.nth(unit)).unwrap_or(unit)];
        };
        let mut rest = unit;
        let mut steps = vec![0; order.counts.len()];
        for axis in order.axes.iter().rev() {
            steps[*axis] = rest % order.steps(*axis);
            rest /= order.steps(*axis);
        }
        let (batched, size) = order.batched;
        let first = steps[batched] * size;
        let along = first..(first + size).min(order.counts[batched]);
        let position = |number: u64| {
            steps[batched] = number;
            let axes = steps.iter().zip(&order.counts);
            axes.fold(0, |position, (step, count)| position * count + step)
        };
        along.map(position).collect()
    }
}
