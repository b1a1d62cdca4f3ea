//! Sparse arrays: data tiles, and which of their cells count.

mod checks;
mod keys;
#[cfg(feature = "remote")]
mod needed;
mod overlap;
mod reader;

#[cfg(feature = "remote")]
pub(crate) use needed::needed_tiles;
pub(crate) use overlap::any_meet;
pub use reader::SparseReader;
