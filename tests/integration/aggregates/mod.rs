//! Aggregates in array space.

pub mod dynamic_filters;
pub mod filtered;
pub mod grouping_sets;
pub mod in_array_space;
pub mod known_chunks;
pub mod many_files;
pub mod masks;
pub mod memory;
pub mod order;
pub mod pairs;
pub mod row_by_row;
mod single_rows;
