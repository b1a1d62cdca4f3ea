//! Dense arrays as grids.

mod grid;
mod labels;
mod reader;
mod statistics;

pub(super) use labels::open_grid;
