//! Rewrites of expressions, most of them before DataFusion resolves their types.

mod added_products;
mod bounded_functions;
mod coarse_times;
mod compared_zones;
mod duration_windows;
mod durations;
mod filtered_windows;
mod fixed_sizes;
mod nearest;
mod repeated_sort_keys;
mod rewrites;
mod similar_patterns;
mod unordered_casts;
mod written_times;

pub(crate) use bounded_functions::BoundedFunctions;
pub(crate) use nearest::ResolveNearest;
pub(crate) use repeated_sort_keys::RepeatedSortKeys;
pub(crate) use rewrites::ExpressionRewrites;

use added_products::AddedProducts;
use coarse_times::CoarseTimes;
use compared_zones::ComparedZones;
use duration_windows::DurationWindows;
use durations::ComparedDurations;
use fixed_sizes::FixedSizes;
use similar_patterns::SimilarPatterns;
use unordered_casts::UnorderedCasts;
use written_times::WrittenTimes;

use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};

/// Returns `true` for operators that compare two values.
fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// Replaces the operands of a binary operator, BETWEEN or an IN list. Returns other expressions as they are.
fn map_operands(expr: Expr, replace: impl Fn(Expr) -> Expr) -> Expr {
    let boxed = |operand: Box<Expr>| Box::new(replace(*operand));
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            Expr::BinaryExpr(BinaryExpr::new(boxed(left), op, boxed(right)))
        }
        Expr::Between(between) => Expr::Between(Between {
            expr: boxed(between.expr),
            low: boxed(between.low),
            high: boxed(between.high),
            negated: between.negated,
        }),
        Expr::InList(list) => Expr::InList(InList {
            expr: boxed(list.expr),
            list: list.list.into_iter().map(&replace).collect(),
            negated: list.negated,
        }),
        other => other,
    }
}
