//! TileDB arrays and groups, read and written without the TileDB library.
//!
//! A TileDB array is a directory. Each write adds a *fragment*, a directory of its own; a commit file
//! makes it count. Cells of a dense array fill a grid of *space tiles*, and a fragment overwrites the
//! cells of older ones. Cells of a sparse array have coordinates and are stored in *data tiles* of
//! some number of cells.
//!
//! ```text
//! TileDbArray   schema, fragments, deletes        __schema, __commits
//!   Fragment    fields, tiles, bounds, statistics __fragments/<name>/__fragment_metadata.tdb
//!     TileReader   cells of one field in one tile   a0.tdb, a0_var.tdb, a0_validity.tdb, d0.tdb, ...
//!   DenseReader    cells of one attribute in a window, fragments laid over each other
//!   SparseReader   cells of one data tile, and which of them count
//! TileDbGroup   members                           __group
//!
//! ArrayWriter   a new array
//! DenseWriter, SparseWriter   a fragment of a new or an existing array
//! ```
//!
//! Format versions 10 to 23 are read, and version 22 is written. Opening an array reads schemas, commits and footers; everything
//! else is read on first use.

mod array;
mod buffers;
mod bytes;
mod codecs;
mod dense;
mod directory;
mod fault;
#[cfg(feature = "remote")]
pub(crate) mod fetch;
mod fragment;
mod group;
mod reader;
mod schema;
mod sparse;
mod tile;
mod verify;
mod writer;

pub use array::{OpenOptions, TileDbArray};
pub use buffers::TileBuffers;
pub use codecs::EncryptionKey;
pub use dense::{DenseReader, Grid, IndexBox, Window, WindowRegion, WindowSource};
pub use directory::{Condition, Delete, MetadataValue, Operator, TimeWindow};
pub(crate) use fragment::MAX_TILE_CELLS;
pub use fragment::{
    Coordinates, Field, FieldKind, FieldStatistics, Fragment, TileBounds, TileSummary, TileValues,
};
pub use group::{GroupMember, TileDbGroup};
pub use reader::TileReader;
pub use schema::{
    Attribute, CellValues, DataOrder, Datatype, Dimension, DimensionLabel, Enumeration, Filter,
    Interval, Layout, Pipeline, Representation, Scalar, Schema,
};
pub use sparse::SparseReader;
#[cfg(feature = "remote")]
pub(crate) use sparse::needed_tiles;
pub use verify::{Verification, verify};
pub use writer::{
    ArrayWriter, CellSpool, DenseCellWriter, DenseWriter, SparseWriter, WriteOptions, default_fill,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_move_between_threads() {
        fn is_send<T: Send>() {}
        fn is_sync<T: Sync>() {}
        is_send::<TileReader>();
        is_send::<DenseReader>();
        is_send::<SparseReader>();
        is_send::<TileDbArray>();
        is_send::<ArrayWriter>();
        is_send::<DenseWriter>();
        is_send::<SparseWriter>();
        is_sync::<TileDbArray>();
    }
}
