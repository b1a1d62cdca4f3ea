//! Operators between intervals, durations, numbers and dates that DataFusion does not plan.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{ExprSchemable, ScalarUDF, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::provider::functions::times::interval_product::IntervalProduct;

/// Plans products of intervals and numbers, and sums of dates and durations:
///
/// ```text
///  lead * INTERVAL '1 hour'    IntervalProduct(lead, INTERVAL '1 hour')
///  date + duration             CAST(date AS TIMESTAMP) + duration
/// ```
#[derive(Debug)]
pub(crate) struct TimeOperators;

impl ExprPlanner for TimeOperators {
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
        let is_date = |data_type: &DataType| matches!(data_type, DataType::Date32);
        let is_duration = |data_type: &DataType| matches!(data_type, DataType::Duration(_));
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        Ok(match &expr.op {
            BinaryOperator::Multiply if IntervalProduct::accepts(&left, &right) => {
                let product = ScalarUDF::from(IntervalProduct::new());
                PlannerResult::Planned(product.call(vec![expr.left, expr.right]))
            }
            BinaryOperator::Plus | BinaryOperator::Minus
                if is_date(&left) && is_duration(&right) =>
            {
                PlannerResult::Original(RawBinaryExpr {
                    left: cast(expr.left, time),
                    ..expr
                })
            }
            BinaryOperator::Plus if is_duration(&left) && is_date(&right) => {
                PlannerResult::Original(RawBinaryExpr {
                    right: cast(expr.right, time),
                    ..expr
                })
            }
            _ => PlannerResult::Original(expr),
        })
    }
}
