//! Comparisons of durations with intervals.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, ScalarUDF};

use crate::provider::functions::interval_length::IntervalLength;
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
                    _ => (left, right, false),
                };
                let binary = Expr::BinaryExpr(BinaryExpr::new(left, op, right));
                Transformed::new_transformed(binary, changed)
            }
            Expr::Between(between) => match unit(&between.expr, schema) {
                Some(unit) => {
                    let bound = |bound: Box<Expr>| match is_interval(&bound, schema) {
                        true => Box::new(length(*bound, unit)),
                        false => bound,
                    };
                    Transformed::yes(Expr::Between(Between {
                        low: bound(between.low),
                        high: bound(between.high),
                        ..between
                    }))
                }
                None => Transformed::no(Expr::Between(between)),
            },
            Expr::InList(list) => match unit(&list.expr, schema) {
                Some(unit) => {
                    let elements = list.list.into_iter();
                    let elements = elements.map(|element| match is_interval(&element, schema) {
                        true => length(element, unit),
                        false => element,
                    });
                    Transformed::yes(Expr::InList(InList {
                        list: elements.collect(),
                        ..list
                    }))
                }
                None => Transformed::no(Expr::InList(list)),
            },
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

fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_)))
}
