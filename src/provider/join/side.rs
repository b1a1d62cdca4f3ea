//! Plans over arrays, as inputs of joins and windows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::plans::below::{InlinedInput, replace_columns};
use crate::provider::scan::ArrayScan;
use crate::provider::source::GridSelection;

/// The scan of an array, as an input of a join or of windows.
pub(crate) struct Side {
    /// The scan, with the expressions that the input consists of.
    pub below: InlinedInput<ArrayScan>,
    /// The grid of the first file, and its selected cells.
    pub part: GridSelection,
    /// The grids of the other files, and their selected cells.
    pub others: Vec<GridSelection>,
}

impl Side {
    /// Returns the input; `None` if it is anything but a scan of a single grid, with filters and
    /// projections.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        Ok(Self::of_files(plan)?.filter(|side| side.others.is_empty()))
    }

    /// Returns the input; `None` if it is anything but a scan of grids, one per file, with filters and
    /// projections, or if the table has the column `file`.
    pub fn of_files(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some(below) = InlinedInput::of_scan(plan)? else {
            return Ok(None);
        };
        // The replacement would lose the dynamic filter.
        if below.node.plan().dynamic_filter.is_some() {
            return Ok(None);
        }
        let mut parts = below.node.blocks().grid_selections().unwrap_or_default();
        if parts.is_empty() || parts.iter().any(|part| part.file.is_some()) {
            return Ok(None);
        }
        let others = parts.split_off(1);
        Ok(parts.pop().map(|part| Self {
            below,
            part,
            others,
        }))
    }

    /// Returns the grids of all files.
    pub fn grids(&self) -> Vec<GridSelection> {
        let first = std::iter::once(&self.part);
        first.chain(&self.others).cloned().collect()
    }

    /// Returns the dimension that an expression over the input's rows refers to; `None` if the
    /// expression is not a bare dimension.
    pub fn dimension(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<usize>> {
        let expr = replace_columns(expr, &|number| self.below.columns.get(number).cloned())?;
        let column = expr.downcast_ref::<Column>().map(Column::index);
        Ok(column.filter(|column| *column < self.part.grid.axes().len()))
    }
}
