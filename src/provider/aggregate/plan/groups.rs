//! The groups of an aggregation, and the group index of every cell.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::take;
use datafusion::common::{Result, exec_err, resources_err};
use datafusion::physical_expr::PhysicalExpr;

use crate::grid::reduce::{AxisGroups, Counts, GroupCounts, IndexCounts, index_counts};
use crate::grid::{Cells, Coordinates, IndexSet, Selection, Window};
use crate::provider::aggregate::plan::axis_pairs::{AxisPair, GroupPair};
use crate::provider::aggregate::plan::group_axis::GroupAxis;
use crate::provider::aggregate::plan::group_columns::GroupColumns;
use crate::provider::source::GridSelection;

/// The maximum number of groups of an aggregation. DataFusion's own plan computes larger ones.
pub(crate) const MAX_GROUPS: usize = 1 << 26;

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
///
/// Expressions over two dimensions have one term for each pair of indices ([`GroupPair`]). Their groups vary
/// fastest.
#[derive(Debug)]
pub(crate) struct Groups {
    axes: Vec<GroupAxis>,
    pair: Option<Arc<GroupPair>>,
    count: usize,
    /// For each grouping expression, the index of its axis in `axes`, or the number of axes for the pair, and
    /// its ordinal among the expressions over it.
    columns: Vec<(usize, usize)>,
}

/// Cells as disjoint products of indices along the axes, none of which is empty.
pub(crate) type Products<'a> = Box<dyn Iterator<Item = Vec<AxisGroups>> + Send + 'a>;

impl Groups {
    /// Computes the groups of these expressions, each over one of `columns`, from the selected
    /// coordinates of all grids.
    ///
    /// # Errors
    /// Fails if coordinates cannot be read, an expression fails, or there are more than
    /// [`MAX_GROUPS`] groups.
    pub fn try_new(
        expressions: &[Arc<dyn PhysicalExpr>],
        columns: &[GroupColumns],
        pair: Option<&Arc<GroupPair>>,
        parts: &[GridSelection],
    ) -> Result<Self> {
        let mut by_axis: Vec<(usize, Vec<&Arc<dyn PhysicalExpr>>)> = Vec::new();
        for (expr, columns) in expressions.iter().zip(columns) {
            let GroupColumns::One(column) = columns else {
                continue;
            };
            match by_axis.iter_mut().find(|(axis, _)| axis == column) {
                Some((_, others)) => others.push(expr),
                None => by_axis.push((*column, vec![expr])),
            }
        }
        let mut seen = vec![0; by_axis.len() + 1];
        let indices = columns.iter().map(|columns| {
            let axis = match columns {
                GroupColumns::One(column) => by_axis.iter().position(|(axis, _)| axis == column),
                GroupColumns::Pair => None,
            };
            let index = axis.unwrap_or(by_axis.len());
            seen[index] += 1;
            (index, seen[index] - 1)
        });
        let columns = indices.collect();
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
        let mut count = pair.map_or(1, |pair| pair.count);
        for axis in order.into_iter().rev() {
            axes[axis].stride = count;
            count = match count.checked_mul(axes[axis].count) {
                Some(count) if count <= MAX_GROUPS => count,
                _ => return resources_err!("there are more than {MAX_GROUPS} groups"),
            };
        }
        Ok(Self {
            axes,
            pair: pair.map(Arc::clone),
            count,
            columns,
        })
    }

    /// Returns the groups along each grouped axis.
    pub fn axes(&self) -> &[GroupAxis] {
        &self.axes
    }

    /// Returns the pair of dimensions that is grouped by.
    pub fn pair(&self) -> Option<&AxisPair> {
        self.pair.as_ref().map(|pair| &pair.pair)
    }

