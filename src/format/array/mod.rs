//! The common layer of all array formats.
//!
//! An [`ArrayFile`] is an open file. Each [`Dataset`] is one of its arrays, described by
//! [`DatasetMetadata`], and a [`ChunkReader`] reads the array's chunks. An [`ArrayWriter`] writes a
//! file of the arrays that a list of [`DatasetSpec`]s describes.

mod boxes;
#[cfg(any(feature = "hdf5", feature = "zarr"))]
mod buffers;
mod chunk;
mod compressed;
mod dataset;
mod decoding;
mod dtype;
mod file;
mod listing;
#[cfg(feature = "remote")]
mod located;
mod metadata;
pub(crate) mod statistics;
#[cfg(feature = "hdf5")]
mod valid_range;
mod walk;
mod writing;

#[cfg(any(feature = "hdf5", feature = "zarr"))]
pub(crate) use boxes::BoxCopy;
#[cfg(any(feature = "cli", feature = "zarr"))]
pub(crate) use boxes::copy_chunk;
#[cfg(feature = "zarr")]
pub(crate) use buffers::repeated;
#[cfg(any(feature = "hdf5", feature = "zarr"))]
pub(crate) use buffers::{crop, fill};
pub use chunk::ChunkReader;
pub use dataset::Dataset;
pub(crate) use dataset::checked_product;
pub use decoding::DecodeContext;
#[cfg(any(feature = "hdf5", feature = "zarr"))]
pub(in crate::format) use decoding::ZstdContext;
pub use dtype::Dtype;
#[cfg(any(feature = "cli", feature = "zarr"))]
pub(crate) use file::groups_of;
pub use file::{ArrayFile, GroupAttributes, Payload, StoredChunk};
pub use listing::{Listing, Warnings};
#[cfg(feature = "remote")]
pub(crate) use located::{ChunkBytes, fetch_all};
#[cfg(feature = "remote")]
pub use located::{FetchedChunk, LocatedChunk};
pub use metadata::categories::Categories;
pub use metadata::described::{DescribedAxis, Spacing};
pub(crate) use metadata::fill::{FILL_ATTRIBUTES, Fill, fill_text};
pub use metadata::memory_budget::MemoryBudget;
pub use metadata::provenance::{FileMetadata, HistoryRow};
pub use metadata::{AxisLabels, DatasetMetadata, LabelRule};
pub use statistics::{ChunkStatistics, ChunkSummary, DatasetPostings, ValueIndex};
#[cfg(feature = "hdf5")]
pub(crate) use valid_range::ValidRangeFile;
pub use walk::next_indices;
pub(crate) use writing::chunks::Chunks;
pub use writing::spec::{Compression, DatasetSpec, Limits};
pub(crate) use writing::writer::threads_for;
pub use writing::writer::{ArrayWriter, ChunkCells};
