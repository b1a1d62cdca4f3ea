//! Expressions over two dimensions, evaluated on every pair of selected coordinates.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::{Result, resources_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use crate::grid::reduce::AxisGroups;
use crate::grid::{Cells, IndexSet, Selection, Window};
use crate::provider::aggregate::plan::grid_classes::GridClasses;
use crate::provider::aggregate::plan::group_keys::{GroupKeys, evaluate_on};
use crate::provider::planning::dynamic::is_dynamic;
use crate::provider::planning::mask::mask;
use crate::provider::planning::product_mask::{SEGMENT, for_each_combination};
use crate::provider::source::GridSelection;

/// The maximum number of pairs of coordinates on which expressions are evaluated.
const MAX_PAIRS: u64 = 16 << 20;
/// A number of pairs that is always accepted.
const FEW_PAIRS: u64 = 64 << 10;
/// The minimum number of selected cells per pair, if there are more pairs. The pairs are evaluated while
/// the query is planned, which must take far less time than reading the cells.
const MIN_CELLS: u64 = 16;
/// The maximum number of pairs whose group index is kept in memory.
const MAX_KEPT: usize = 4 << 20;
/// The maximum number of groups of expressions over two dimensions.
const MAX_PAIR_GROUPS: usize = 1 << 20;
/// The group index of a pair that a predicate rejects.
const REJECTED: u32 = u32::MAX;

/// The group index of each pair of coordinates along two dimensions; for a predicate, whether the pair
/// satisfies it.
///
/// Coordinates along the first dimension with the same group indices share a line:
///
/// ```text
/// date_part('hour', time + lon / 15 * INTERVAL '1 hour')
///
///               lon  0   15   30
/// time 00:00         0    1    2     line 0
///      01:00         1    2    3     line 1
///      00:00 (+1 d)  0    1    2     line 0
/// ```
#[derive(Debug)]
pub(crate) struct AxisPair {
    /// The dimensions, ascending.
    pub axes: [usize; 2],
    /// `true` if the group indices are those of grouping expressions.
    is_grouped: bool,
    /// For each grid, its group indices; `None` if the grid has no selected cells.
    grids: Vec<Option<Arc<PairGroups>>>,
}

/// The groups of expressions over two dimensions.
#[derive(Debug)]
pub(crate) struct GroupPair {
    /// The group index of each pair.
    pub pair: AxisPair,
    /// For each grouping expression over the pair, its value in each group.
    pub values: Vec<ArrayRef>,
    pub count: usize,
}

/// The group indices of the pairs of one grid.
#[derive(Debug)]
struct PairGroups {
    /// The selected indices along each of the two axes when the expressions were evaluated.
    selected: [IndexSet; 2],
    /// For each selected index along the first axis, the index of its line.
    line_of: Vec<u32>,
    /// The group indices of the lines, one after another: one for each selected index along the second axis.
    lines: Vec<u32>,
}

/// Returns the two dimensions that an expression refers to; `None` if it refers to others, too, or if its
/// value is not known before the query runs.
pub(crate) fn pair_of(expr: &Arc<dyn PhysicalExpr>, dimensions: usize) -> Option<[usize; 2]> {
    let columns: BTreeSet<usize> = collect_columns(expr).iter().map(Column::index).collect();
    let mut columns = columns.into_iter();
    let axes = [columns.next()?, columns.next()?];
    let is_pair = columns.next().is_none() && axes[1] < dimensions && !is_dynamic(expr);
    is_pair.then_some(axes)
}

impl GroupPair {
    /// Finds the groups of expressions over two dimensions. Returns `None` if an expression fails on a
    /// pair of coordinates, or if there are too many pairs or groups.
    ///
    /// # Errors
    /// Fails if coordinates cannot be read.
    pub fn try_new(
        expressions: &[&Arc<dyn PhysicalExpr>],
        axes: [usize; 2],
        parts: &[GridSelection],
    ) -> Result<Option<Self>> {
        let mut keys = GroupKeys::default();
        let pair = AxisPair::try_new(axes, true, parts, |pairs| {
            let groups = keys.intern(evaluate_on(expressions, pairs)?)?;
            if keys.count() > MAX_PAIR_GROUPS {
                return resources_err!("there are more than {MAX_PAIR_GROUPS} groups");
            }
            Ok(groups)
        })?;
        let Some(pair) = pair else {
            return Ok(None);
        };
        Ok(Some(Self {
            pair,
            count: keys.count(),
            values: keys.values()?,
        }))
    }
}

