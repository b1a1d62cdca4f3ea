//! Filters, and the chunks that are not read for them.

pub mod null_logic;
pub mod opening;
pub mod plans;
pub mod pruning;
pub mod scans;
