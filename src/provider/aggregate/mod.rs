//! Aggregates in array space: the group of a cell follows from its indices, so that neither rows nor coordinates are made,
//! and no keys are hashed.
//!
//! [`plan`] has the optimizer rule [`ArrayAggregates`] and the program that it plans, [`exec`] the operator
//! [`ArrayAggregateExec`], which the rule puts in place of DataFusion's aggregation over a scan of arrays.

pub mod exec;
pub mod plan;

pub use exec::operator::ArrayAggregateExec;
pub use plan::rule::ArrayAggregates;
