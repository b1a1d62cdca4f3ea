//! Comparisons of durations with intervals.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF};

use crate::provider::functions::times::interval_length::IntervalLength;
use crate::provider::functions::times::interval_product::IntervalProduct;
use crate::provider::rules::analysis::{is_comparison, map_operands};

/// Replaces intervals that are compared with durations by their lengths, in the unit of the
/// durations:
///
/// ```text
///  lead <= INTERVAL '2 days'    lead <= 172800000000 microseconds
/// ```
#[derive(Debug)]
pub(crate) struct ComparedDurations;

impl FunctionRewrite for ComparedDurations {
    fn name(&self) -> &str {
        "compared_durations"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let unit = match &expr {
            Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
                common_unit(&binary.left, [&*binary.right].into_iter(), schema)
            }
            Expr::Between(between) => common_unit(
                &between.expr,
                [&*between.low, &between.high].into_iter(),
                schema,
            ),
            Expr::InList(list) => common_unit(&list.expr, list.list.iter(), schema),
            _ => None,
        };
        let Some(unit) = unit else {
            return Ok(Transformed::no(expr));
        };
        let length = |operand: Expr| match is_interval(&operand, schema) {
            true => ScalarUDF::from(IntervalLength::new(unit)).call(vec![operand]),
            false => operand,
        };
        Ok(Transformed::yes(map_operands(expr, length)))
    }
}

/// Returns the unit of a duration.
fn unit(expr: &Expr, schema: &DFSchema) -> Option<TimeUnit> {
    match expr.get_type(schema) {
        Ok(DataType::Duration(unit)) => Some(unit),
        _ => None,
    }
}

/// Returns the unit of the durations among the operands of a comparison. If there is none, but an
/// interval is made of a duration or is a product, nanoseconds. Returns `None` if nothing is to be
/// replaced.
fn common_unit<'a>(
    first: &'a Expr,
    others: impl Iterator<Item = &'a Expr> + Clone,
    schema: &DFSchema,
) -> Option<TimeUnit> {
    // Most comparisons end here.
    if unit(first, schema).is_none() && !is_interval(first, schema) {
        return None;
    }
    let mut operands = std::iter::once(first).chain(others);
    let mut all = operands.clone();
    all.find_map(|operand| unit(operand, schema)).or_else(|| {
        let is_made_of = |operand| is_interval(operand, schema) && has_duration(operand, schema);
        operands.any(is_made_of).then_some(TimeUnit::Nanosecond)
    })
}

/// Returns `true` if an interval is computed from a duration, or is the product of an interval and a
/// number. The fields of such intervals are not normalized, and days may be hours.
fn has_duration(expr: &Expr, schema: &DFSchema) -> bool {
    let found = expr.exists(|expr| {
        let is_product = matches!(expr, Expr::ScalarFunction(function)
            if function.func.name() == IntervalProduct::NAME);
        Ok(is_product || unit(expr, schema).is_some())
    });
    found.unwrap_or(false)
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_)))
}
