//! Splits conjuncts of a join's filter into parts over the array and over the build side.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

#[cfg(feature = "geo")]
use crate::provider::join::lookup::conditions::geometry;
use crate::provider::plans::below::{columns_in, replace_columns};
use crate::provider::plans::safety::divides;

/// The two sides of a comparison.
pub(super) struct Sides {
    /// An expression over a dimension, over the columns of the table.
    pub of_axis: Arc<dyn PhysicalExpr>,
    pub operator: Operator,
    /// An expression over the columns of the build side.
    pub bound: Arc<dyn PhysicalExpr>,
}

/// The columns of the array's table, followed by the columns of the build side.
pub(super) struct BothSides {
    pub schema: Schema,
    /// The number of columns of the table.
    pub width: usize,
}

impl BothSides {
    /// Splits a comparison of an expression over a single dimension with an expression over the
    /// build side. Returns `None` for all other expressions.
    pub fn sides(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<Sides>> {
        let Some(binary) = expr.downcast_ref::<BinaryExpr>() else {
            return Ok(None);
        };
        let (left, right) = (binary.left(), binary.right());
        let is_order = matches!(
            binary.op(),
            Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
        );
        if !is_order || left.data_type(&self.schema)? != right.data_type(&self.schema)? {
            return Ok(None);
        }
        let columns = |expr| columns_in([expr].into_iter());
        let is_of_axis = |expr| matches!(columns(expr).as_slice(), [axis] if *axis < self.width);
        let is_of_build = |expr| columns(expr).iter().all(|number| *number >= self.width);
        let (of_axis, operator, bound) = if is_of_axis(left) && is_of_build(right) {
            (left, *binary.op(), right)
        } else if is_of_axis(right) && is_of_build(left) {
            let Some(operator) = binary.op().swap() else {
                return Ok(None);
            };
            (right, operator, left)
        } else {
            return Ok(None);
        };
        Ok(Some(Sides {
            of_axis: Arc::clone(of_axis),
            operator,
            bound: self.of_build(bound)?,
        }))
    }

    /// Returns an expression over the build side alone, over its columns.
    pub fn of_build(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        replace_columns(expr, &|number| {
            let index = number.checked_sub(self.width)?;
            Some(Arc::new(Column::new(
                self.schema.field(number).name(),
                index,
            )))
        })
    }
}

/// Returns `true` if an expression over the columns of `schema` may fail on some values: it divides
/// by a value that may be zero, calls a function, or casts to a type that does not have all values.
pub(super) fn may_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let calls_or_narrows = expr.exists(|expr| {
        #[cfg(feature = "geo")]
        if geometry::never_fails(expr.as_ref(), schema) {
            return Ok(false);
        }
        if expr.is::<ScalarFunctionExpr>() {
            return Ok(true);
        }
        let Some(cast) = expr.downcast_ref::<CastExpr>() else {
            return Ok(false);
        };
        Ok(!is_widening(
            &cast.expr().data_type(schema)?,
            cast.cast_type(),
        ))
    });
    divides(expr) || calls_or_narrows.unwrap_or(true)
}

/// Returns `true` if every value of one type can be cast to another.
fn is_widening(from: &DataType, to: &DataType) -> bool {
    if from.is_temporal() {
        return to.is_temporal();
    }
    let integer = |data_type: &DataType| {
        Some((data_type.primitive_width()?, data_type.is_signed_integer()))
            .filter(|_| data_type.is_integer())
    };
    match (integer(from), integer(to)) {
        (Some((narrow, is_signed)), Some((wide, to_signed))) => {
            wide >= narrow && is_signed == to_signed || wide > narrow && to_signed
        }
        _ => from.is_numeric() && to.is_floating(),
    }
}