impl AxisPair {
    /// Evaluates a predicate over two dimensions. Returns `None` if it fails on a pair of coordinates, or
    /// if there are too many pairs.
    ///
    /// # Errors
    /// Fails if coordinates cannot be read.
    pub fn of_predicate(
        predicate: &Arc<dyn PhysicalExpr>,
        axes: [usize; 2],
        parts: &[GridSelection],
    ) -> Result<Option<Self>> {
        Self::try_new(axes, false, parts, |pairs| {
            let predicate = reassign_expr_columns(Arc::clone(predicate), pairs.schema_ref())?;
            let mask = mask(&predicate, pairs)?;
            let holds = mask.values().iter();
            Ok(holds
                .map(|holds| if holds { 0 } else { REJECTED })
                .collect())
        })
    }

    fn try_new(
        axes: [usize; 2],
        is_grouped: bool,
        parts: &[GridSelection],
        mut groups_of: impl FnMut(&RecordBatch) -> Result<Vec<u32>>,
    ) -> Result<Option<Self>> {
        let all: Vec<&GridSelection> = parts.iter().collect();
        let classes = [
            GridClasses::of(axes[0], &all)?,
            GridClasses::of(axes[1], &all)?,
        ];
        let cells = GridSelection::cells(parts).unwrap_or(u64::MAX);
        let most = MAX_PAIRS.min(FEW_PAIRS.max(cells / MIN_CELLS));
        let mut known: HashMap<(usize, usize), Arc<PairGroups>> = HashMap::new();
        let mut grids = Vec::with_capacity(parts.len());
        let (mut evaluated, mut kept) = (0u64, 0);
        for (grid, part) in parts.iter().enumerate() {
            let class = (classes[0].of_part[grid]).zip(classes[1].of_part[grid]);
            let Some(class) = class else {
                grids.push(None);
                continue;
            };
            if let Some(groups) = known.get(&class) {
                grids.push(Some(Arc::clone(groups)));
                continue;
            }
            let count = |axis: usize| part.selection.axes()[axis].count();
            evaluated = evaluated.saturating_add(count(axes[0]).saturating_mul(count(axes[1])));
            if evaluated > most || count(axes[1]) > MAX_KEPT as u64 {
                return Ok(None);
            }
            for axis in axes {
                part.grid.axes()[axis].coordinates()?;
            }
            // DataFusion's own plan evaluates the expressions row by row, and reports the error if they fail there.
            let Ok(groups) = PairGroups::try_new(axes, part, &mut groups_of) else {
                return Ok(None);
            };
            kept += groups.lines.len();
            if kept > MAX_KEPT {
                return Ok(None);
            }
            let groups = Arc::new(groups);
            known.insert(class, Arc::clone(&groups));
            grids.push(Some(groups));
        }
        Ok(Some(Self {
            axes,
            is_grouped,
            grids,
        }))
    }

