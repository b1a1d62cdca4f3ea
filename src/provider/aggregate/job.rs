//! The work of an aggregation, in units that workers take one after another.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;

use crate::grid::reduce::Counts;
use crate::grid::{IndexSet, Selection};
use crate::provider::aggregate::aggregation::Aggregation;
use crate::provider::aggregate::engine::Accumulated;
use crate::provider::aggregate::groups::{Groups, group_columns};
use crate::provider::aggregate::program::{Columns, Output, Presence, Program, Reduced};
use crate::provider::axis_filter::evaluate_physical;
use crate::provider::grid_blocks::GridBlocks;
use crate::provider::options::ReadOptions;
use crate::provider::pruning::{Pruner, with_subquery_values};
use crate::provider::source::{BlockList, GridPart};

/// Rows of cells that are best added up at once.
const ROWS: u64 = 16;
/// Groups of a chunk below which their results stay in a cache anyway.
const FEW_GROUPS: u64 = 4096;
/// The most bytes of chunks that are taken at once, and of a cell.
const BATCH_BYTES: u64 = 32 << 20;
const CELL_BYTES: u64 = 8;
/// Units per worker, so that none waits long for the last.
const UNITS_PER_WORKER: u64 = 8;

/// Everything that workers need to know.
#[derive(Debug)]
pub(super) struct Job {
    pub aggregation: Aggregation,
    pub program: Program,
    pub groups: Groups,
    pub parts: Vec<JobPart>,
    /// What becomes known of the cells that are needed, and may still change.
    dynamic_filter: Option<Arc<dyn PhysicalExpr>>,
    /// Of the table.
    pub schema: SchemaRef,
    pub options: ReadOptions,
    /// The table's columns that are needed row by row.
    pub row_columns: Vec<usize>,
    /// The attributes that are read.
    pub attributes: Vec<usize>,
    /// Where the units of each part end.
    ends: Vec<u64>,
    next: AtomicU64,
}

/// The chunks of one grid, as far as some attributes are read.
#[derive(Debug)]
pub(super) struct JobPart {
    /// The number of the grid's part of the table.
    pub number: usize,
    pub part: GridPart,
    /// The attributes that are read, and the numbers of the reductions that look at them.
    pub attributes: Vec<usize>,
    pub reductions: Vec<usize>,
    /// The chunks, by the selection that the scan was planned with.
    pub blocks: GridBlocks,
    batches: Option<Batches>,
    /// Whether something is known of the values of each reduction's attribute.
    pub is_known: Vec<bool>,
}

/// Chunks that follow each other along an axis which is not grouped by, several at a time.
#[derive(Debug)]
struct Batches {
    axis: usize,
    size: u64,
    /// Chunks along each axis.
    counts: Vec<u64>,
    /// Bytes of so many chunks, once decoded.
    bytes: u64,
}

