//! Runs aggregates in array space: workers reduce chunks to partial states, which are merged and
//! emitted.

pub(crate) mod accumulators;
pub(crate) mod along_axis;
pub(crate) mod axis_expressions;
pub(crate) mod chunk_order;
pub(crate) mod chunk_statistics;
pub(crate) mod fallback;
pub(crate) mod job;
pub(crate) mod operator;
pub(crate) mod output;
pub(crate) mod partial_states;
pub(crate) mod row_evaluation;
pub(crate) mod run;
pub(crate) mod worker;
