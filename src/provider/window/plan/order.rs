//! Finds the axis that windows are ordered by, and evaluates expressions along it.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, make_comparator, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::windows::WindowExpr;

use crate::grid::IndexSet;
use crate::provider::join::side::Side;
use crate::provider::plans::below::replace_columns;

/// The maximum number of selected indices along an axis that windows are ordered by, or whose values
/// are tested for repetition.
pub(in crate::provider::window) const MAX_INDICES: u64 = 1 << 20;

/// The rows that windows are computed over: the selected cells of an array.
pub(in crate::provider::window) struct WindowInput<'a> {
    pub side: &'a Side,
    /// The columns of the input, all nullable, and one more: the number of a row along the axis.
    pub schema: SchemaRef,
    /// The number of dimensions of the array.
    dimensions: usize,
}

/// The rows of one series, in the order of a window.
pub(in crate::provider::window) struct SeriesRows {
    /// The columns of the input that depend on the order axis alone; the others are null.
    pub batch: RecordBatch,
    /// `true` if the rows are in descending order of the indices of the axis.
    pub is_reversed: bool,
    /// The rows of each partition, if partitions divide the axis.
    pub partitions: Vec<Range<usize>>,
}

impl<'a> WindowInput<'a> {
    /// Creates the input of windows over the rows of `side`, with columns of these fields.
    pub fn new(side: &'a Side, schema: &Schema) -> Self {
        let fields = schema.fields().iter().map(|field| {
            let field = field.as_ref().clone();
            field.with_nullable(true)
        });
        let number = Field::new("plane", DataType::Int64, true);
        let fields: Vec<_> = fields.chain([number]).collect();
        Self {
            side,
            schema: Arc::new(Schema::new(fields)),
            dimensions: side.part.grid.axes().len(),
        }
    }

