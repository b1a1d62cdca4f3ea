//! Scans whose rows are sorted by dimensions.

use std::ops::Range;
use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use crate::grid::{IndexOrder, IndexSet};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::planned_blocks::{BlockOrder, PlannedBlocks};
use crate::provider::planning::pruning::PrunedCounts;
use crate::provider::planning::sorted_blocks::{SortedBlocks, in_turn};
use crate::provider::plans::below::replace_columns;
use crate::provider::scan::grid::sorted::SortedGrid;
use crate::provider::scan::grid::sorted_windows::windows;
use crate::provider::scan::grid::table::GridTable;
use crate::provider::scan::{ArrayScan, ScanPlan, SelectArguments, project};
use crate::provider::source::{
    BlockSource, GridSelection, GridSource, SelectedBlocks, for_columns,
};

/// Fewer rows are sorted in less time than the windows take to plan.
const MIN_ROWS: u64 = 1 << 14;

/// The partitions of a scan whose rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::provider) enum SortedPartitions {
    /// Their rows will be merged. The partitions take turns, so that all of them work meanwhile.
    Merged,
    /// This number of partitions. Rows with the same value of the first key are in the same one.
    ByFirstKey(usize),
}

impl ArrayScan {
    /// Returns a scan that reads the cells in another order, so that the rows of each partition are sorted by these output
    /// columns. Windows of the array are assembled in memory. Returns `None` if a key is not a
    /// dimension, if the array is small or behind a URL, if more than `most_decodes` chunks would be decoded for each that is
    /// selected, or if half of the partitions would be empty.
    pub(in crate::provider) fn sorted_by_axes(
        &self,
        keys: &[(usize, SortOptions)],
        partitions: SortedPartitions,
        most_decodes: u64,
    ) -> Result<Option<Self>> {
        let plan = self.plan.as_ref();
        // The order of the blocks does not matter.
        let grids = self.blocks.list().grid_selections().unwrap_or_default();
        let [part] = grids.as_slice() else {
            return Ok(None);
        };
        let table = GridTable::new(Arc::clone(&part.grid));
        let is_large = part.selection.count().is_none_or(|rows| rows >= MIN_ROWS);
        let reads_most = self.blocks.count().zip(self.blocks.list().count());
        let reads_most = reads_most.is_some_and(|(read, all)| read >= all / 2);
        if plan.fetch.is_some()
            || part.file.is_some()
            || !is_large
            || !reads_most
            || table.schema() != self.source.schema()
        {
            return Ok(None);
        }
        let keys = keys.iter();
        let keys = keys.map(|(column, sort)| Some((*plan.projection.get(*column)?, *sort)));
        let Some(keys) = keys.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let Some(axes) = order_of_axes(part, &keys)? else {
            return Ok(None);
        };
        // The axes are the first columns of a table.
        let moved = |column: usize| {
            let axis = axes.iter().position(|(axis, _)| *axis == column);
            axis.unwrap_or(column)
        };
        let grid = for_columns(&part.grid, &plan.columns);
        let least = match partitions {
            SortedPartitions::Merged => plan.partitions.len(),
            SortedPartitions::ByFirstKey(count) => count,
        };
        // The chunks of combined arrays are not those that are stored.
        let most_decodes = match grid.parts().len() {
            0 | 1 => most_decodes,
            _ => 1,
        };
        let bytes = bytes_per_cell(part, &plan.columns);
        let (chunks, selection) = (grid.chunk_grid(), part.selection.clone());
        let windows = windows(chunks, &axes, &selection, bytes, least as u64, most_decodes);
        let Some(windows) = windows.filter(|_| !is_remote(grid.as_ref(), &plan.options)) else {
            return Ok(None);
        };
        let selected = IndexSet::count(&selection.axes()[axes[0].0]);
        let is_divided = windows.axis(0).count().min(selected) >= (least as u64).div_ceil(2);
        if partitions != SortedPartitions::Merged && !is_divided {
            return Ok(None);
        }
        let Some(sorted) = SortedGrid::try_new(&grid, axes.clone(), selection, windows)? else {
            return Ok(None);
        };
        let source = Arc::new(GridTable::new(Arc::new(sorted)));
        let all = |columns: &[usize]| columns.iter().map(|column| moved(*column)).collect();
        let filters = plan.selected_by.filters.iter().map(|filter| {
            replace_columns(filter, &|column| {
                let column = moved(column);
                let name = source.schema().field(column).name();
                Some(Arc::new(Column::new(name, column)) as Arc<dyn PhysicalExpr>)
            })
        });
        let selected_by = SelectArguments {
            filters: filters.collect::<Result<_>>()?,
            columns: all(&plan.selected_by.columns),
        };
        let SelectedBlocks { blocks, .. } =
            source.select(&selected_by.filters, &selected_by.columns, &plan.options)?;
        // The masks of products of dimensions may be applied in another order, and select more.
        let new = blocks.grid_selections().unwrap_or_default();
        let is_same = new.first().is_some_and(|new| {
            let axes = axes.iter().zip(new.selection.axes());
            let mut axes =
                axes.map(|((axis, order), set)| (order, set, &part.selection.axes()[*axis]));
            axes.all(|(order, set, stored)| order.stored(set) == *stored)
        });
        if !is_same {
            return Ok(None);
        }
        let blocks = PlannedBlocks::new(blocks, BlockOrder::All);
        let columns: Vec<usize> = all(&plan.columns);
        let projection: Vec<usize> = all(&plan.projection);
        let read_schema = project(source.schema(), &columns)?;
        let schema = project(source.schema(), &projection)?;
        if read_schema != self.read_schema || schema != self.schema {
            return Ok(None);
        }
        let keeps_partitions = partitions != SortedPartitions::Merged;
        let divided = match partitions {
            SortedPartitions::ByFirstKey(count) => {
                let partitions = by_first_axis(&blocks, count);
                partitions.map(|partitions| SortedBlocks { blocks, partitions })
            }
            SortedPartitions::Merged => in_turn(&blocks, plan.partitions.len())?,
        };
        let Some(SortedBlocks { blocks, partitions }) = divided else {
            return Ok(None);
        };
        let ordering = keys.iter().map(|(column, sort)| (moved(*column), *sort));
        let mut scan = self.with_plan(ScanPlan {
            projection,
            columns,
            partitions,
            ordering: ordering.collect(),
            keeps_partitions,
            selected_by,
            ..plan.clone()
        });
        scan.source = source;
        scan.blocks = blocks;
        scan.pruned = PrunedCounts::default();
        scan.column_statistics = Arc::default();
        Ok(Some(scan))
    }
}

