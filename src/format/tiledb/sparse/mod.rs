//! Sparse arrays: data tiles, and which of their cells count.

mod keys;
mod reader;

pub use reader::SparseReader;
