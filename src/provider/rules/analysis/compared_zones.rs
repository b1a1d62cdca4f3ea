//! Comparisons of timestamps with and without a time zone.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Case, Expr, ExprSchemable, Operator, cast};

use crate::provider::rules::analysis::{is_comparison, map_operands};

/// The functions whose result is one of their arguments.
const CHOICES: [&str; 7] = [
    "coalesce", "nvl", "nvl2", "ifnull", "nullif", "greatest", "least",
];

/// Compares and subtracts timestamps with and without a time zone by their instants. Timestamps without a zone are taken as
/// UTC.
///
/// DataFusion takes a timestamp without a zone for the local time of the other operand's zone:
///
/// ```text
///  time = zoned              time = CAST(zoned AS TIMESTAMP)
///  coalesce(zoned, time)     coalesce(zoned, CAST(time AS TIMESTAMP WITH TIME ZONE))
/// ```
#[derive(Debug)]
pub(crate) struct ComparedZones;

impl FunctionRewrite for ComparedZones {
    fn name(&self) -> &str {
        "compared_zones"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let operands: Vec<&Expr> = match &expr {
            Expr::BinaryExpr(binary)
                if is_comparison(binary.op) || binary.op == Operator::Minus =>
            {
                vec![&binary.left, &binary.right]
            }
            Expr::Between(between) => vec![&between.expr, &between.low, &between.high],
            Expr::InList(list) => std::iter::once(&*list.expr).chain(&list.list).collect(),
            Expr::ScalarFunction(function) if CHOICES.contains(&function.name()) => {
                function.args.iter().collect()
            }
            Expr::Case(case) => return Ok(in_case(case, schema)),
            Expr::InSubquery(subquery) => return Ok(in_subquery(subquery, schema)),
            _ => return Ok(Transformed::no(expr)),
        };
        let Some(zone) = mixed_zone(&operands, schema) else {
            return Ok(Transformed::no(expr));
        };
        Ok(Transformed::yes(match expr {
            Expr::ScalarFunction(function) => {
                let args = function.args.into_iter();
                Expr::ScalarFunction(ScalarFunction {
                    args: args.map(|arg| in_zone(arg, &zone, schema)).collect(),
                    ..function
                })
            }
            other => map_operands(other, |operand| in_utc(operand, schema)),
        }))
    }
}

/// Casts an operand with a time zone to a timestamp without one. Returns other operands as they are.
fn in_utc(operand: Expr, schema: &DFSchema) -> Expr {
    match timestamp(&operand, schema) {
        Some((unit, Some(_))) => cast(operand, DataType::Timestamp(unit, None)),
        _ => operand,
    }
}

/// Casts an operand without a time zone, taken as UTC, to a zone. Returns other operands as they are.
fn in_zone(operand: Expr, zone: &Arc<str>, schema: &DFSchema) -> Expr {
    match timestamp(&operand, schema) {
        Some((unit, None)) => with_zone(operand, unit, zone),
        _ => operand,
    }
}

/// Rewrites what CASE compares, and its results.
fn in_case(case: &Case, schema: &DFSchema) -> Transformed<Expr> {
    let Case {
        mut expr,
        mut when_then_expr,
        mut else_expr,
    } = case.clone();
    let whens = case.when_then_expr.iter().map(|(when, _)| &**when);
    let compared: Vec<_> = case.expr.as_deref().into_iter().chain(whens).collect();
    let results = case.when_then_expr.iter().map(|(_, then)| &**then);
    let results: Vec<_> = results.chain(case.else_expr.as_deref()).collect();
    let is_compared = case.expr.is_some() && mixed_zone(&compared, schema).is_some();
    let zone = mixed_zone(&results, schema);
    if is_compared {
        let utc = |operand: Box<Expr>| Box::new(in_utc(*operand, schema));
        expr = expr.map(utc);
        let pairs = when_then_expr.into_iter();
        when_then_expr = pairs.map(|(when, then)| (utc(when), then)).collect();
    }
    if let Some(zone) = &zone {
        let zoned = |operand: Box<Expr>| Box::new(in_zone(*operand, zone, schema));
        let pairs = when_then_expr.into_iter();
        when_then_expr = pairs.map(|(when, then)| (when, zoned(then))).collect();
        else_expr = else_expr.map(zoned);
    }
    let case = Expr::Case(Case {
        expr,
        when_then_expr,
        else_expr,
    });
    Transformed::new_transformed(case, is_compared || zone.is_some())
}

/// Casts a timestamp without a time zone, taken as UTC, to a zone.
fn with_zone(operand: Expr, unit: TimeUnit, zone: &Arc<str>) -> Expr {
    let utc = cast(operand, DataType::Timestamp(unit, Some("+00:00".into())));
    cast(utc, DataType::Timestamp(unit, Some(Arc::clone(zone))))
}

/// Returns the first time zone of the operands, if some are timestamps with and some without a time zone.
fn mixed_zone(operands: &[&Expr], schema: &DFSchema) -> Option<Arc<str>> {
    let zones = operands.iter().filter_map(|expr| timestamp(expr, schema));
    let zones: Vec<_> = zones.map(|(_, zone)| zone).collect();
    match zones.contains(&None) {
        true => zones.into_iter().flatten().next(),
        false => None,
    }
}

/// Returns the unit and the time zone of an expression that is a timestamp.
fn timestamp(expr: &Expr, schema: &DFSchema) -> Option<(TimeUnit, Option<Arc<str>>)> {
    match expr.get_type(schema) {
        Ok(DataType::Timestamp(unit, zone)) => Some((unit, zone)),
        _ => None,
    }
}

fn in_subquery(subquery: &InSubquery, schema: &DFSchema) -> Transformed<Expr> {
    let column = subquery.subquery.subquery.schema().fields().first();
    let expr = match (
        timestamp(&subquery.expr, schema),
        column.map(|column| column.data_type()),
    ) {
        (Some((unit, None)), Some(DataType::Timestamp(_, Some(zone)))) => {
            with_zone(subquery.expr.as_ref().clone(), unit, zone)
        }
        (Some((unit, Some(_))), Some(DataType::Timestamp(_, None))) => cast(
            subquery.expr.as_ref().clone(),
            DataType::Timestamp(unit, None),
        ),
        _ => return Transformed::no(Expr::InSubquery(subquery.clone())),
    };
    Transformed::yes(Expr::InSubquery(InSubquery {
        expr: Box::new(expr),
        ..subquery.clone()
    }))
}
