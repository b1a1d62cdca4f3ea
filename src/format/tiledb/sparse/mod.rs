//! Sparse arrays: data tiles, and which of their cells count.

mod keys;
mod overlap;
mod reader;

pub(crate) use overlap::any_meet;
pub use reader::SparseReader;