impl Job {
    /// Prepares an aggregation over some parts of a table, for so many workers. Reads coordinates, but no values. Cells
    /// that the dynamic filter does not leave are not needed.
    pub fn try_new(
        aggregation: &Aggregation,
        dynamic_filter: Option<&Arc<dyn PhysicalExpr>>,
        parts: Vec<GridPart>,
        schema: &SchemaRef,
        options: ReadOptions,
        workers: usize,
        most_groups: usize,
    ) -> Result<Self> {
        let mut aggregation = aggregation.map(with_subquery_values)?;
        let dimensions = parts.first().map_or(0, |part| part.grid.axes().len());
        let originals: Vec<Selection> = parts.iter().map(|part| part.selection.clone()).collect();
        let mut parts = parts;
        narrow(&mut aggregation.conjuncts, &mut parts, dimensions)?;
        let mut changing = None;
        if let Some(filter) = dynamic_filter {
            changing = DynamicFilterTracking::classify(filter)
                .watcher()
                .map(|_| Arc::clone(filter));
            let filter = snapshot_physical_expr(with_subquery_values(filter)?)?;
            let conjuncts = split_conjunction(&filter).into_iter();
            narrow(&mut conjuncts.cloned().collect(), &mut parts, dimensions)?;
        }
        let file = parts
            .iter()
            .any(|part| part.file.is_some())
            .then(|| schema.fields().len() - 1);
        let Some(columns) = group_columns(&aggregation.groups, dimensions, file) else {
            return internal_err!("an aggregation is grouped by more than single dimensions");
        };
        let groups = Groups::try_new(&aggregation.groups, &columns, &parts, most_groups)?;
        let program = Program::new(&aggregation, &Columns::of(&parts, &options));
        // Without rows to be looked at there are no expressions to be asked of them.
        let row_columns: BTreeSet<usize> = program
            .row_expressions(&aggregation)
            .flat_map(collect_columns)
            .map(|column| column.index())
            .collect();
        let values = row_columns
            .iter()
            .filter(|column| **column >= dimensions && Some(**column) != file);
        let attributes: BTreeSet<usize> = values
            .map(|column| column - dimensions)
            .chain(program.reductions.iter().map(|plan| plan.attribute))
            .collect();
        let attributes: Vec<usize> = attributes.into_iter().collect();
        let is_read = program.needs_rows() || !program.reductions.is_empty();
        let mut ends = Vec::new();
        let mut end = 0u64;
        let mut job_parts = Vec::with_capacity(parts.len());
        for (number, (part, original)) in parts.into_iter().zip(originals).enumerate() {
            // A reduction looks at one attribute, whose chunks need not be met with those of others.
            let is_separable = !program.needs_rows() && part.kept.is_none();
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
                // The chunks that are kept are numbered as they were.
                if part.kept.is_none()
                    && let Some(grid) = part.grid.for_attributes(&attributes)
                {
                    part.grid = grid;
                }
                let blocks = GridBlocks::new(&part.grid, original.clone());
                let reductions = program.reductions.iter().enumerate();
                let reductions =
                    reductions.filter(|(_, plan)| attributes.contains(&plan.attribute));
                let known = reductions
                    .clone()
                    .map(|(_, plan)| blocks.has_statistics(dimensions + plan.attribute, &options));
                let mut part = JobPart {
                    number,
                    is_known: known.collect(),
                    reductions: reductions.map(|(number, _)| number).collect(),
                    batches: None,
                    blocks,
                    attributes,
                    part,
                };
                if !program.needs_rows() {
                    part.batches = part.batches(&columns, workers);
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
        Ok(Self {
            aggregation,
            program,
            groups,
            parts: job_parts,
            dynamic_filter: changing,
            schema: Arc::clone(schema),
            options,
            row_columns: row_columns.into_iter().collect(),
            attributes,
            ends,
            next: AtomicU64::new(0),
        })
    }

    /// How many units there are.
    pub fn units(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Bytes that a worker takes for the results of all groups and what it reads into, about.
    pub fn bytes(&self) -> Result<usize> {
        let is_grouped = !self.aggregation.groups.is_empty();
        let outputs = self.program.outputs.iter();
        let engine = outputs
            .zip(&self.aggregation.aggregates)
            .filter(|(output, _)| **output == Output::Engine);
        let mut bytes = self.other_bytes();
        for (_, aggregate) in engine {
            let groups = self.groups.count();
            let more = Accumulated::initial_bytes(&aggregate.function, is_grouped, groups)?;
            bytes = bytes.saturating_add(more);
        }
        Ok(bytes)
    }

    /// The same without the engine's accumulators.
    pub fn other_bytes(&self) -> usize {
        let reductions = self.program.reductions.iter().map(|plan| {
            let size = plan.format.cell_type.size();
            let wanted = &plan.wanted;
            16 + size * (usize::from(wanted.least) + usize::from(wanted.greatest))
                + if wanted.deviation { 24 } else { 0 }
        });
        let per_group = 8 + reductions.sum::<usize>();
        let buffers = self.parts.iter().filter_map(|part| part.batches.as_ref());
        let buffers = buffers.map(|batches| batches.bytes).max().unwrap_or(0);
        per_group
            .saturating_mul(self.groups.count())
            .saturating_add(buffers as usize)
    }

    /// Bytes that the answer takes beside the results that it is made of, about.
    pub fn answer_bytes(&self) -> usize {
        let outputs = self.program.outputs.iter().map(|output| match output {
            Output::Reduced(_, Reduced::Deviation) => 48,
            _ => 8,
        });
        let columns: usize = outputs.sum();
        let per_group = match self.program.presence {
            Presence::Selected => columns,
            // Those that have rows are chosen by number, and copied.
            Presence::Counted(_) | Presence::Rows => 2 * columns + 16,
        };
        per_group.saturating_mul(self.groups.count())
    }

    /// How many selected cells each group has.
    pub fn cells(&self) -> Result<Counts> {
        let mut parts: Vec<&JobPart> = self.parts.iter().collect();
        parts.dedup_by_key(|part| part.number);
        let parts: Vec<&GridPart> = parts.into_iter().map(|part| &part.part).collect();
        self.groups.cells(&parts)
    }

    /// What rules out chunks of a part while the query runs, if anything may.
    pub fn pruner(&self, part: &JobPart) -> Result<Option<Pruner>> {
        let Some(filter) = &self.dynamic_filter else {
            return Ok(None);
        };
        // A part knows nothing of the column that is its file.
        let grid = &part.part.grid;
        let columns: Vec<usize> = (0..grid.axes().len() + grid.attributes().len()).collect();
        let schema = Arc::new(self.schema.project(&columns)?);
        let blocks: Arc<dyn BlockList> = Arc::new(part.blocks.clone());
        let pruner = Pruner::new(&blocks, &schema, &schema, filter, &self.options);
        Ok(Some(pruner))
    }

    /// The next unit that no worker has: the number of a part, and positions of its chunks.
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

impl JobPart {
    fn units(&self) -> Option<u64> {
        match (&self.part.kept, &self.batches) {
            (Some(kept), _) => Some(kept.count()),
            (None, None) => self.blocks.count(),
            (None, Some(batches)) => Some(
                batches
                    .counts
                    .iter()
                    .enumerate()
                    .map(|(axis, count)| batches.steps(axis, *count))
                    .product(),
            ),
        }
    }

    fn positions(&self, unit: u64) -> Vec<u64> {
        let Some(batches) = &self.batches else {
            let kept = self.part.kept.as_ref();
            return vec![kept.and_then(|kept| kept.nth(unit)).unwrap_or(unit)];
        };
        let mut rest = unit;
        let mut ranges: Vec<Range<u64>> = vec![0..0; batches.counts.len()];
        for (axis, count) in batches.counts.iter().enumerate().rev() {
            let steps = batches.steps(axis, *count);
            let step = rest % steps;
            rest /= steps;
            ranges[axis] = if axis == batches.axis {
                step * batches.size..((step + 1) * batches.size).min(*count)
            } else {
                step..step + 1
            };
        }
        let along = ranges[batches.axis].clone();
        let position = |number: u64| {
            let places = ranges.iter().zip(&batches.counts).enumerate();
            places.fold(0, |position, (axis, (range, count))| {
                let place = if axis == batches.axis {
                    number
                } else {
                    range.start
                };
                position * count + place
            })
        };
        along.map(position).collect()
    }

    /// Whether, and which, chunks are to be taken several at a time: if each has few cells per group, loading and
    /// storing the groups' results would cost more than adding the cells up.
    fn batches(&self, grouped: &[usize], workers: usize) -> Option<Batches> {
        let counts = self.blocks.chunk_counts();
        let total = self.blocks.count()?;
        if self.part.kept.is_some() || total == 0 {
            return None;
        }
        let grid = self.part.grid.chunk_grid();
        let extents = grid.chunk_shape().iter().zip(grid.shape());
        let extents: Vec<u64> = extents.map(|(chunk, all)| *chunk.min(all)).collect();
        let product = |is_grouped: bool| -> u64 {
            let extents = extents.iter().enumerate();
            extents
                .filter(|(axis, _)| grouped.contains(axis) == is_grouped)
                .fold(1, |product, (_, extent)| extent.saturating_mul(product))
        };
        let (rows, groups) = (product(false), product(true));
        if groups < FEW_GROUPS || rows >= ROWS {
            return None;
        }
        let axis = (0..counts.len())
            .filter(|axis| !grouped.contains(axis))
            .max_by_key(|axis| counts[*axis])?;
        let fair = total / (workers as u64 * UNITS_PER_WORKER);
        let bytes = rows
            .saturating_mul(groups)
            .saturating_mul(CELL_BYTES)
            .saturating_mul(self.attributes.len() as u64);
        let size = (ROWS / rows.max(1))
            .min(counts[axis])
            .min(fair)
            .min(BATCH_BYTES / bytes.max(1));
        (size > 1).then_some(Batches {
            axis,
            size,
            counts,
            bytes: bytes * size,
        })
    }
}

impl Batches {
    fn steps(&self, axis: usize, count: u64) -> u64 {
        if axis == self.axis {
            count.div_ceil(self.size)
        } else {
            count
        }
    }
}

/// Restricts the parts to what conjuncts over single dimensions leave, and keeps the other conjuncts.
fn narrow(
    conjuncts: &mut Vec<Arc<dyn PhysicalExpr>>,
    parts: &mut [GridPart],
    dimensions: usize,
) -> Result<()> {
    let mut error = None;
    conjuncts.retain(|conjunct| {
        let columns = collect_columns(conjunct);
        let mut numbers = columns.iter().map(|column| column.index());
        let dimension = match (numbers.next(), numbers.next()) {
            (Some(only), None) if only < dimensions => only,
            _ => return true,
        };
        let mut sets: Vec<IndexSet> = Vec::with_capacity(parts.len());
        for part in parts.iter() {
            let selected = &part.selection.axes()[dimension];
            match evaluate_physical(&part.grid.axes()[dimension], conjunct, selected) {
                Ok(Some(set)) => sets.push(set),
                // It can be asked of every row.
                Ok(None) => return true,
                Err(failure) => {
                    error = Some(failure);
                    return true;
                }
            }
        }
        for (part, set) in parts.iter_mut().zip(&sets) {
            part.selection.restrict(dimension, set);
        }
        false
    });
    match error {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}
