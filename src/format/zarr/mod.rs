//! Zarr hierarchies in directories and object stores, versions 2 and 3.
//!
//! A hierarchy holds n-dimensional arrays, each cut into a regular grid of compressed chunks. Each
//! chunk is a file of its own or, in version 3, part of a shard.
//!
//! ```text
//! weather.zarr/zarr.json               the root group             (.zgroup, .zattrs in version 2)
//! weather.zarr/ocean/t2m/zarr.json     array "ocean/t2m"          (.zarray, .zattrs)
//! weather.zarr/ocean/t2m/c/0/3         chunk [0, 3] of the array  (0.3)
//! ```
//!
//! [`ZarrHierarchy`] opens a hierarchy and reads chunks, [`ZarrWriter`] writes one. As in the other
//! formats, attributes are text, and strings are codes whose categories are an attribute, as in
//! converted `.tet` files. This module does not interpret values.
//!
//! The `zarrs` crate reads the metadata and decodes the rarer codecs. Whatever a hostile file could
//! make arbitrarily large (decompression, shards, strings) is decoded by this module, within the
//! chunk size that the metadata states.

mod array;
mod cells;
mod chunk_files;
mod codecs;
mod file;
mod hierarchy;
mod images;
mod keys;
mod local;
mod metadata;
#[cfg(feature = "remote")]
mod remote;
mod root;
mod text;
mod walk;
mod writer;

use crate::format::array::Limits;
pub use array::ZarrArray;
pub use file::ZarrFile;
pub use hierarchy::ZarrHierarchy;
pub use root::OutwardLinks;
#[cfg(feature = "remote")]
pub(crate) use walk::ROOT_DOCUMENTS;
pub(crate) use walk::is_array;
pub use walk::is_hierarchy;
pub use writer::{ZarrVersion, ZarrWriteOptions, ZarrWriter};

/// Maximum size of a chunk in bytes, both stored and decoded.
const MAX_CHUNK_BYTES: u64 = 2 << 30;
/// Maximum number of dimensions, as in NumPy.
const MAX_DIMENSIONS: usize = 64;

/// The limits on one dataset.
pub(crate) const LIMITS: Limits = Limits {
    dimensions: MAX_DIMENSIONS,
    ..Limits::NONE
};
