//! Dense arrays as grids.

mod grid;
mod labels;
mod reader;
mod statistics;

#[cfg(feature = "remote")]
pub(super) use grid::DenseGrid;
pub(super) use labels::open_grid;
