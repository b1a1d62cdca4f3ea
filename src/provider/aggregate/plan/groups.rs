//! The groups of an aggregation, and the group index of every cell.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::take;
use datafusion::common::{Result, exec_err, resources_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;

use crate::grid::reduce::{AxisGroups, Counts, GroupCounts, IndexCounts, index_counts};
use crate::grid::{Cells, Coordinates, IndexSet, Selection, Window};
use crate::provider::aggregate::plan::grid_classes::{GridClasses, SelectedCoordinates};
use crate::provider::aggregate::plan::group_axis::{GroupAxis, evaluate};
use crate::provider::plans::below::may_fail;
use crate::provider::source::GridSelection;

/// The maximum number of groups of an aggregation. DataFusion's own plan computes larger ones.
pub(crate) const MAX_GROUPS: usize = 1 << 26;
/// The maximum number of coordinates on which expressions are evaluated while a query is planned.
const MAX_TRIED: u64 = 1 << 20;

/// The groups of an aggregation: the cross product of the groups along the single axes.
///
/// The group index of a cell is a sum of one term per grouped axis, so no key is hashed:
///
/// ```text
/// GROUP BY date_trunc('day', time), lat
///
/// time (stride 3):  ordinals [0, 0, 1, 1]    group index of cell [t, y, x]
/// lat  (stride 1):  ordinals [0, 1, 2]         = time.ordinals[t] * 3 + lat.ordinals[y] * 1
/// ```
#[derive(Debug)]
pub(crate) struct Groups {
    axes: Vec<GroupAxis>,
    count: usize,
    /// For each grouping expression, the index of its axis in `axes` and its ordinal among the
    /// expressions over that axis.
    columns: Vec<(usize, usize)>,
}

/// Returns the column that each grouping expression refers to; `None` if an expression refers to no
/// column, to several columns, or to a column other than the first `dimensions` columns and `file`.
pub(crate) fn group_columns(
    groups: &[Arc<dyn PhysicalExpr>],
    dimensions: usize,
    file: Option<usize>,
) -> Option<Vec<usize>> {
    let column = |expr: &Arc<dyn PhysicalExpr>| {
        let columns = collect_columns(expr);
        let mut columns = columns.iter().map(Column::index);
        let column = columns.next()?;
        let is_known = column < dimensions || Some(column) == file;
        (is_known && columns.all(|other| other == column)).then_some(column)
    };
    groups.iter().map(column).collect()
}

/// Returns an upper bound on the number of groups: the product, over the columns, of the number of
/// selected indices. Grids with the same coordinates along a column count once. `None` if the
/// product exceeds `u64::MAX`.
pub(crate) fn most_groups(columns: &[usize], parts: &[GridSelection]) -> Option<u64> {
    let parts: Vec<&GridSelection> = parts.iter().collect();
    let mut columns = columns.to_vec();
    columns.sort_unstable();
    columns.dedup();
    columns.into_iter().try_fold(1u64, |groups, column| {
        let positions = |part: &GridSelection| {
            let set = part.selection.axes().get(column);
            set.map_or(1, IndexSet::count)
        };
        let along = match GridClasses::of(column, &parts) {
            Ok(same) => same
                .firsts
                .iter()
                .try_fold(0u64, |sum, first| sum.checked_add(positions(parts[*first]))),
            // Unreadable coordinates are reported when the query reads them.
            Err(_) => parts
                .iter()
                .try_fold(0u64, |sum, part| sum.checked_add(positions(part))),
        };
        groups.checked_mul(along?)
    })
}

/// Returns `true` if none of these expressions, each over one of `columns`, fails on a selected
/// coordinate. Evaluates the expressions on at most [`MAX_TRIED`] coordinates; beyond that only
/// checks which operations the expressions consist of.
pub(crate) fn never_fail(
    expressions: &[Arc<dyn PhysicalExpr>],
    columns: &[usize],
    parts: &[GridSelection],
) -> bool {
    let fails = |expr: &Arc<dyn PhysicalExpr>, column: usize, part: &GridSelection| {
        let Ok(along) = SelectedCoordinates::of(part, column) else {
            return true;
        };
        if along.count() > MAX_TRIED {
            return may_fail(expr);
        }
        let coordinates = along.coordinates(0..along.count());
        coordinates
            .and_then(|coordinates| evaluate(&[expr], along.name, coordinates))
            .is_err()
    };
    let pairs = expressions.iter().zip(columns);
    pairs
        .filter(|(expr, _)| !expr.is::<Column>())
        .all(|(expr, column)| !parts.iter().any(|part| fails(expr, *column, part)))
}

impl Groups {
    /// Computes the groups of these expressions, each over one of `columns`, from the selected
    /// coordinates of all grids.
    ///
    /// # Errors
    /// Fails if coordinates cannot be read, an expression fails, or there are more than
    /// [`MAX_GROUPS`] groups.
    pub fn try_new(
        expressions: &[Arc<dyn PhysicalExpr>],
        columns: &[usize],
        parts: &[GridSelection],
    ) -> Result<Self> {
        let mut by_axis: Vec<(usize, Vec<&Arc<dyn PhysicalExpr>>)> = Vec::new();
        let mut places = Vec::with_capacity(expressions.len());
        for (expr, column) in expressions.iter().zip(columns) {
            match by_axis.iter().position(|(axis, _)| axis == column) {
                Some(axis) => {
                    by_axis[axis].1.push(expr);
                    places.push((axis, by_axis[axis].1.len() - 1));
                }
                None => {
                    by_axis.push((*column, vec![expr]));
                    places.push((by_axis.len() - 1, 0));
                }
            }
        }
        let all: Vec<&GridSelection> = parts.iter().collect();
        let axes = by_axis
            .iter()
            .map(|(column, expressions)| GroupAxis::try_new(*column, expressions, &all));
        let mut axes = axes.collect::<Result<Vec<_>>>()?;
        // Strides follow the order of the cells: the last axis varies fastest, the file slowest.
        let dimensions = parts.first().map_or(0, |part| part.grid.axes().len());
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|axis| {
            let column = axes[*axis].column;
            if column < dimensions { column + 1 } else { 0 }
        });
        let mut count = 1usize;
        for axis in order.into_iter().rev() {
            axes[axis].stride = count;
            count = match count.checked_mul(axes[axis].count) {
                Some(count) if count <= MAX_GROUPS => count,
                _ => return resources_err!("there are more than {MAX_GROUPS} groups"),
            };
        }
        Ok(Self {
            axes,
            count,
            columns: places,
        })
    }

    /// Returns the groups along each grouped axis.
    pub fn axes(&self) -> &[GroupAxis] {
        &self.axes
    }

    /// Returns the number of groups.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the cells of one chunk of the grid with index `part`: the indices along each axis
    /// with their terms of the group index, and the base that is added for every cell. The cells
    /// are those of `wanted`, which is `selection` or a restriction of it.
    pub fn of_window(
        &self,
        part: usize,
        selection: &Selection,
        wanted: &Selection,
        window: &Window,
    ) -> (Vec<AxisGroups>, usize) {
        let ranges = window.ranges().iter().zip(wanted.axes());
        let mut axes: Vec<AxisGroups> = ranges
            .map(|(range, set)| AxisGroups {
                selected: set.within(range.clone()),
                terms: None,
            })
            .collect();
        let mut base = 0;
        for axis in &self.axes {
            let Some(ordinals) = axis.ordinals(part) else {
                continue;
            };
            let Some(in_window) = axes.get_mut(axis.column) else {
                base += ordinals.of(0) * axis.stride;
                continue;
            };
            let start = window.ranges()[axis.column].start;
            let indices = in_window.selected.ranges();
            let indices = indices.map(|range| start + range.start..start + range.end);
            // The terms of the selected indices fit into memory, since their coordinates do. Those of
            // all indices of a chunk may not.
            in_window.terms = Some(axis.terms(part, selection, indices));
        }
        (axes, base)
    }

    /// Returns the number of cells of these grids in each group. Each grid is given by its
    /// selection and a restriction of it, whose cells are counted.
    ///
    /// # Errors
    /// Fails if a count exceeds `i64::MAX`.
    pub async fn cells<'a>(
        &self,
        parts: impl Iterator<Item = (&'a Selection, &'a Selection)>,
    ) -> Result<Counts> {
        let all = self.grouped_grids(parts, None);
        let times = |grids: &GroupedGrids| {
            let times = grids.parts.iter().map(|(_, times)| *times);
            times.fold(0, u64::saturating_add)
        };
        let same = match all.as_slice() {
            [] => Some(0),
            [grids] => grids
                .counts
                .same(self.count)
                .map(|same| same.saturating_mul(times(grids))),
            _ => None,
        };
        if let Some(same) = same {
            return checked(Counts::Same(same));
        }
        let mut counts = vec![0u64; self.count];
        for grids in &all {
            let times = times(grids);
            grids.counts.for_each(|group, cells| {
                counts[group] = counts[group].saturating_add(cells.saturating_mul(times));
            });
            tokio::task::yield_now().await;
        }
        checked(Counts::Each(counts.into()))
    }

    /// Collects the grids that have the same number of indices in each group, without the groups
    /// along the column `without`. Each grid is given as in [`Self::cells`].
    pub fn grouped_grids<'a>(
        &self,
        parts: impl Iterator<Item = (&'a Selection, &'a Selection)>,
        without: Option<usize>,
    ) -> Vec<GroupedGrids> {
        let mut axes: Vec<_> = self.axes.iter().map(AxisCounts::new).collect();
        axes.retain(|counts| Some(counts.axis.column) != without);
        // Visit the groups in ascending order.
        axes.sort_by_key(|counts| Reverse(counts.axis.stride));
        let mut places: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut all: Vec<GroupedGrids> = Vec::new();
        for (part, (selection, wanted)) in parts.enumerate() {
            if wanted.is_empty() {
                continue;
            }
            let key = axes
                .iter_mut()
                .map(|axis| axis.place(part, selection, wanted));
            let key: Vec<usize> = key.collect();
            let others = wanted.axes().iter().enumerate().filter(|(column, _)| {
                Some(*column) != without && self.axes.iter().all(|axis| axis.column != *column)
            });
            let times = others.fold(1, |times: u64, (_, set)| times.saturating_mul(set.count()));
            let along = axes.iter().zip(&key);
            let along: Vec<_> = along
                .map(|(axis, number)| &axis.distinct[*number])
                .collect();
            let number = *places.entry(key).or_insert_with(|| {
                all.push(GroupedGrids {
                    counts: GroupCounts::of_axes(along),
                    parts: Vec::new(),
                });
                all.len() - 1
            });
            all[number].parts.push((part, times));
        }
        all
    }

    /// Returns the value of each grouping expression for a range of group indices.
    pub fn values_of_range(&self, groups: Range<usize>) -> Result<Vec<ArrayRef>> {
        // The groups form a grid of their own, with the axes in the order of descending strides.
        let mut order: Vec<usize> = (0..self.axes.len()).collect();
        // An axis with a single group shares its stride with a neighbour. Its place does not
        // matter.
        order.sort_by_key(|axis| Reverse((self.axes[*axis].stride, self.axes[*axis].count)));
        let counts = order.iter().map(|axis| self.axes[*axis].count as u64);
        let counts: Vec<u64> = counts.collect();
        let window = Window::new(counts.iter().map(|count| 0..*count).collect());
        let cells = Cells::new(&window, &Selection::all(&counts));
        let range = groups.start as u64..groups.end as u64;
        let columns = self.columns.iter().map(|(axis, number)| {
            let index = order.iter().position(|other| other == axis).unwrap_or(0);
            let values = Coordinates::Values(Arc::clone(&self.axes[*axis].values[*number]));
            // Grouping values may be null, which coordinates are not.
            if self.axes[*axis].values[*number].null_count() > 0 {
                return self.take(*axis, *number, groups.clone());
            }
            Ok(cells.coordinates(index, &values, range.clone())?)
        });
        columns.collect()
    }

    /// Returns the value of each grouping expression for some group indices.
    pub fn values(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        let columns = self.columns.iter();
        columns
            .map(|(axis, number)| self.take(*axis, *number, groups.iter().copied()))
            .collect()
    }

    fn take(
        &self,
        axis: usize,
        number: usize,
        groups: impl Iterator<Item = usize>,
    ) -> Result<ArrayRef> {
        let axis = &self.axes[axis];
        let ordinals = groups.map(|group| (group / axis.stride % axis.count) as u64);
        let ordinals = UInt64Array::from_iter_values(ordinals);
        Ok(take(&axis.values[number], &ordinals, None)?)
    }
}