    /// Returns the number of groups.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the cells of one chunk of the grid with index `part`: the indices along each axis
    /// with their terms of the group index, and the base that is added for every cell. The terms of
    /// the pair are not included. The cells are those of `wanted`, which is `selection` or a restriction of
    /// it.
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
            in_window.terms = Some(axis.terms(part, selection, indices).into());
        }
        (axes, base)
    }

    /// Splits the cells of a chunk as [`Self::of_window`] returns them into products of indices along the
    /// axes, whose terms include those of the pair. Cells that one of `filters` rejects are left out.
    pub fn products<'a>(
        &'a self,
        part: usize,
        window: &Window,
        axes: Vec<AxisGroups>,
        filters: impl Iterator<Item = &'a AxisPair>,
    ) -> Products<'a> {
        let has_cells = axes.iter().all(|axis| !axis.selected.is_empty());
        let all: Products = Box::new(has_cells.then_some(axes).into_iter());
        let pairs = self.pair().into_iter().chain(filters);
        pairs.fold(all, |products, pair| {
            let window = window.clone();
            Box::new(products.flat_map(move |axes| pair.split(part, &window, &axes)))
        })
    }

    /// Returns the number of cells in each group, given the disjoint products of the cells of each chunk or
    /// grid, as [`Self::products`] returns them, and the base of their group indices.
    ///
    /// # Errors
    /// Fails if a chunk is not found, or if a count exceeds `i64::MAX`.
    pub async fn cells_of_products(
        &self,
        cells: impl Iterator<Item = Result<(Products<'_>, usize)>>,
    ) -> Result<Counts> {
        let mut counts = vec![0u64; self.count];
        for products in cells {
            let (products, base) = products?;
            for axes in products {
                GroupCounts::new(&axes, base).for_each(|group, cells| {
                    counts[group] = counts[group].saturating_add(cells);
                });
            }
            tokio::task::yield_now().await;
        }
        checked(Counts::Each(counts.into()))
    }

    /// Returns the number of cells of these grids in each group, without a pair. Each grid is given by its
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

    /// Returns the values of the expressions over an axis or the pair, the number of its groups, and the
    /// difference between the indices of neighbouring groups.
    fn factor(&self, index: usize) -> (&[ArrayRef], usize, usize) {
        match (self.axes.get(index), &self.pair) {
            (Some(axis), _) => (&axis.values, axis.count, axis.stride),
            (None, Some(pair)) => (&pair.values, pair.count, 1),
            (None, None) => (&[], 1, 1),
        }
    }

    /// Returns the value of each grouping expression for a range of group indices.
    pub fn values_of_range(&self, groups: Range<usize>) -> Result<Vec<ArrayRef>> {
        // The groups form a grid of their own, with the axes in the order of descending strides.
        let mut order: Vec<usize> = (0..self.axes.len() + self.pair.iter().len()).collect();
        // An axis with a single group shares its stride with a neighbour, and may be before or
        // after it.
        order.sort_by_key(|index| {
            let (_, count, stride) = self.factor(*index);
            Reverse((stride, count))
        });
        let counts = order.iter().map(|index| self.factor(*index).1 as u64);
        let counts: Vec<u64> = counts.collect();
        let window = Window::new(counts.iter().map(|count| 0..*count).collect());
        let cells = Cells::new(&window, &Selection::all(&counts));
        let range = groups.start as u64..groups.end as u64;
        let columns = self.columns.iter().map(|(index, number)| {
            let axis = order.iter().position(|other| other == index).unwrap_or(0);
            let values = &self.factor(*index).0[*number];
            // Grouping values may be null, which coordinates are not.
            if values.null_count() > 0 {
                return self.take(*index, *number, groups.clone());
            }
            let values = Coordinates::Values(Arc::clone(values));
            Ok(cells.coordinates(axis, &values, range.clone())?)
        });
        columns.collect()
    }

    /// Returns the value of each grouping expression for some group indices.
    pub fn values(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        let columns = self.columns.iter();
        columns
            .map(|(index, number)| self.take(*index, *number, groups.iter().copied()))
            .collect()
    }

    fn take(
        &self,
        index: usize,
        number: usize,
        groups: impl Iterator<Item = usize>,
    ) -> Result<ArrayRef> {
        let (values, count, stride) = self.factor(index);
        let ordinals = groups.map(|group| (group / stride % count) as u64);
        let ordinals = UInt64Array::from_iter_values(ordinals);
        Ok(take(&values[number], &ordinals, None)?)
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
