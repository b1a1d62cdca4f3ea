//! The units of what a query has computed.
//!
//! The columns of an array's table have them as an attribute. The engine passes that on with a column, and drops it from
//! an aggregate or an expression, some of which leave units as they are.

use datafusion::common::Column;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan, Operator};
use std::collections::BTreeMap;

/// The attribute.
const UNITS: &str = "units";
/// Aggregates of the unit of their first argument.
const AGGREGATES: [&str; 14] = [
    "avg",
    "min",
    "max",
    "sum",
    "median",
    "mean",
    "first_value",
    "last_value",
    "nth_value",
    "stddev",
    "stddev_pop",
    "approx_median",
    "approx_percentile_cont",
    "percentile_cont",
];
/// Functions that leave a unit as it is.
const FUNCTIONS: [&str; 6] = ["abs", "ceil", "floor", "nullif", "round", "trunc"];
/// Plans are not searched deeper, nor are expressions.
const DEEPEST: usize = 64;

/// The units of a plan's columns, by their names, as far as they can be told.
pub fn units(plan: &LogicalPlan) -> BTreeMap<String, String> {
    let fields = plan.schema().fields().iter().enumerate();
    let found = fields
        .filter_map(|(number, field)| Some((field.name().clone(), of_column(plan, number, 0)?)));
    found.collect()
}

fn of_column(plan: &LogicalPlan, number: usize, depth: usize) -> Option<String> {
    let field = plan.schema().fields().get(number)?;
    if let Some(unit) = field.metadata().get(UNITS) {
        return Some(unit.clone());
    }
    if depth > DEEPEST {
        return None;
    }
    let below = |input: &LogicalPlan, number| of_column(input, number, depth + 1);
    let inside =
        |expression: &Expr, input: &LogicalPlan| of_expression(expression, input, depth + 1);
    match plan {
        LogicalPlan::Projection(projection) => {
            inside(projection.expr.get(number)?, &projection.input)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let mut all = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
            inside(all.nth(number)?, &aggregate.input)
        }
        LogicalPlan::Window(window) => {
            let before = window.input.schema().fields().len();
            match number.checked_sub(before) {
                None => below(&window.input, number),
                Some(own) => inside(window.window_expr.get(own)?, &window.input),
            }
        }
        LogicalPlan::Join(join) => {
            let left = match join.join_type {
                JoinType::RightSemi | JoinType::RightAnti => 0,
                _ => join.left.schema().fields().len(),
            };
            match number.checked_sub(left) {
                None => below(&join.left, number),
                Some(right) => below(&join.right, right),
            }
        }
        LogicalPlan::Distinct(Distinct::On(distinct)) => {
            inside(distinct.select_expr.get(number)?, &distinct.input)
        }
        LogicalPlan::Union(union) => agreed(union.inputs.iter().map(|input| below(input, number))),
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::SubqueryAlias(_) => below(plan.inputs().first()?, number),
        _ => None,
    }
}

fn of_expression(expression: &Expr, input: &LogicalPlan, depth: usize) -> Option<String> {
    if depth > DEEPEST {
        return None;
    }
    let inside = |expression: &Expr| of_expression(expression, input, depth + 1);
    match expression {
        Expr::Column(column) => of_column(input, place(column, input)?, depth + 1),
        Expr::Alias(alias) => inside(&alias.expr),
        Expr::Cast(cast) => inside(&cast.expr),
        Expr::TryCast(cast) => inside(&cast.expr),
        Expr::Negative(inner) => inside(inner),
        Expr::AggregateFunction(AggregateFunction { func, params }) => AGGREGATES
            .contains(&func.name())
            .then(|| inside(params.args.first()?))?,
        Expr::WindowFunction(window) => {
            let name = window.fun.name();
            let is_kept = AGGREGATES.contains(&name) || ["lag", "lead"].contains(&name);
            is_kept.then(|| inside(window.params.args.first()?))?
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "coalesce" => {
            // A constant is written in the unit of what it stands for.
            let args = args.iter();
            agreed(
                args.filter(|one| !matches!(one, Expr::Literal(..)))
                    .map(inside),
            )
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => FUNCTIONS
            .contains(&func.name())
            .then(|| inside(args.first()?))?,
        // A constant could be the way from one unit to another.
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::Plus | Operator::Minus) => {
            let (left, right) = (inside(&binary.left)?, inside(&binary.right)?);
            (left == right).then_some(left)
        }
        _ => None,
    }
}

/// The unit of what is one or another of several.
fn agreed(mut units: impl Iterator<Item = Option<String>>) -> Option<String> {
    let first = units.next()??;
    units
        .all(|unit| unit.as_ref() == Some(&first))
        .then_some(first)
}

fn place(column: &Column, input: &LogicalPlan) -> Option<usize> {
    input.schema().maybe_index_of_column(column)
}