/// Grids with the same number of indices in each group along each grouped axis.
#[derive(Debug)]
pub(crate) struct GroupedGrids {
    /// The numbers of indices, multiplied over the grouped axes.
    pub counts: GroupCounts,
    /// The grids, each with the number of its cells along all other axes.
    pub parts: Vec<(usize, u64)>,
}

/// The numbers of indices in the groups along one axis, which many grids share.
struct AxisCounts<'a> {
    axis: &'a GroupAxis,
    /// For each class of grids and counted indices, an index into `distinct`. The file column has
    /// no indices.
    known: HashMap<(Option<usize>, Option<&'a IndexSet>), usize>,
    places: HashMap<IndexCounts, usize>,
    distinct: Vec<IndexCounts>,
}

impl<'a> AxisCounts<'a> {
    fn new(axis: &'a GroupAxis) -> Self {
        Self {
            axis,
            known: HashMap::new(),
            places: HashMap::new(),
            distinct: Vec::new(),
        }
    }

    /// Returns the index into `distinct` for a grid.
    fn place(&mut self, part: usize, selection: &Selection, wanted: &'a Selection) -> usize {
        let set = wanted.axes().get(self.axis.column);
        let key = (self.axis.classes.of_part[part], set);
        *self.known.entry(key).or_insert_with(|| {
            let indices = set.into_iter().flat_map(IndexSet::ranges);
            let counts = index_counts(&self.axis.terms(part, selection, indices));
            *self.places.entry(counts).or_insert_with_key(|counts| {
                self.distinct.push(Arc::clone(counts));
                self.distinct.len() - 1
            })
        })
    }
}

/// Checks that all counts fit into `i64`, DataFusion's type of counts.
fn checked(counts: Counts) -> Result<Counts> {
    let most = match &counts {
        Counts::Same(count) => *count,
        Counts::Each(counts) => counts.iter().copied().max().unwrap_or(0),
    };
    if i64::try_from(most).is_err() {
        return exec_err!("a group has 2^63 or more rows, but a count holds at most 2^63 - 1");
    }
    Ok(counts)
}
