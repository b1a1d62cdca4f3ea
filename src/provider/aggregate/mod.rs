//! Aggregates in array space. The group of a cell follows from its indices, so there are no rows to
//! materialise, no coordinate columns to build and no keys to hash.
//!
//! [`plan`] holds the program of an aggregation, [`exec`] the operator [`ArrayAggregateExec`] that
//! runs it. The optimizer rule [`ArrayAggregates`] puts the operator in place of DataFusion's
//! aggregation over an array scan.

pub mod exec;
pub mod plan;
pub(crate) mod rule;

pub use exec::operator::ArrayAggregateExec;
pub use rule::ArrayAggregates;
