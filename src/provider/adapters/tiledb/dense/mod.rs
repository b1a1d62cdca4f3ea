//! Dense arrays as grids.

mod grid;
mod reader;
mod statistics;

pub(super) use grid::DenseGrid;
