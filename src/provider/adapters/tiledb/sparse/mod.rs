//! Sparse arrays as tables, whose blocks are the data tiles of fragments.

mod blocks;
mod reader;
mod table;

#[cfg(feature = "remote")]
pub(super) use blocks::SparseBlocks;
pub(super) use table::SparseTable;
