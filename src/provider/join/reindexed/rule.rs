//! Finds joins that read one array on the axes of the other.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::joins::utils::JoinOn;

use crate::grid::ChunkGrid;
use crate::provider::join::lookup::build::key_bounds::between_extremes;
use crate::provider::join::lookup::key_positions::{KeyPositions, holds};
use crate::provider::join::lookup::keys::{KeyTerms, NO_KEY};
use crate::provider::join::reindexed::{ReindexedGrid, lengths};
use crate::provider::join::side::Side;
use crate::provider::plans::below::replace_columns;
use crate::provider::plans::identity::Identity;
use crate::provider::plans::safety::may_fail;
use crate::provider::source::GridSource;

/// Arrays that have at most one cell for so many of the other array are collected by a lookup join, which can
/// group by them.
const MAX_REPEATED: u64 = 4;

/// The maximum number of cells that a window may decode.
const MAX_CELLS: f64 = (1 << 23) as f64;

/// The side of a join that is read on the axes of the other side.
pub(in crate::provider::join) struct Reindexed {
    /// The array on the axes of the other side.
    pub grid: Arc<dyn GridSource>,
    /// The dimensions of the array, as expressions over the columns of the other side's table.
    pub dimensions: Vec<Arc<dyn PhysicalExpr>>,
    /// Predicates over the columns of the other side's table that hold for its cells that have a match.
    /// Empty if all selected cells have one.
    pub bounds: Vec<Arc<dyn PhysicalExpr>>,
    /// The join keys that are not dimensions of the array, or not expressions over dimensions of the other side.
    pub other_keys: JoinOn,
}

impl Reindexed {
    /// Returns the array `values` on the axes of `other`. `on` are the join keys of both. Returns `None` if
    ///
    /// - the join keys do not equate each dimension of `values` with an expression over other dimensions than the rest,
    /// - coordinates of `values` repeat, or the cells without a match are not those outside the range of its coordinates,
    /// - a filter on `values` may fail, or
    /// - more cells would be decoded than by reading both arrays.
    ///
    /// `keeps_all` tells that cells of the other side without a match are read as well.
    pub fn of(values: &Side, other: &Side, on: &JoinOn, keeps_all: bool) -> Result<Option<Self>> {
        if is_small_beside(values, other) {
            return Ok(None);
        }
        if values
            .below
            .node
            .plan()
            .selected_by
            .filters
            .iter()
            .any(may_fail)
        {
            return Ok(None);
        }
        let Some((dimensions, other_keys)) = dimensions(values, other, on)? else {
            return Ok(None);
        };
        let schema = other.below.node.source().schema();
        let (mut positions, mut bounds) = (Vec::new(), Vec::new());
        for (axis, key) in dimensions.iter().enumerate() {
            let found = KeyPositions::try_new(key, &other.part, &values.part.grid, axis)?;
            let Some(found) = found else {
                return Ok(None);
            };
            if !found.is_found.iter().all(|is_found| *is_found) {
                let Some(predicate) = between_extremes(key, &found.coordinates, schema)? else {
                    return Ok(None);
                };
                if holds(&predicate, &other.part)?.as_ref() != Some(&found.is_found) {
                    return Ok(None);
                }
                bounds.push(predicate);
            }
            positions.push(found.positions);
        }
        let chunks = values.part.grid.chunk_grid();
        let (decoded, largest) = decoded_cells(&positions, &other.part.grid, chunks, keeps_all);
        let by_both: f64 = [values, other].into_iter().map(read_cells).sum();
        if decoded > by_both || largest > MAX_CELLS {
            return Ok(None);
        }
        let dimensions = dimensions.into_iter().map(|key| present(key, schema));
        let dimensions = dimensions.collect::<Result<_>>()?;
        let grid = ReindexedGrid::try_new(&values.part.grid, &other.part.grid, positions);
        Ok(grid.map(|grid| Self {
            grid: Arc::new(grid),
            dimensions,
            bounds,
            other_keys,
        }))
    }
}

/// Returns `true` if an array has so few selected cells that a lookup join collects them, or the other side has none.
pub(in crate::provider::join) fn is_small_beside(values: &Side, other: &Side) -> bool {
    let [own, cells] = [values, other].map(|side| side.part.selection.count().unwrap_or(u64::MAX));
    own <= cells / MAX_REPEATED || cells == 0
}

/// Dimensions as expressions over the columns of another table, and join keys that are none.
type Dimensions = (Vec<Arc<dyn PhysicalExpr>>, JoinOn);

