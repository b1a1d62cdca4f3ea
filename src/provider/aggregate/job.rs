//! The work of an aggregation, in units that workers take one after another.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::utils::collect_columns;

use crate::grid::Selection;
use crate::grid::reduce::Counts;
use crate::provider::aggregate::aggregation::Aggregation;
use crate::provider::aggregate::axis_filters::{AxisFilters, narrow};
use crate::provider::aggregate::groups::{Groups, group_columns};
use crate::provider::aggregate::program::{Columns, Output, Program};
use crate::provider::grid_blocks::GridBlocks;
use crate::provider::options::ReadOptions;
use crate::provider::pruning::with_subquery_values;
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

/// The chunks of one grid.
#[derive(Debug)]
pub(super) struct JobPart {
    pub part: GridPart,
    /// The chunks, by the selection that the scan was planned with.
    pub blocks: GridBlocks,
    batches: Option<Batches>,
    /// For each restriction of the program what it leaves of the selected cells.
    pub restricted: Vec<Selection>,
    /// Whether something is known of the values of a reduction's attribute.
    pub is_known: Vec<bool>,
}

/// Chunks that follow each other along an axis which is not grouped by, several at a time.
#[derive(Debug)]
struct Batches {
    axis: usize,
    size: u64,
    /// Chunks along each axis.
    counts: Vec<u64>,
}

impl Job {
    /// Prepares an aggregation over some parts of a table, for so many workers. Reads coordinates, but no values.
    pub fn try_new(
        aggregation: &Aggregation,
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
        let file = parts
            .iter()
            .any(|part| part.file.is_some())
            .then(|| schema.fields().len() - 1);
        let Some(columns) = group_columns(&aggregation.groups, dimensions, file) else {
            return internal_err!("an aggregation is grouped by more than single dimensions");
        };
        let groups = Groups::try_new(&aggregation.groups, &columns, &parts, most_groups)?;
        let filters = AxisFilters::try_new(&aggregation, &parts, dimensions)?;
        let columns_of_table = Columns::of(&parts, &options);
        let program = Program::new(&aggregation, &columns_of_table, &|conjunct| {
            filters.contain(conjunct)
        });
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
        let is_read = program.needs_rows() || !program.reductions.is_empty();
        let mut ends = Vec::with_capacity(parts.len());
        let mut end = 0u64;
        let mut job_parts = Vec::with_capacity(parts.len());
        for (number, (part, original)) in parts.into_iter().zip(originals).enumerate() {
            let blocks = GridBlocks::new(&part.grid, original);
            let known = program
                .reductions
                .iter()
                .map(|plan| blocks.has_statistics(dimensions + plan.attribute, &options));
            let restrictions = program.restrictions.iter();
            let restricted =
                restrictions.map(|conjuncts| filters.restrict(&part.selection, number, conjuncts));
            let mut part = JobPart {
                is_known: known.collect(),
                restricted: restricted.collect(),
                batches: None,
                blocks,
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
        Ok(Self {
            aggregation,
            program,
            groups,
            parts: job_parts,
            schema: Arc::clone(schema),
            options,
            row_columns: row_columns.into_iter().collect(),
            attributes: attributes.into_iter().collect(),
            ends,
            next: AtomicU64::new(0),
        })
    }

    /// How many units there are.
    pub fn units(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Bytes that the results of all groups take, about.
    pub fn bytes(&self) -> usize {
        let reductions = self.program.reductions.iter().map(|plan| {
            let size = plan.format.cell_type.size();
            let wanted = &plan.wanted;
            16 + size * (usize::from(wanted.least) + usize::from(wanted.greatest))
                + if wanted.deviation { 24 } else { 0 }
                + if plan.others { 8 } else { 0 }
        });
        let engine = self
            .program
            .outputs
            .iter()
            .filter(|output| **output == Output::Engine);
        let counts = 8 + 8 * self.program.restrictions.len();
        let per_group = counts + reductions.sum::<usize>() + engine.count() * 16;
        per_group.saturating_mul(self.groups.count())
    }

    /// How many selected cells each group has, of those that a restriction leaves, if there is one.
    pub fn cells(&self, restriction: Option<usize>) -> Result<Counts> {
        let parts = self.parts.iter();
        let parts = parts.map(|part| (&part.part.selection, part.selection(restriction)));
        self.groups.cells(&parts.collect::<Vec<_>>())
    }

    /// Whether no chunk was left out for the values of its cells.
    pub fn looks_at_all(&self) -> bool {
        self.parts.iter().all(|part| part.part.kept.is_none())
    }

    /// The selections of a part whose cells are read.
    pub fn read_selections<'a>(&self, part: &'a JobPart) -> impl Iterator<Item = &'a Selection> {
        let reductions = self.program.reductions.iter();
        let restrictions = reductions.map(|plan| plan.restriction);
        let rows = self.program.needs_rows().then_some(None);
        restrictions
            .chain(rows)
            .map(|restriction| part.selection(restriction))
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
    /// The selected cells that a restriction leaves, if there is one.
    pub fn selection(&self, restriction: Option<usize>) -> &Selection {
        restriction.map_or(&self.part.selection, |number| &self.restricted[number])
    }

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
        let bytes = rows.saturating_mul(groups).saturating_mul(CELL_BYTES);
        let size = (ROWS / rows.max(1))
            .min(counts[axis])
            .min(fair)
            .min(BATCH_BYTES / bytes.max(1));
        (size > 1).then_some(Batches { axis, size, counts })
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
