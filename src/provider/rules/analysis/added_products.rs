//! Products of numbers and intervals that are added to times.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, lit};

use crate::provider::functions::times::interval_length::IntervalLength;
use crate::provider::functions::times::interval_product::IntervalProduct;

/// Replaces `INTERVAL` literals that are multiplied by an integer, and added to a timestamp or subtracted from it, by durations in
/// the unit of the timestamp, if they are a multiple of it and have the same length at any time:
///
/// ```text
///  time - n * INTERVAL '1 hour'    time - n * 3600000000 microseconds
/// ```
///
/// To add a duration is integer arithmetic. To add an interval needs the calendar for each value.
#[derive(Debug)]
pub(crate) struct AddedProducts;

impl FunctionRewrite for AddedProducts {
    fn name(&self) -> &str {
        "added_products"
    }

    fn rewrite(
        &self,
        mut expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::BinaryExpr(binary) = &mut expr else {
            return Ok(Transformed::no(expr));
        };
        let (time, product) = match (binary.op, is_product(&binary.left)) {
            (Operator::Plus, true) => (&binary.right, &mut binary.left),
            (Operator::Plus | Operator::Minus, false) => (&binary.left, &mut binary.right),
            _ => return Ok(Transformed::no(expr)),
        };
        let Expr::ScalarFunction(product) = product.as_mut() else {
            return Ok(Transformed::no(expr));
        };
        let is_replaced = is_interval_product(product)
            && match time.get_type(schema) {
                Ok(DataType::Timestamp(unit, zone)) => {
                    to_duration(&mut product.args, unit, zone.is_some(), schema)
                }
                _ => false,
            };
        Ok(match is_replaced {
            true => Transformed::yes(expr),
            false => Transformed::no(expr),
        })
    }
}

fn is_product(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if is_interval_product(function))
}

fn is_interval_product(function: &ScalarFunction) -> bool {
    function.func.name() == IntervalProduct::NAME
}

/// Replaces the interval among the factors of a product, if the other factor is an integer. Returns `false` if the length
/// of the interval depends on the time, or is not a multiple of the unit.
fn to_duration(factors: &mut [Expr], unit: TimeUnit, has_zone: bool, schema: &DFSchema) -> bool {
    let is_integer = |factor: &Expr| factor.get_type(schema).is_ok_and(|kind| kind.is_integer());
    let interval = match factors {
        [interval, factor] | [factor, interval] if is_integer(factor) => interval,
        _ => return false,
    };
    let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(fields)), _) = interval else {
        return false;
    };
    // In a time zone, a day may have 23 or 25 hours.
    if has_zone && fields.days != 0 {
        return false;
    }
    let Ok(ticks) = IntervalLength::new(unit).ticks(*fields) else {
        return false;
    };
    let Ok(duration) = ScalarValue::Int64(Some(ticks)).cast_to(&DataType::Duration(unit)) else {
        return false;
    };
    *interval = lit(duration);
    true
}
