//! Rewrites of expressions, most of them before DataFusion resolves their types.

mod bounded_functions;
mod durations;
mod fixed_sizes;
mod nearest;
mod written_times;

pub(crate) use bounded_functions::BoundedFunctions;
pub(crate) use durations::ComparedDurations;
pub(crate) use fixed_sizes::FixedSizes;
pub(crate) use nearest::ResolveNearest;
pub(crate) use written_times::WrittenTimes;

use datafusion::logical_expr::Operator;

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
