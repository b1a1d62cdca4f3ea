//! Aggregates in array space. The group of a cell follows from its indices, so there are no rows to
//! materialise, no coordinate columns to build and no keys to hash.
//!
//! [`plan`] holds the optimizer rule [`ArrayAggregates`] and the program it plans. [`exec`] holds
//! [`ArrayAggregateExec`], the operator that the rule puts in place of DataFusion's aggregation
//! over an array scan.

pub mod exec;
pub mod plan;

pub use exec::operator::ArrayAggregateExec;
pub use plan::rule::ArrayAggregates;
