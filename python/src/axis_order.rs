//! The order of the coordinates in a result: the direction of ORDER BY, or else the order of the array's axis.

use arrow::array::ArrayRef;
use arrow::compute::concat;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use tet_sql::ArrayTable;
use tet_sql::grid::{Coordinates, Monotonicity};
use tet_sql::provider::plans::lineage::origin;

/// The order of a column's distinct values.
pub struct AxisOrder {
    /// `true` if the values descend.
    pub descends: bool,
    /// The coordinates of an axis that is not sorted, in their order.
    pub coordinates: Option<ArrayRef>,
}

impl AxisOrder {
    /// Returns the order of a column's coordinates: the direction of ORDER BY, or else the order of the
    /// array's axis. Returns `None` for other columns.
    ///
    /// # Errors
    /// Fails if coordinates cannot be read.
    pub fn of(plan: &LogicalPlan, column: usize) -> Result<Option<Self>> {
        if let Some(descends) = sorted(plan, column) {
            return Ok(Some(Self::monotonic(descends)));
        }
        let column = Column::from(plan.schema().qualified_field(column));
        let Some((table, name)) = origin(&[plan], &column) else {
            return Ok(None);
        };
        let Some(table) = table.downcast_ref::<ArrayTable>() else {
            return Ok(None);
        };
        let grids = table.source().grids();
        let axes = grids.iter().flat_map(|grid| grid.axes());
        let axes: Vec<_> = axes.filter(|axis| axis.name() == name).collect();
        if axes.is_empty() {
            return Ok(None);
        }
        let directions = axes.iter().map(|axis| axis.monotonicity());
        let directions = directions.collect::<Result<Vec<_>, _>>()?;
        let all = |expected| directions.iter().all(|direction| *direction == expected);
        if all(Monotonicity::Ascending) {
            return Ok(Some(Self::monotonic(false)));
        }
        if all(Monotonicity::Descending) {
            return Ok(Some(Self::monotonic(true)));
        }
        let mut coordinates = Vec::new();
        for axis in &axes {
            if let Coordinates::Values(values) = axis.coordinates()? {
                coordinates.push(values.as_ref());
            }
        }
        if coordinates.is_empty() {
            // Evenly spaced axes that run in different directions are sorted.
            return Ok(Some(Self::monotonic(false)));
        }
        Ok(Some(Self {
            descends: false,
            coordinates: Some(concat(&coordinates)?),
        }))
    }

    fn monotonic(descends: bool) -> Self {
        Self {
            descends,
            coordinates: None,
        }
    }
}

/// Returns the direction in which ORDER BY sorts a column of the result, `true` for DESC.
fn sorted(plan: &LogicalPlan, column: usize) -> Option<bool> {
    match plan {
        LogicalPlan::Limit(limit) => sorted(&limit.input, column),
        // Removes the sort keys that are not selected.
        LogicalPlan::Projection(projection) => {
            let below = projection.expr.get(column)?.clone().unalias();
            let Expr::Column(below) = below else {
                return None;
            };
            let index = projection.input.schema().maybe_index_of_column(&below)?;
            sorted(&projection.input, index)
        }
        LogicalPlan::Sort(sort) => sort.expr.iter().find_map(|key| {
            let Expr::Column(expression) = &key.expr else {
                return None;
            };
            let index = plan.schema().maybe_index_of_column(expression)?;
            (index == column).then_some(!key.asc)
        }),
        _ => None,
    }
}
