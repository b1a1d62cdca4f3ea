//! Aggregates of the rows of a [lookup join](crate::provider::join::lookup), without hashing.
//!
//! Each grouping expression is over dimensions of the array, or over columns of the build side. The
//! expressions of the array are numbered on its axes, and its scan adds a group number to each cell,
//! in the same way as the key index. The rows of the build side are numbered once they are
//! collected. The group of a joined row follows from the two numbers:
//!
//! ```text
//! SELECT time, region, avg(value) FROM array JOIN regions ON .. GROUP BY time, region
//!
//! group = group number of the cell (time) * number of regions + group number of the build row (region)
//! ```
//!
//! DataFusion's accumulators receive the joined rows with these groups, or merge partial states that were
//! computed before the join (`eager`). Consecutive rows of the array that match the same row of the build side are
//! reduced to one partial state first (`folds`), so that no joined row is made. [`ArrayJoinAggregateExec`] is the operator, and `plan` recognises
//! the aggregations that it can compute.

mod eager;
mod execution;
mod folds;
mod operator;
pub(in crate::provider) mod plan;
mod runs;

pub use operator::ArrayJoinAggregateExec;
