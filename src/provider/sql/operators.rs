//! Operators that DataFusion does not plan, or plans with another type than SQL has.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::provider::functions::times::duration_parts::DatePart;
use crate::provider::functions::times::interval_product::IntervalProduct;

/// Plans operators that DataFusion rejects, or gives another type than SQL does:
///
/// ```text
///                               DataFusion    here
///  lead * INTERVAL '1 hour'     error         IntervalProduct(lead, INTERVAL '1 hour')
///  date + duration              error         CAST(date AS TIMESTAMP) + duration
///  date + INTERVAL '6 hours'    date          CAST(date AS TIMESTAMP) + INTERVAL '6 hours'
///  date + INTERVAL '1 month'    date          date
///  row_number() / 2             decimal       CAST(row_number() AS BIGINT) / 2
///  rank() - row_number()        wraps         CAST(rank() AS BIGINT) - CAST(row_number() AS BIGINT)
///  extract(part FROM x)         date_part     DatePart
/// ```
#[derive(Debug)]
pub(crate) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        // An expression without a type here, such as a placeholder, is left to DataFusion.
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema))
        else {
            return Ok(PlannerResult::Original(expr));
        };
        if expr.op == BinaryOperator::Multiply && IntervalProduct::accepts(&left, &right) {
            let product = ScalarUDF::from(IntervalProduct::new());
            let product = product.call(vec![expr.left, expr.right]);
            return Ok(PlannerResult::Planned(product));
        }
        let is_date = |data_type: &DataType| matches!(data_type, DataType::Date32);
        let has_time = |data_type: &DataType, length: &Expr| match data_type {
            DataType::Duration(_) => true,
            DataType::Interval(_) => !has_whole_days(length, schema),
            _ => false,
        };
        let time = |date: Expr| cast(date, DataType::Timestamp(TimeUnit::Microsecond, None));
        let signed = |unsigned: Expr| cast(unsigned, DataType::Int64);
        let is_unsigned = |data_type: &DataType| matches!(data_type, DataType::UInt64);
        let RawBinaryExpr {
            left: one,
            right: other,
            op,
        } = expr;
        let (one, other) = match &op {
            BinaryOperator::Plus | BinaryOperator::Minus
                if is_date(&left) && has_time(&right, &other) =>
            {
                (time(one), other)
            }
            BinaryOperator::Plus if is_date(&right) && has_time(&left, &one) => (one, time(other)),
            // The difference may be negative.
            BinaryOperator::Minus if is_unsigned(&left) && is_unsigned(&right) => {
                (signed(one), signed(other))
            }
            op if is_arithmetic(op) && is_unsigned(&left) && right.is_signed_integer() => {
                (signed(one), other)
            }
            op if is_arithmetic(op) && left.is_signed_integer() && is_unsigned(&right) => {
                (one, signed(other))
            }
            _ => (one, other),
        };
        Ok(PlannerResult::Original(RawBinaryExpr {
            left: one,
            right: other,
            op,
        }))
    }

    fn plan_extract(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let part = ScalarUDF::from(DatePart::new());
        Ok(PlannerResult::Planned(part.call(arguments)))
    }
}

/// Returns `true` if an interval is computed from constants of whole days, months and years, and from integers.
fn has_whole_days(interval: &Expr, schema: &DFSchema) -> bool {
    let mut are_whole = true;
    let visited = interval.apply(|expr| {
        let is_operator = match expr {
            Expr::BinaryExpr(_) | Expr::Negative(_) => true,
            Expr::ScalarFunction(function) => function.name() == IntervalProduct::NAME,
            _ => false,
        };
        if is_operator {
            return Ok(TreeNodeRecursion::Continue);
        }
        are_whole &= match expr {
            Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) => {
                value.nanoseconds == 0
            }
            // Fractions of days, and columns of intervals, may have a part of a day.
            other => other.get_type(schema)?.is_integer(),
        };
        Ok(TreeNodeRecursion::Jump)
    });
    visited.is_ok() && are_whole
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
    )
}