    /// Splits the cells of a window of a grid, a product of indices along the axes, by lines. Each result has
    /// the indices along the first axis that share a line, and those along the second axis that the line does
    /// not reject. The group indices of the line are added to the terms of the second axis.
    pub fn split(
        &self,
        grid: usize,
        window: &Window,
        product: &[AxisGroups],
    ) -> Vec<Vec<AxisGroups>> {
        let Some(pairs) = &self.grids[grid] else {
            return Vec::new();
        };
        let [first, second] = self.axes;
        let (along_first, along_second) = (&product[first], &product[second]);
        let length = pairs.line_length();
        let start = window.ranges()[first].start;
        let mut by_line: BTreeMap<u32, Vec<(usize, u64)>> = BTreeMap::new();
        for (rank, index) in along_first.selected.ranges().flatten().enumerate() {
            let line = pairs.line_of[pairs.selected[0].rank(start + index) as usize];
            by_line.entry(line).or_default().push((rank, index));
        }
        let start = window.ranges()[second].start;
        let second_indices = along_second.selected.ranges().flatten();
        let second_indices =
            second_indices.map(|index| (index, pairs.selected[1].rank(start + index) as usize));
        let second_indices: Vec<(u64, usize)> = second_indices.collect();
        let split = by_line.into_iter().filter_map(|(line, indices)| {
            let groups = &pairs.lines[line as usize * length..][..length];
            let counted = second_indices.iter().enumerate();
            let counted = counted.filter(|(_, (_, rank))| groups[*rank] != REJECTED);
            let ranges = counted.clone().map(|(_, (index, _))| *index..index + 1);
            let selected = IndexSet::from_ranges(along_second.selected.length(), ranges);
            if selected.is_empty() {
                return None;
            }
            let term = |(own, (_, rank)): (usize, &(u64, usize))| {
                let before = along_second.terms.as_ref().map_or(0, |terms| terms[own]);
                before + groups[*rank] as usize
            };
            let has_terms = self.is_grouped || along_second.terms.is_some();
            let terms = has_terms.then(|| counted.map(term).collect());
            let of_second = AxisGroups { selected, terms };
            let ranges = indices.iter().map(|(_, index)| *index..index + 1);
            let of_first = AxisGroups {
                selected: IndexSet::from_ranges(along_first.selected.length(), ranges),
                terms: along_first.terms.as_ref().map(|terms| {
                    let terms = indices.iter().map(|(rank, _)| terms[*rank]);
                    terms.collect()
                }),
            };
            let axes = product.iter().enumerate().map(|(axis, groups)| match axis {
                axis if axis == first => of_first.clone(),
                axis if axis == second => of_second.clone(),
                _ => groups.clone(),
            });
            Some(axes.collect())
        });
        split.collect()
    }

    /// Adds the group index of each row's pair to `sums`. The rows are those of the selected cells of a
    /// window of a grid.
    pub fn add_terms(
        &self,
        grid: usize,
        window: &Window,
        selection: &Selection,
        cells: &Cells,
        rows: Range<u64>,
        sums: &mut [usize],
    ) {
        let Some(pairs) = &self.grids[grid] else {
            return;
        };
        let mut offsets = vec![0; sums.len()];
        for (side, axis) in self.axes.into_iter().enumerate() {
            let range = window.ranges()[axis].clone();
            let indices = selection.axes()[axis].within(range.clone());
            let ranks = indices.ranges().flatten();
            let ranks = ranks.map(|index| pairs.selected[side].rank(range.start + index) as usize);
            let terms: Vec<usize> = match side {
                0 => {
                    let lines = ranks.map(|rank| pairs.line_of[rank] as usize);
                    lines.map(|line| line * pairs.line_length()).collect()
                }
                _ => ranks.collect(),
            };
            cells.add_terms(axis, &terms, rows.clone(), &mut offsets);
        }
        for (sum, offset) in sums.iter_mut().zip(offsets) {
            *sum += pairs.lines[offset] as usize;
        }
    }
}

impl PairGroups {
    fn try_new(
        axes: [usize; 2],
        part: &GridSelection,
        groups_of: &mut impl FnMut(&RecordBatch) -> Result<Vec<u32>>,
    ) -> Result<Self> {
        let selected = axes.map(|axis| part.selection.axes()[axis].clone());
        let length = selected[1].count();
        let mut known: HashMap<Box<[u32]>, u32> = HashMap::new();
        let mut line_of: Vec<u32> = Vec::with_capacity(selected[0].count() as usize);
        let mut lines: Vec<u32> = Vec::new();
        let segment = (SEGMENT / length.max(1)).max(1) * length;
        for_each_combination(part.grid.axes(), &axes, &selected, segment, |pairs| {
            for line in groups_of(pairs)?.chunks_exact(length as usize) {
                let next = known.len() as u32;
                let index = known.get(line).copied();
                line_of.push(index.unwrap_or_else(|| {
                    known.insert(line.into(), next);
                    lines.extend(line);
                    next
                }));
            }
            if lines.len() > MAX_KEPT {
                return resources_err!("there are more than {MAX_KEPT} pairs of coordinates");
            }
            Ok(())
        })?;
        Ok(Self {
            selected,
            line_of,
            lines,
        })
    }

    /// Returns the number of selected indices along the second axis.
    fn line_length(&self) -> usize {
        self.selected[1].count() as usize
    }
}
