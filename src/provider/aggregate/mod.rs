//! Aggregates in array space. The group of a cell follows from its indices, so there are no rows to
//! materialise, no coordinate columns to build and no keys to hash.
//!
//! [`plan`] holds the program of an aggregation, [`exec`] the operator [`ArrayAggregateExec`] that
//! runs it, and [`joined`] the operator of aggregates over lookup joins. [`ArrayGroupingSetsExec`] computes
//! ROLLUP, CUBE and GROUPING SETS. The optimizer rule [`ArrayAggregates`] puts the operators in place of
//! DataFusion's aggregations.

pub mod exec;
pub(crate) mod grouping_sets;
pub mod joined;
pub mod plan;
pub(crate) mod rule;

pub use exec::operator::ArrayAggregateExec;
pub use grouping_sets::ArrayGroupingSetsExec;
pub use joined::ArrayJoinAggregateExec;
pub use rule::ArrayAggregates;
