//! Cells before they are written to tiles: their order, records of them, and temporary files.

mod hilbert;
mod order;
pub(super) mod record;
mod sorter;
mod spool;

pub(super) use order::CellOrder;
pub(super) use sorter::Sorter;
pub use spool::CellSpool;
