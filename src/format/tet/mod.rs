//! The `.tet` format, Tetration layout v1: many n-dimensional arrays ("datasets") in one file, each cut into
//! a regular grid of raw or zstd chunks.
//!
//! ```text
//! superblock | dataset directory | chunk index (TIDX) | payloads | footer (THST)
//! ```
//!
//! [`TetFile`] opens a file or a package, [`ChunkReader`] reads cells, [`ZoneMaps`] and [`ValuePostings`] tell what chunks
//! hold without reading them, [`TetWriter`] writes files. Nothing here interprets
//! values: coordinates, missing values and types of columns are the business of the layers above.

pub mod anatomy;
mod bytes;
mod categories;
mod chunk;
mod dataset;
mod document;
mod dtype;
mod ending;
mod entry;
mod file;
mod fill;
mod footer;
mod index;
mod limits;
mod package;
mod postings;
pub mod repair;
mod superblock;
#[cfg(test)]
mod testing;
pub mod verify;
mod writer;
mod zones;

pub use categories::Categories;
pub use chunk::ChunkReader;
pub use dataset::Dataset;
pub use dtype::Dtype;
pub use file::{OpenOptions, TetFile};
pub(crate) use fill::{FILL_ATTRIBUTES, Fill, fill_text};
pub use footer::{
    AxisLabels, DatasetMetadata, FileMetadata, Footer, HistoryRow, LabelRule, Metadata,
};
pub use index::{ChunkRow, Codec, MemoryBudget, StoredRow};
pub(crate) use limits::{MAX_ATTRIBUTES, MAX_LABELS, MAX_TEXT, is_allowed};
pub use package::is_package;
pub use postings::{DatasetPostings, ValuePostings};
pub use superblock::MAX_RANK;
pub use writer::{Compression, DatasetSpec, TetWriter};
pub use zones::{Zone, ZoneMaps};
