//! Comparisons of durations with intervals.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, ScalarUDF};

use crate::provider::functions::interval_length::IntervalLength;
use crate::provider::functions::interval_product::IntervalProduct;
use crate::provider::rules::analysis::is_comparison;

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
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
                let units = (unit(&left, schema), unit(&right, schema));
                let is_interval = |expr: &Expr| is_interval(expr, schema);
                let (left, right, changed) = match units {
                    (Some(unit), None) if is_interval(&right) => {
                        (left, Box::new(length(*right, unit)), true)
                    }
                    (None, Some(unit)) if is_interval(&left) => {
                        (Box::new(length(*left, unit)), right, true)
                    }
                    (None, None)
                        if is_interval(&left)
                            && is_interval(&right)
                            && (has_duration(&left, schema) || has_duration(&right, schema)) =>
                    {
                        let unit = TimeUnit::Nanosecond;
                        let (left, right) = (length(*left, unit), length(*right, unit));
                        (Box::new(left), Box::new(right), true)
                    }
                    _ => (left, right, false),
                };
                let binary = Expr::BinaryExpr(BinaryExpr::new(left, op, right));
                Transformed::new_transformed(binary, changed)
            }
            Expr::Between(between) => {
                let operands = [&between.expr, &between.low, &between.high];
                match common_unit(operands.into_iter().map(AsRef::as_ref), schema) {
                    Some(unit) => {
                        let operand = |operand: Box<Expr>| match is_interval(&operand, schema) {
                            true => Box::new(length(*operand, unit)),
                            false => operand,
                        };
                        Transformed::yes(Expr::Between(Between {
                            expr: operand(between.expr),
                            low: operand(between.low),
                            high: operand(between.high),
                            negated: between.negated,
                        }))
                    }
                    None => Transformed::no(Expr::Between(between)),
                }
            }
            Expr::InList(list) => {
                let operands = list.list.iter().chain([list.expr.as_ref()]);
                match common_unit(operands, schema) {
                    Some(unit) => {
                        let operand = |operand: Expr| match is_interval(&operand, schema) {
                            true => length(operand, unit),
                            false => operand,
                        };
                        Transformed::yes(Expr::InList(InList {
                            expr: Box::new(operand(*list.expr)),
                            list: list.list.into_iter().map(operand).collect(),
                            negated: list.negated,
                        }))
                    }
                    None => Transformed::no(Expr::InList(list)),
                }
            }
            other => Transformed::no(other),
        })
    }
}

fn length(interval: Expr, unit: TimeUnit) -> Expr {
    ScalarUDF::from(IntervalLength::new(unit)).call(vec![interval])
}

/// Returns the unit of a duration.
fn unit(expr: &Expr, schema: &DFSchema) -> Option<TimeUnit> {
    match expr.get_type(schema) {
        Ok(DataType::Duration(unit)) => Some(unit),
        _ => None,
    }
}

/// Returns the unit of the durations among the operands of a comparison. If there is none, but an
/// interval is made of a duration or is a product, nanoseconds.
fn common_unit<'a>(
    mut operands: impl Iterator<Item = &'a Expr> + Clone,
    schema: &DFSchema,
) -> Option<TimeUnit> {
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
