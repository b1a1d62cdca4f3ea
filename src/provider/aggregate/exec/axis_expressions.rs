//! Expressions over single dimensions, evaluated once per coordinate instead of once per row.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{Field, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, LambdaExpr};

use crate::grid::{Axis, Coordinates};
use crate::provider::aggregate::plan::group_axis::evaluate;
use crate::provider::plans::below::columns_in;

/// The maximum length of an axis whose coordinates the expressions are evaluated on.
const MAX_LENGTH: u64 = 1 << 20;

/// Parts of other expressions that use a single dimension, such as `cos(radians(lat))` in
/// `value * cos(radians(lat))`. Each is a column after the columns of the table.
#[derive(Debug)]
pub(crate) struct AxisExpressions {
    /// The number of columns of the table.
    first: usize,
    dimensions: usize,
    /// The dimensions and the expressions.
    all: Vec<(usize, Arc<dyn PhysicalExpr>)>,
}

impl AxisExpressions {
    /// Creates an empty list, for a table with `columns` columns, the first of which are
    /// `dimensions`.
    pub fn new(columns: usize, dimensions: usize) -> Self {
        Self {
            first: columns,
            dimensions,
            all: Vec::new(),
        }
    }

    /// Replaces the parts of an expression that use a single dimension by columns.
    pub fn replace_in(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let known = self.all.len();
        let replaced = Arc::clone(expr).transform_down(|expr| {
            // The parameters of lambdas are not columns.
            if expr.is::<LambdaExpr>() {
                return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
            }
            let dimension = match columns_in(std::iter::once(&expr))[..] {
                [column] if column < self.dimensions && !expr.is::<Column>() => column,
                _ => return Ok(Transformed::no(expr)),
            };
            let mut known = self.all.iter();
            let number = known.position(|(_, known)| known.eq(&expr));
            let number = number.unwrap_or_else(|| {
                self.all.push((dimension, Arc::clone(&expr)));
                self.all.len() - 1
            });
            let column = Column::new(&expr.to_string(), self.first + number);
            Ok(Transformed::new(
                Arc::new(column),
                true,
                TreeNodeRecursion::Jump,
            ))
        });
        replaced.map(|replaced| replaced.data).or_else(|_| {
            // A node refuses columns as its children.
            self.all.truncate(known);
            Ok(Arc::clone(expr))
        })
    }

    /// Returns the field of a column; `None` for columns of the table.
    pub fn field(&self, column: usize, table: &Schema) -> Result<Option<Field>> {
        let number = column.checked_sub(self.first);
        let Some((_, expr)) = number.and_then(|number| self.all.get(number)) else {
            return Ok(None);
        };
        let data_type = expr.data_type(table)?;
        Ok(Some(Field::new(expr.to_string(), data_type, true)))
    }

    /// Evaluates the expressions on the coordinates of a grid with `cells` selected cells. Returns the
    /// dimension and the value at each index along it; `None` if an axis has more indices than there
    /// are cells, or if an expression fails or is null.
    pub fn values(
        &self,
        axes: &[Axis],
        cells: Option<u64>,
    ) -> Result<Option<Vec<(usize, Coordinates)>>> {
        let mut all = Vec::with_capacity(self.all.len());
        for (dimension, expr) in &self.all {
            let axis = &axes[*dimension];
            if axis.length() > MAX_LENGTH.min(cells.unwrap_or(u64::MAX)) {
                return Ok(None);
            }
            let coordinates = axis.coordinates()?.slice(0..axis.length());
            // The expression may fail on coordinates that no row has.
            let values = evaluate(&[expr], axis.name(), coordinates).ok();
            match values.and_then(|mut values| values.pop()) {
                Some(values) if values.logical_null_count() == 0 => {
                    all.push((*dimension, Coordinates::Values(values)));
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(all))
    }
}
