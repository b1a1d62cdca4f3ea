//! `.tet` datasets as grids.

mod array;
mod columns;
mod coordinates;
mod dataset;
mod decoding;
mod open;
mod reader;
mod statistics;
mod tables;
mod values;
mod wide;

pub(super) use coordinates::{ARROW_TYPE, DATE, base, group};
pub use dataset::TetDataset;
pub(crate) use open::open;
pub use tables::TetTables;
