//! The groups along one axis.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use crate::grid::{Monotonicity, Selection};
use crate::provider::aggregate::plan::grid_classes::{GridClasses, SelectedCoordinates};
use crate::provider::aggregate::plan::group_keys::{GroupKeys, evaluate_on};
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
        let mut keys = GroupKeys::default();
        for first in &axis.classes.firsts {
            let along = SelectedCoordinates::of(parts[*first], column)?;
            let coordinates = along.coordinates(0..along.count())?;
            let values = evaluate(expressions, along.name, coordinates)?;
            axis.ordinals.push(Ordinals::Of(keys.intern(values)?));
        }
        axis.count = keys.count();
        axis.values = keys.values()?;
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
    let batch = RecordBatch::try_new(schema, vec![column])?;
    evaluate_on(expressions, &batch)
}
