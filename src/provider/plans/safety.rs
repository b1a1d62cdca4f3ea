//! Finds expressions that may fail, and must not be evaluated on rows that a query leaves out.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal, NegativeExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// The functions of floating-point numbers that never fail. `sqrt` fails for negative numbers.
pub(crate) const TOTAL: [&str; 15] = [
    "abs", "atan", "atan2", "cbrt", "ceil", "cos", "degrees", "exp", "floor", "radians", "round",
    "signum", "sin", "tan", "trunc",
];

/// Returns `true` if an expression may fail on some values: it divides by a value that may be zero,
/// casts, or calls a function. Unlike [`is_safe`], this needs no types, and leaves overflow aside.
pub(crate) fn may_fail(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.exists(|expr| Ok(expr.is::<CastExpr>() || expr.is::<ScalarFunctionExpr>()))
        .unwrap_or(true)
        || divides(expr)
}

/// Returns `true` if an expression divides by a value that may be zero.
pub(crate) fn divides(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.exists(|expr| {
        let Some(binary) = expr.downcast_ref::<BinaryExpr>() else {
            return Ok(false);
        };
        let divisor = binary.right().downcast_ref::<Literal>();
        let is_zero = |divisor: &Literal| {
            let zero = ScalarValue::new_zero(&divisor.value().data_type());
            zero.is_ok_and(|zero| zero == *divisor.value())
        };
        Ok(matches!(binary.op(), Operator::Divide | Operator::Modulo)
            && divisor.is_none_or(is_zero))
    })
    .unwrap_or(true)
}

/// Returns `true` if an expression over `rows` can be evaluated on any row without an error: no division, cast, function,
/// regular expression, or arithmetic of times or decimals in it fails.
pub(crate) fn is_safe(expr: &Arc<dyn PhysicalExpr>, rows: &Schema) -> bool {
    let fails = |part: &Arc<dyn PhysicalExpr>| part_may_fail(part, rows);
    !divides(expr) && !expr.exists(fails).unwrap_or(true)
}

/// Returns `true` if casts from one type to the other never fail.
pub(crate) fn is_safe_cast(from: &DataType, to: &DataType) -> bool {
    let is_wider = from.primitive_width() <= to.primitive_width();
    let is_same_kind = (from.is_signed_integer() && to.is_signed_integer())
        || (from.is_unsigned_integer() && to.is_unsigned_integer());
    (is_same_kind && is_wider) || (from.is_numeric() && to.is_floating())
}

/// Returns `true` if a cast, a function or an arithmetic operator may fail on some values.
fn part_may_fail(expr: &Arc<dyn PhysicalExpr>, rows: &Schema) -> Result<bool> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(rows)?;
        return Ok(!is_safe_cast(&from, cast.cast_type()));
    }
    // Integers wrap around. Times, intervals and decimals are checked for overflow.
    let overflows = || {
        let result = expr.data_type(rows)?;
        Ok(!(result.is_integer() || result.is_floating()))
    };
    if expr.is::<NegativeExpr>() {
        return overflows();
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::Plus | Operator::Minus | Operator::Multiply => overflows(),
            Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch => Ok(!binary.right().is::<Literal>()),
            _ => Ok(false),
        };
    }
    let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() else {
        return Ok(false);
    };
    let mut may_fail = !TOTAL.contains(&function.name());
    for argument in function.args() {
        may_fail |= !argument.data_type(rows)?.is_floating();
    }
    Ok(may_fail)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, TimeUnit};
    use datafusion::physical_expr::expressions::{col, lit};

    use super::*;

    #[test]
    fn arithmetic_of_times_and_decimals_may_overflow() {
        let rows = Schema::new(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("x", DataType::Float32, true),
            Field::new("d", DataType::Decimal128(38, 2), true),
            Field::new("t", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        ]);
        let interval = lit(ScalarValue::new_interval_mdn(0, 1, 0));
        let column = |name: &str| col(name, &rows).unwrap();
        for (left, operator, right, is_expected) in [
            (column("n"), Operator::Multiply, column("n"), true),
            (column("x"), Operator::Minus, column("x"), true),
            (column("x"), Operator::Divide, column("x"), false),
            (column("d"), Operator::Plus, column("d"), false),
            (column("t"), Operator::Plus, interval, false),
            (column("t"), Operator::Minus, column("t"), false),
            (column("t"), Operator::Lt, column("t"), true),
        ] {
            let expr: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(left, operator, right));
            assert_eq!(is_safe(&expr, &rows), is_expected, "{expr}");
        }
    }
}
