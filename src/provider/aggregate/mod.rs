//! Aggregates in array space: the group of a cell follows from its position, so that no row, no coordinate and no hash is
//! needed.
//!
//! [`ArrayAggregates`] is the optimizer's rule, [`ArrayAggregateExec`] the operator that it puts in place of the engine's
//! aggregation over a scan of arrays.

mod aggregation;
mod along_axis;
mod axis_filters;
mod columns;
mod engine;
mod exec;
mod fallback;
mod found;
mod group_axis;
mod groups;
mod job;
mod known;
mod order;
mod output;
mod position_sets;
mod products;
mod program;
mod rule;
mod run;
mod same_axes;
mod terms;
mod value_bounds;
mod value_set;
mod worker;

pub use exec::ArrayAggregateExec;
pub use rule::ArrayAggregates;
