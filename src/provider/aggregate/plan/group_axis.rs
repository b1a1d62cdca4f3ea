//! The groups along one axis.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::interleave;
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::common::utils::normalize_float_zero;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::reassign_expr_columns;

use crate::grid::{Monotonicity, Selection};
use crate::provider::aggregate::plan::grid_classes::{GridClasses, SelectedCoordinates};
use crate::provider::source::GridSelection;

/// The groups along one axis. The file column is treated as an axis of length 1.
#[derive(Debug)]
pub(crate) struct GroupAxis {
    /// The index of the table's column.
    pub column: usize,
    /// For each grouping expression over the axis, its value in each group.
    pub values: Vec<ArrayRef>,
    pub count: usize,
    /// The difference between the group indices of neighbouring groups along the axis.
    pub stride: usize,
    /// The classes of grids with the same selected coordinates along the axis.
    pub classes: GridClasses,
    /// For each class of grids, the group ordinal of each selected index.
    pub ordinals: Vec<Ordinals>,
}

#[derive(Debug)]
pub(crate) enum Ordinals {
    /// Each selected index is a group of its own, in order.
    Ranks,
    Of(Vec<u32>),
}

impl Ordinals {
    pub fn of(&self, rank: usize) -> usize {
        match self {
            Self::Ranks => rank,
            Self::Of(ordinals) => ordinals[rank] as usize,
        }
    }
}

impl GroupAxis {
    /// Evaluates grouping expressions over one column on the selected coordinates of all grids.
    ///
    /// # Errors
    /// Fails if coordinates cannot be read, or an expression fails.
    pub fn try_new(
        column: usize,
        expressions: &[&Arc<dyn PhysicalExpr>],
        parts: &[&GridSelection],
    ) -> Result<Self> {
        let classes = GridClasses::of(column, parts)?;
        let mut axis = Self {
            column,
            values: Vec::new(),
            count: 0,
            stride: 0,
            ordinals: Vec::with_capacity(classes.firsts.len()),
            classes,
        };
        let is_bare = |expr: &&Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().is_some();
        if let [first] = axis.classes.firsts[..]
            && expressions.iter().all(is_bare)
            && let Some(axis_of_grid) = parts[first].grid.axes().get(column)
            && axis_of_grid.monotonicity()? != Monotonicity::None
        {
            let along = SelectedCoordinates::of(parts[first], column)?;
            let coordinates = along.coordinates(0..along.count())?;
            axis.count = coordinates.len();
            axis.values = vec![coordinates; expressions.len()];
            axis.ordinals.push(Ordinals::Ranks);
            return Ok(axis);
        }
        let mut converter: Option<RowConverter> = None;
        let mut known: HashMap<Box<[u8]>, u32> = HashMap::new();
        let mut evaluated = Vec::with_capacity(axis.classes.firsts.len());
        let mut firsts: Vec<(usize, usize)> = Vec::new();
        for (number, first) in axis.classes.firsts.iter().enumerate() {
            let along = SelectedCoordinates::of(parts[*first], column)?;
            let coordinates = along.coordinates(0..along.count())?;
            let values = evaluate(expressions, along.name, coordinates)?;
            // GROUP BY takes both zeros as equal.
            let values: Vec<ArrayRef> = values.iter().map(normalize_float_zero).collect();
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
                // Neighbouring indices are often in the same group, which saves the hash lookup.
                let same = ordinals
                    .last()
                    .copied()
                    .filter(|_| rows.row(row) == rows.row(row - 1));
                let found = same.or_else(|| known.get(rows.row(row).as_ref()).copied());
                ordinals.push(found.unwrap_or_else(|| {
                    let next = firsts.len() as u32;
                    known.insert(rows.row(row).as_ref().into(), next);
                    firsts.push((number, row));
                    next
                }));
            }
            axis.ordinals.push(Ordinals::Of(ordinals));
            evaluated.push(values);
        }
        axis.count = firsts.len();
        if evaluated.is_empty() {
            // No grid has selected cells, so there are no groups.
            return Ok(axis);
        }
        for number in 0..expressions.len() {
            let values: Vec<&dyn Array> = evaluated
                .iter()
                .map(|values: &Vec<ArrayRef>| values[number].as_ref())
                .collect();
            axis.values.push(interleave(&values, &firsts)?);
        }
        Ok(axis)
    }

    /// Returns the group ordinal of each selected index of a grid; `None` if the grid has no
    /// selected cells.
    pub fn ordinals(&self, part: usize) -> Option<&Ordinals> {
        Some(&self.ordinals[self.classes.of_part[part]?])
    }

    /// Returns the terms of the group index along the axis, for some selected indices of a grid.
    /// The file column has one term. There is none if the grid has no selected cells.
    pub fn terms(
        &self,
        part: usize,
        selection: &Selection,
        indices: impl Iterator<Item = Range<u64>>,
    ) -> Vec<usize> {
        let Some(ordinals) = self.ordinals(part) else {
            return Vec::new();
        };
        let Some(set) = selection.axes().get(self.column) else {
            return vec![ordinals.of(0) * self.stride];
        };
        let ranks = indices.flat_map(|range| {
            let first = set.rank(range.start) as usize;
            first..first + (range.end - range.start) as usize
        });
        ranks.map(|rank| ordinals.of(rank) * self.stride).collect()
    }
}

/// Evaluates expressions over a single column.
pub(crate) fn evaluate(
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
