//! Analyzer and optimizer rules that [`enable_arrays`](crate::enable_arrays) adds to a session. The rules
//! for aggregates and joins on chunks are elsewhere.

pub(crate) mod analysis;
pub(crate) mod batch_slices;
pub mod filter_pushdown;
pub(crate) mod grouping_sets;
pub(crate) mod limits;
pub(crate) mod logic;
pub(crate) mod names;
pub(crate) mod nested_loops;
pub(crate) mod operators;
pub(crate) mod optimizer;
pub(crate) mod order;
mod ordered_groups;
pub(crate) mod pass_through;
pub mod probe_sides;
pub(crate) mod shared_reads;
pub(crate) mod single_stage;
pub(crate) mod sorted_scans;
pub(crate) mod windows;
