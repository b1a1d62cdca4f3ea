//! Scans of dense arrays: a grid as a table, its chunks as blocks, and the reader of these.

pub(crate) mod blocks;
pub(crate) mod reader;
pub(crate) mod repeated;
mod repeated_reader;
pub(crate) mod sorted;
mod sorted_reader;
pub(crate) mod sorted_windows;
pub mod table;