    /// Returns the column of row numbers.
    pub fn number(&self) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new("plane", self.schema.fields().len() - 1))
    }

    /// Rewrites an expression over the input in terms of the table's columns. `None` if the expression
    /// is volatile or refers to the result of another window.
    pub fn over_table(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let columns = &self.side.below.columns;
        let is_known = |column: &Column| column.index() < columns.len();
        if is_volatile(expr) || !collect_columns(expr).iter().all(is_known) {
            return Ok(None);
        }
        replace_columns(expr, &|number| columns.get(number).cloned()).map(Some)
    }

    /// Returns the dimensions that an expression over the table depends on; `None` if it depends on
    /// cells.
    pub fn dimensions_of(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<BTreeSet<usize>> {
        let columns = collect_columns(expr);
        let dimensions = columns.iter().map(|column| {
            let index = column.index();
            (index < self.dimensions).then_some(index)
        });
        dimensions.collect()
    }

    /// Returns the dimensions that an expression over the input depends on; `None` if it depends on
    /// anything else.
    pub fn dimensions(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<BTreeSet<usize>>> {
        let expr = self.over_table(expr)?;
        Ok(expr.and_then(|expr| self.dimensions_of(&expr)))
    }

    fn selected(&self, axis: usize) -> &IndexSet {
        &self.side.part.selection.axes()[axis]
    }

    /// Returns the axis along which the partitions of a window lie: each partition has all selected
    /// indices of this axis, or some, and one index of every other axis. `None` if there is no such
    /// axis.
    pub fn axis_of(&self, window: &Arc<dyn WindowExpr>) -> Result<Option<usize>> {
        let mut open: BTreeSet<usize> = (0..self.dimensions)
            .filter(|axis| self.selected(*axis).count() > 1)
            .collect();
        for key in window.partition_by() {
            let Some(dimensions) = self.dimensions(key)? else {
                return Ok(None);
            };
            if let (Some(axis), 1) = (dimensions.first(), dimensions.len())
                && open.contains(axis)
                && self.is_unique(key, *axis)?
            {
                open.remove(axis);
            }
        }
        Ok(open.pop_first().filter(|_| open.is_empty()))
    }

    /// Returns `true` if an expression over one dimension has a different value at each selected index.
    fn is_unique(&self, key: &Arc<dyn PhysicalExpr>, axis: usize) -> Result<bool> {
        let set = self.selected(axis);
        let table = self.over_table(key)?;
        let is_bare = table.is_some_and(|table| table.downcast_ref::<Column>().is_some());
        if is_bare {
            return Ok(self.side.part.grid.axes()[axis].has_unique_coordinates()?);
        }
        if set.count() > MAX_INDICES {
            return Ok(false);
        }
        let batch = self.rows_along(axis, set.ranges().flatten())?;
        let values = key.evaluate(&batch)?.into_array(batch.num_rows())?;
        let rows = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
        let rows = rows.convert_columns(&[values])?;
        let mut distinct = HashSet::with_capacity(rows.num_rows());
        Ok(rows.iter().all(|row| distinct.insert(row)))
    }

    /// Returns the rows of a series by ascending indices of an axis, as [`SeriesRows::batch`].
    pub fn ascending(&self, axis: usize) -> Result<RecordBatch> {
        self.rows_along(axis, self.selected(axis).ranges().flatten())
    }

    /// Returns the rows of a series with these indices along an axis.
    fn rows_along(&self, axis: usize, indices: impl Iterator<Item = u64>) -> Result<RecordBatch> {
        let coordinates = self.side.part.grid.axes()[axis].coordinates()?;
        let along = coordinates.at(indices)?;
        let count = along.len();
        let table = self.side.below.node.source().schema();
        let fields = table.fields().iter().enumerate();
        let (fields, columns): (Vec<_>, Vec<_>) = fields
            .map(|(number, field)| {
                let column = match number == axis {
                    true => Arc::clone(&along),
                    false => new_null_array(field.data_type(), count),
                };
                let field = Field::new(field.name(), column.data_type().clone(), true);
                (field, column)
            })
            .unzip();
        let table = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (expr, field) in self.side.below.columns.iter().zip(self.schema.fields()) {
            let depends = self.dimensions_of(expr);
            let is_along = depends.is_some_and(|mut all| {
                all.pop_first().is_none_or(|one| one == axis) && all.is_empty()
            });
            columns.push(match is_along {
                true => expr.evaluate(&table)?.into_array(count)?,
                false => new_null_array(field.data_type(), count),
            });
        }
        columns.push(plane_numbers(count));
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// Returns the rows of a series in the order of a window; `None` if the window does not determine
    /// their order, has a `RANGE` frame with an offset although the order does not contain the axis, or
    /// divides them into partitions that are not contiguous.
    pub fn series(&self, window: &Arc<dyn WindowExpr>, axis: usize) -> Result<Option<SeriesRows>> {
        let set = self.selected(axis);
        let ascending = self.ascending(axis)?;
        let mut is_reversed = false;
        let mut is_ordered = false;
        for (key, column) in window
            .order_by()
            .iter()
            .zip(window.order_by_columns(&ascending)?)
        {
            let Some(dimensions) = self.dimensions(&key.expr)? else {
                return Ok(None);
            };
            if !dimensions.contains(&axis) {
                continue;
            }
            let options = key.options;
            let compare = make_comparator(&column.values, &column.values, options)?;
            let mut orders = (1..set.count() as usize).map(|row| compare(row - 1, row));
            let first = orders.next();
            if dimensions.len() > 1
                || first.is_none_or(|first| first.is_eq())
                || !orders.all(|order| Some(order) == first)
            {
                return Ok(None);
            }
            is_reversed = first.is_some_and(|first| first.is_gt());
            is_ordered = true;
            // The order is unique, so further keys do not matter.
            break;
        }
        if !is_ordered && has_range_offset(window.get_window_frame()) {
            return Ok(None);
        }
        let batch = match is_reversed {
            true => self.rows_along(axis, set.ranges().rev().flat_map(Range::rev))?,
            false => ascending,
        };
        let Some(partitions) = self.partitions(window, axis, &batch)? else {
            return Ok(None);
        };
        Ok(Some(SeriesRows {
            batch,
            is_reversed,
            partitions,
        }))
    }

    /// Returns the rows of each partition along the axis; `None` if a partition is not contiguous.
    fn partitions(
        &self,
        window: &Arc<dyn WindowExpr>,
        axis: usize,
        batch: &RecordBatch,
    ) -> Result<Option<Vec<Range<usize>>>> {
        let mut keys: Vec<ArrayRef> = Vec::new();
        for key in window.partition_by() {
            match self.dimensions(key)? {
                None => return Ok(None),
                Some(dimensions) if !dimensions.contains(&axis) => {}
                Some(dimensions) if dimensions.len() > 1 => return Ok(None),
                Some(_) => keys.push(key.evaluate(batch)?.into_array(batch.num_rows())?),
            }
        }
        if keys.is_empty() {
            return Ok(Some(std::iter::once(0..batch.num_rows()).collect()));
        }
        let fields = keys
            .iter()
            .map(|key| SortField::new(key.data_type().clone()));
        let rows = RowConverter::new(fields.collect())?.convert_columns(&keys)?;
        let mut partitions: Vec<Range<usize>> = Vec::new();
        let mut known = HashSet::new();
        for (number, row) in rows.iter().enumerate() {
            match partitions.last_mut() {
                Some(last) if rows.row(last.start) == row => last.end = number + 1,
                _ if known.insert(row) => partitions.push(number..number + 1),
                _ => return Ok(None),
            }
        }
        Ok(Some(partitions))
    }
}

/// Returns an array of the numbers of planes.
fn plane_numbers(count: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(0..count as i64))
}

/// Returns `true` if a frame has an offset in units of the order key, such as `RANGE 5 PRECEDING`.
fn has_range_offset(frame: &WindowFrame) -> bool {
    let is_distance = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            !distance.is_null()
        }
        WindowFrameBound::CurrentRow => false,
    };
    frame.units == WindowFrameUnits::Range
        && (is_distance(&frame.start_bound) || is_distance(&frame.end_bound))
}
