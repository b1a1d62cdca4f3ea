//! Rewrites of expressions, most of them before DataFusion resolves their types.

mod bounded_functions;
mod compared_zones;
mod duration_windows;
mod durations;
mod fixed_sizes;
mod nearest;
mod rewrites;
mod written_times;

pub(crate) use bounded_functions::BoundedFunctions;
pub(crate) use nearest::ResolveNearest;
pub(crate) use rewrites::ExpressionRewrites;

use compared_zones::ComparedZones;
use duration_windows::DurationWindows;
use durations::ComparedDurations;
use fixed_sizes::FixedSizes;
use written_times::WrittenTimes;

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
