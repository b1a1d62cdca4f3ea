//! Which groups there are, and which each position of an axis is in.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, exec_err, internal_err, resources_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use crate::grid::reduce::{AxisGroups, Counts};
use crate::grid::{Axis, Cells, Coordinates, IndexSet, Monotonicity, Selection, Window};
use crate::provider::below::may_fail;
use crate::provider::source::GridPart;

/// The most positions on which expressions are tried while a query is planned.
const MOST_TRIED: u64 = 1 << 20;

/// The groups of an aggregation: the products of what positions along single axes are grouped by.
#[derive(Debug)]
pub(super) struct Groups {
    axes: Vec<GroupAxis>,
    count: usize,
    /// For each grouping expression, the axis that it is over, and its number among those over that axis.
    columns: Vec<(usize, usize)>,
}

/// The groups along one axis. The file that a part is of counts as an axis of one position.
#[derive(Debug)]
struct GroupAxis {
    /// The number of the table's column.
    column: usize,
    /// For each grouping expression over the axis, its value in each group.
    values: Vec<ArrayRef>,
    count: usize,
    /// What the number of a group grows by from one to the next.
    stride: usize,
    /// For each part, the group of each selected position.
    parts: Vec<Ordinals>,
}

#[derive(Debug)]
enum Ordinals {
    /// Each position has its own, in their order.
    Ranks,
    Of(Vec<u32>),
}

impl Ordinals {
    fn of(&self, rank: usize) -> usize {
        match self {
            Self::Ranks => rank,
            Self::Of(ordinals) => ordinals[rank] as usize,
        }
    }
}

