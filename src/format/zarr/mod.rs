//! Zarr hierarchies in folders, version 2 and 3: many n-dimensional arrays, each cut into a regular grid of
//! compressed chunks that lie in files of their own, or, in version 3, in shards.
//!
//! ```text
//! weather.zarr/zarr.json               the root group             (.zgroup, .zattrs in version 2)
//! weather.zarr/ocean/t2m/zarr.json     array "ocean/t2m"          (.zarray, .zattrs)
//! weather.zarr/ocean/t2m/c/0/3         chunk [0, 3] of it         (0.3)
//! ```
//!
//! [`ZarrFolder`] opens a hierarchy and reads chunks, [`ZarrWriter`] writes one. What the other formats keep
//! as text is text here too: attributes are, and arrays of text are codes with their categories in an
//! attribute, as in converted `.tet` files. Nothing interprets values.
//!
//! The `zarrs` crate reads the metadata and the rarer codecs. Whatever can grow without bound when a file is hostile
//! (decompression, shards, texts) is decoded here, within the size that the metadata gives a chunk.

mod array;
mod cells;
mod codecs;
mod file;
mod folder;
mod keys;
mod metadata;
mod root;
mod text;
mod walk;
mod writer;

pub use array::ZarrArray;
pub use file::ZarrFile;
pub use folder::ZarrFolder;
pub use root::OutwardLinks;
pub(crate) use walk::is_array;
pub use walk::is_hierarchy;
pub use writer::{ZarrVersion, ZarrWriteOptions, ZarrWriter};

/// Bytes of the largest chunk that is read, stored and decoded.
const MAX_CHUNK_BYTES: u64 = 2 << 30;
/// Dimensions that an array may have; NumPy's arrays have no more.
const MAX_DIMENSIONS: usize = 64;