/// Returns the axes in the order of the keys, and then the others, each with the order of its indices; `None` if
/// the keys are not dimensions, or if cells have equal keys that other keys would have to order.
fn order_of_axes(
    part: &GridSelection,
    keys: &[(usize, SortOptions)],
) -> Result<Option<Vec<(usize, IndexOrder)>>> {
    let axes = part.grid.axes();
    let mut order: Vec<(usize, IndexOrder)> = Vec::with_capacity(axes.len());
    for (column, sort) in keys {
        let Some(axis) = axes.get(*column) else {
            return Ok(None);
        };
        // A repeated key changes nothing.
        if order.iter().any(|(known, _)| known == column) {
            continue;
        }
        match IndexOrder::sorting(axis, sort.descending)? {
            Some(indices) => order.push((*column, indices)),
            None => return Ok(None),
        }
    }
    let others = (0..axes.len()).filter(|axis| !keys.iter().any(|(key, _)| key == axis));
    let others: Vec<_> = others.map(|axis| (axis, IndexOrder::Stored)).collect();
    order.extend(others);
    Ok(Some(order))
}

/// Returns the bytes of a cell in the columns that are read.
fn bytes_per_cell(part: &GridSelection, columns: &[usize]) -> u64 {
    let attributes = columns.iter().filter_map(|column| {
        let attribute = column.checked_sub(part.grid.axes().len())?;
        part.grid.attributes().get(attribute)
    });
    // Texts are at least the size of their views.
    let bytes = attributes.map(|field| field.data_type().primitive_width().unwrap_or(16) as u64);
    bytes.sum()
}

/// Returns `true` if the chunks of an array are fetched, so that reading one several times fetches it several times.
pub(in crate::provider) fn is_remote(grid: &dyn GridSource, options: &ReadOptions) -> bool {
    let chunks = grid.chunk_grid();
    if chunks.count() == Some(0) || grid.attributes().is_empty() {
        return false;
    }
    let first = chunks.window(&vec![0; chunks.shape().len()]);
    grid.fetch(&first, &[0], options).is_some()
}

/// Divides all blocks of a table into ranges. Blocks with the same indices along the first axis are in the same
/// range. Returns `None` if there are too many blocks.
fn by_first_axis(blocks: &PlannedBlocks, count: usize) -> Option<Vec<Range<u64>>> {
    let all = blocks.count()?;
    let grids = blocks.grid_selections()?;
    let part = grids.first()?;
    let chunks = part.selection.chunks(part.grid.chunk_grid());
    let first = chunks.axes().first()?.count().max(1);
    let start = |number: usize| first * number as u64 / count as u64 * (all / first);
    let ranges = (0..count).map(|number| start(number)..start(number + 1));
    Some(ranges.collect())
}
