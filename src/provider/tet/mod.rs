//! `.tet` datasets as grids.

mod columns;
mod dataset;
mod reader;
mod values;

pub use dataset::TetDataset;
