//! The common layer of all array formats.
//!
//! An [`ArrayFile`] is an open file. Each [`Dataset`] is one of its arrays, described by
//! [`DatasetMetadata`], and a [`ChunkReader`] reads the array's chunks. An [`ArrayWriter`] writes a
//! file of the arrays that a list of [`DatasetSpec`]s describes.

mod boxes;
mod categories;
mod chunk;
mod chunks;
mod dataset;
mod dtype;
mod file;
mod fill;
mod memory_budget;
mod metadata;
mod provenance;
mod spec;
pub(crate) mod statistics;
mod walk;
mod writer;

#[cfg(feature = "zarr")]
pub(crate) use boxes::BoxCopy;
pub(crate) use boxes::copy_chunk;
pub use categories::Categories;
pub use chunk::ChunkReader;
pub(crate) use chunks::Chunks;
pub use dataset::Dataset;
pub(crate) use dataset::checked_product;
pub use dtype::Dtype;
pub use file::{ArrayFile, Payload, StoredChunk};
pub(crate) use fill::{FILL_ATTRIBUTES, Fill, fill_text};
pub use memory_budget::MemoryBudget;
pub use metadata::{AxisLabels, DatasetMetadata, LabelRule};
pub use provenance::{FileMetadata, HistoryRow};
pub use spec::{Compression, DatasetSpec, Limits};
pub use statistics::{ChunkStatistics, ChunkSummary, DatasetPostings, ValueIndex};
pub(crate) use walk::next_indices;
pub use writer::ArrayWriter;