/// The columns that grouping expressions are over, one each; `None` if one of them is over none, several, or none of
/// the first `dimensions` and `file`.
pub(super) fn group_columns(
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

/// Whether none of these expressions, each over one of `columns`, fails on any selected position. That is tried, unless there
/// are very many positions; then it is only asked what the expressions are made of.
pub(super) fn never_fail(
    expressions: &[Arc<dyn PhysicalExpr>],
    columns: &[usize],
    parts: &[GridPart],
) -> bool {
    let fails = |expr: &Arc<dyn PhysicalExpr>, column: usize, part: &GridPart| {
        let evaluated = match (part.grid.axes().get(column), &part.file) {
            (Some(axis), _) => {
                let set = &part.selection.axes()[column];
                if set.count() > MOST_TRIED {
                    return may_fail(expr);
                }
                selected_coordinates(axis, set)
                    .and_then(|coordinates| evaluate(&[expr], axis.name(), coordinates))
            }
            (None, Some(file)) => evaluate(&[expr], "file", Arc::clone(file)),
            (None, None) => return true,
        };
        evaluated.is_err()
    };
    let pairs = expressions.iter().zip(columns);
    pairs
        .filter(|(expr, _)| !expr.is::<Column>())
        .all(|(expr, column)| !parts.iter().any(|part| fails(expr, *column, part)))
}

impl Groups {
    /// The groups of these expressions, each over one of `columns`, over the selected positions of these parts.
    ///
    /// # Errors
    /// If coordinates cannot be read, an expression fails, or there are more groups than `most`.
    pub fn try_new(
        expressions: &[Arc<dyn PhysicalExpr>],
        columns: &[usize],
        parts: &[GridPart],
        most: usize,
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
        let axes = by_axis
            .iter()
            .map(|(column, expressions)| GroupAxis::try_new(*column, expressions, parts));
        let mut axes = axes.collect::<Result<Vec<_>>>()?;
        // In the order of the cells: the last axis varies fastest, and files are furthest apart.
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
                Some(count) if count <= most => count,
                _ => return resources_err!("there are more than {most} groups"),
            };
        }
        Ok(Self {
            axes,
            count,
            columns: places,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What some cells of a window of a part are grouped by along each axis, and what all groups there have in common.
    /// `wanted` are the cells, all of the part's selected ones or fewer.
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
            let ordinals = &axis.parts[part];
            let Some(in_window) = axes.get_mut(axis.column) else {
                base += ordinals.of(0) * axis.stride;
                continue;
            };
            let start = window.ranges()[axis.column].start;
            let set = &selection.axes()[axis.column];
            // Selected positions fit into memory, since their coordinates do; all of a window's need not.
            let mut terms = Vec::with_capacity(in_window.selected.count() as usize);
            for range in in_window.selected.ranges() {
                let first = set.rank(start + range.start) as usize;
                let ranks = first..first + (range.end - range.start) as usize;
                terms.extend(ranks.map(|rank| ordinals.of(rank) * axis.stride));
            }
            in_window.terms = Some(terms);
        }
        (axes, base)
    }

    /// How many cells each group has: of each part the selected ones, and those that are wanted of them.
    pub fn cells(&self, parts: &[(&Selection, &Selection)]) -> Result<Counts> {
        let mut cells = Vec::new();
        for (number, (selection, wanted)) in parts.iter().enumerate() {
            if wanted.is_empty() {
                continue;
            }
            let is_grouped = |axis: usize| self.axes.iter().any(|group| group.column == axis);
            let sets = wanted.axes().iter().enumerate();
            let in_each: u64 = sets
                .filter(|(axis, _)| !is_grouped(*axis))
                .fold(1, |cells, (_, set)| set.count().saturating_mul(cells));
            let is_simple = |axis: &GroupAxis| {
                let sets = [selection, wanted].map(|set| set.axes().get(axis.column));
                axis.is_simple(number) && sets[0] == sets[1]
            };
            if let ([_], true) = (parts, self.axes.iter().all(is_simple)) {
                return checked(Counts::Same(in_each));
            }
            let mut some = vec![(0, in_each)];
            for axis in &self.axes {
                let histogram = axis.histogram(number, selection, wanted);
                let some_before = std::mem::take(&mut some);
                for (group, cells) in some_before {
                    let groups = histogram
                        .iter()
                        .enumerate()
                        .filter(|(_, count)| **count > 0);
                    some.extend(groups.map(|(ordinal, count)| {
                        (group + ordinal * axis.stride, cells.saturating_mul(*count))
                    }));
                }
            }
            cells.resize(self.count, 0);
            for (group, count) in some {
                cells[group] = count.saturating_add(cells[group]);
            }
        }
        checked(if cells.is_empty() {
            Counts::Same(0)
        } else {
            Counts::Each(cells)
        })
    }

    /// The values that a range of groups are grouped by, for each grouping expression.
    pub fn values_of_range(&self, groups: Range<usize>) -> Result<Vec<ArrayRef>> {
        // The groups are a grid themselves, with the axes in the order of their strides.
        let mut order: Vec<usize> = (0..self.axes.len()).collect();
        // Axes of one group have the stride of the one behind them, wherever they come.
        order.sort_by_key(|axis| {
            std::cmp::Reverse((self.axes[*axis].stride, self.axes[*axis].count))
        });
        let counts = order.iter().map(|axis| self.axes[*axis].count as u64);
        let counts: Vec<u64> = counts.collect();
        let window = Window::new(counts.iter().map(|count| 0..*count).collect());
        let cells = Cells::new(&window, &Selection::all(&counts));
        let range = groups.start as u64..groups.end as u64;
        let columns = self.columns.iter().map(|(axis, number)| {
            let place = order.iter().position(|other| other == axis).unwrap_or(0);
            let values = Coordinates::Values(Arc::clone(&self.axes[*axis].values[*number]));
            // A value may be null, which a coordinate is not.
            if self.axes[*axis].values[*number].null_count() > 0 {
                return self.take(*axis, *number, groups.clone());
            }
            Ok(cells.coordinates(place, &values, range.clone())?)
        });
        columns.collect()
    }

    /// The values that some groups are grouped by, for each grouping expression.
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

/// Counts that fit the engine's type of counts.
fn checked(counts: Counts) -> Result<Counts> {
    let most = match &counts {
        Counts::Same(count) => *count,
        Counts::Each(counts) => counts.iter().copied().max().unwrap_or(0),
    };
    if i64::try_from(most).is_err() {
        return exec_err!("there are 2^63 rows or more, which cannot be counted");
    }
    Ok(counts)
}

impl GroupAxis {
    fn try_new(
        column: usize,
        expressions: &[&Arc<dyn PhysicalExpr>],
        parts: &[GridPart],
    ) -> Result<Self> {
        let mut axis = Self {
            column,
            values: Vec::new(),
            count: 0,
            stride: 0,
            parts: Vec::with_capacity(parts.len()),
        };
        let is_bare = |expr: &&Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().is_some();
        if let [part] = parts
            && expressions.iter().all(is_bare)
            && let Some(axis_of_grid) = part.grid.axes().get(column)
            && axis_of_grid.monotonicity()? != Monotonicity::None
        {
            let set = &part.selection.axes()[column];
            let coordinates = selected_coordinates(axis_of_grid, set)?;
            axis.count = coordinates.len();
            axis.values = vec![coordinates; expressions.len()];
            axis.parts.push(Ordinals::Ranks);
            return Ok(axis);
        }
        let mut converter: Option<RowConverter> = None;
        let mut known: HashMap<OwnedRow, u32> = HashMap::new();
        let mut evaluated = Vec::with_capacity(parts.len());
        let mut firsts: Vec<(usize, usize)> = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let (name, coordinates) = match (part.grid.axes().get(column), &part.file) {
                (Some(axis), _) => {
                    let set = &part.selection.axes()[column];
                    (axis.name(), selected_coordinates(axis, set)?)
                }
                (None, Some(file)) => ("file", Arc::clone(file)),
                (None, None) => return internal_err!("column {column} is not along an axis"),
            };
            let values = evaluate(expressions, name, coordinates)?;
            let converter = match &mut converter {
                Some(converter) => converter,
                None => {
                    let fields = values
                        .iter()
                        .map(|values| SortField::new(values.data_type().clone()));
                    converter.insert(RowConverter::new(fields.collect())?)
                }
            };
            let rows = converter.convert_columns(&values)?;
            let mut ordinals: Vec<u32> = Vec::with_capacity(rows.num_rows());
            for row in 0..rows.num_rows() {
                // Neighbours are often in the same group.
                let same = ordinals
                    .last()
                    .copied()
                    .filter(|_| rows.row(row) == rows.row(row - 1));
                ordinals.push(match same {
                    Some(ordinal) => ordinal,
                    None => {
                        let next = firsts.len() as u32;
                        let ordinal = *known.entry(rows.row(row).owned()).or_insert(next);
                        if ordinal == next {
                            firsts.push((number, row));
                        }
                        ordinal
                    }
                });
            }
            axis.parts.push(Ordinals::Of(ordinals));
            evaluated.push(values);
        }
        axis.count = firsts.len();
        for number in 0..expressions.len() {
            let values: Vec<&dyn Array> = evaluated
                .iter()
                .map(|values: &Vec<ArrayRef>| values[number].as_ref())
                .collect();
            axis.values.push(interleave(&values, &firsts)?);
        }
        Ok(axis)
    }

    fn is_simple(&self, part: usize) -> bool {
        matches!(self.parts[part], Ordinals::Ranks)
    }

    /// How many of a part's wanted positions are in each group of the axis.
    fn histogram(&self, part: usize, selection: &Selection, wanted: &Selection) -> Vec<u64> {
        let mut histogram = vec![0; self.count];
        let ordinals = &self.parts[part];
        let sets = [selection, wanted].map(|set| set.axes().get(self.column));
        let [Some(set), Some(wanted)] = sets else {
            // The one position of a file.
            histogram[ordinals.of(0)] = 1;
            return histogram;
        };
        for range in wanted.ranges() {
            let first = set.rank(range.start) as usize;
            for rank in first..first + (range.end - range.start) as usize {
                histogram[ordinals.of(rank)] += 1;
            }
        }
        histogram
    }
}

fn selected_coordinates(axis: &Axis, selected: &IndexSet) -> Result<ArrayRef> {
    let coordinates = axis.coordinates()?;
    if let Some(range) = selected.as_range() {
        return Ok(coordinates.slice(range));
    }
    Ok(coordinates.at(selected.ranges().flatten())?)
}

/// The values of expressions over a single column.
fn evaluate(
    expressions: &[&Arc<dyn PhysicalExpr>],
    name: &str,
    column: ArrayRef,
) -> Result<Vec<ArrayRef>> {
    let field = Field::new(name, column.data_type().clone(), false);
    let schema = Arc::new(Schema::new(vec![field]));
    let rows = column.len();
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column])?;
    let evaluate = |expr: &&Arc<dyn PhysicalExpr>| {
        let expr = reassign_expr_columns(Arc::clone(expr), &schema)?;
        expr.evaluate(&batch)?.into_array(rows)
    };
    expressions.iter().map(evaluate).collect()
}
