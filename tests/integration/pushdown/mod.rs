//! Filter pushdown, and the chunks that it skips.

pub mod null_logic;
pub mod opening;
pub mod products;
pub mod pruning;
pub mod scans;
mod shared_reads;
mod sorted_scans;
pub mod sparse;
mod sparse_filters;
pub mod steps;
