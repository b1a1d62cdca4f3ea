//! Writes TileDB arrays.
//!
//! ```text
//! ArrayWriter    a new array: schema, enumerations, metadata      __schema, __meta
//! DenseWriter    a fragment of a dense array, tile by tile        __fragments/<name>
//! DenseCellWriter   a fragment of a dense array, from cells in any order
//! SparseWriter   a fragment of a sparse array, from cells in any order
//!   FragmentWriter   data files, statistics, footer, commit       __commits/<name>.wrt
//!     FieldWriter        the tiles of one field
//!       Encoder              filters of one chunk
//! ```
//!
//! Everything is written in format version 22. A fragment counts once its commit file exists, which is
//! written last, after all other files are synced. Statistics of tiles and fragments are always stored:
//! other readers fail on fragments without them.

mod array;
mod bytes;
mod cells;
mod dense;
mod dense_cells;
mod fragment;
mod schema;
mod sparse;
mod tile;

pub use array::{ArrayWriter, WriteOptions};
pub use cells::CellSpool;
pub use dense::DenseWriter;
pub use dense_cells::DenseCellWriter;
pub use schema::default_fill;
pub use sparse::SparseWriter;

#[cfg(test)]
mod tests;