/// Returns the dimensions of `values` as expressions over the columns of the other side's table, no two of which share a
/// dimension, and the other join keys; `None` if the keys do not give one for each.
fn dimensions(values: &Side, other: &Side, on: &JoinOn) -> Result<Option<Dimensions>> {
    let axes = other.part.grid.axes().len();
    let mut taken = BTreeSet::new();
    let mut dimensions = vec![None; values.part.grid.axes().len()];
    let mut other_keys = Vec::new();
    for (own, key) in on {
        let over_other = replace_columns(key, &|number| other.below.columns.get(number).cloned())?;
        let used = collect_columns(&over_other);
        let used: BTreeSet<usize> = used.iter().map(Column::index).collect();
        let is_apart = used
            .iter()
            .all(|axis| *axis < axes && !taken.contains(axis));
        if is_volatile(&over_other) {
            return Ok(None);
        }
        match values.dimension(own)? {
            Some(axis) if dimensions[axis].is_none() && is_apart && !used.is_empty() => {
                dimensions[axis] = Some(over_other);
                taken.extend(used);
            }
            _ => other_keys.push((Arc::clone(own), Arc::clone(key))),
        }
    }
    let dimensions: Option<Vec<_>> = dimensions.into_iter().collect();
    Ok(dimensions.map(|dimensions| (dimensions, other_keys)))
}

/// Declares a key non-null: it equals a coordinate.
fn present(key: Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    if !key.nullable(schema)? {
        return Ok(key);
    }
    let function = Arc::new(ScalarUDF::from(Identity::present()));
    let config = Arc::new(ConfigOptions::default());
    let present = ScalarFunctionExpr::try_new(function, vec![key], schema, config)?;
    Ok(Arc::new(present))
}

/// Returns the approximate number of cells of the chunks that a scan reads.
fn read_cells(side: &Side) -> f64 {
    let chunks = side.part.grid.chunk_grid();
    let extents = chunks.chunk_shape().iter().zip(chunks.shape());
    let extents = extents.map(|(extent, length)| *extent.min(length) as f64);
    let count = side.part.selection.chunks(chunks).count();
    count.unwrap_or(u64::MAX) as f64 * extents.product::<f64>()
}

/// Returns the approximate number of cells that are decoded if an array with these `chunks` is read by the windows of
/// `grid`, for all windows together, and for the largest. A chunk is decoded once for each window that reads from it. Windows
/// without a match read the first chunk if `keeps_all` is `true`.
fn decoded_cells(
    positions: &[KeyTerms],
    grid: &Arc<dyn GridSource>,
    chunks: &ChunkGrid,
    keeps_all: bool,
) -> (f64, f64) {
    let windows = grid.chunk_grid();
    let (mut cells, mut largest) = (1.0, 1.0);
    let mut others: BTreeSet<usize> = (0..windows.shape().len()).collect();
    let lengths = lengths(grid);
    for (own_axis, KeyTerms { axes, terms }) in positions.iter().enumerate() {
        let chunks = chunks.axis(own_axis);
        // For each window along these axes, the smallest and the largest index.
        let counts = axes.iter().map(|axis| windows.axis(*axis).count());
        let mut ranges: Vec<Option<(u64, u64)>> = vec![None; counts.product::<u64>() as usize];
        for (combination, index) in terms.iter().enumerate() {
            if *index == NO_KEY {
                continue;
            }
            let mut rest = combination as u64;
            let (mut window, mut stride) = (0, 1);
            for axis in axes.iter().rev() {
                let along = windows.axis(*axis);
                window += along.chunk_at(rest % lengths[*axis]) * stride;
                stride *= along.count();
                rest /= lengths[*axis];
            }
            let index = u64::from(*index);
            let (first, last) = ranges[window as usize].get_or_insert((index, index));
            (*first, *last) = (index.min(*first), index.max(*last));
        }
        let ranges = ranges.into_iter();
        let ranges = ranges.filter_map(|range| range.or(keeps_all.then_some((0, 0))));
        let touched = ranges.map(|(first, last)| {
            let touched = chunks.chunk_at(first)..chunks.chunk_at(last) + 1;
            let span = chunks.span(&touched);
            (span.end - span.start) as f64
        });
        largest *= touched.clone().fold(0.0, f64::max);
        cells *= touched.sum::<f64>();
        others.retain(|axis| !axes.contains(axis));
    }
    let repeated = others.iter().map(|axis| windows.axis(*axis).count() as f64);
    (cells * repeated.product::<f64>(), largest)
}
