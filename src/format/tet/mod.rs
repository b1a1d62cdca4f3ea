//! The `.tet` format, Tetration layout v1: many n-dimensional arrays ("datasets") in one file, each cut into
//! a regular grid of raw or zstd chunks.
//!
//! ```text
//! superblock | dataset directory | chunk index (TIDX) | payloads | footer (THST)
//! ```
//!
//! [`TetFile`] opens a file, [`ChunkReader`] reads cells, [`TetWriter`] writes files. Nothing here interprets
//! values: coordinates, missing values and types of columns are the business of the layers above.

mod bytes;
mod chunk;
mod dataset;
mod dtype;
mod file;
mod fill;
mod footer;
mod index;
mod superblock;
mod writer;

pub use chunk::ChunkReader;
pub use dataset::Dataset;
pub use dtype::Dtype;
pub use file::{OpenOptions, TetFile};
pub(crate) use fill::{Fill, fill_text};
pub use footer::{
    AxisLabels, DatasetMetadata, FileMetadata, Footer, HistoryRow, LabelRule, Metadata,
};
pub use index::{ChunkRow, Codec, MemoryBudget};
pub use superblock::MAX_RANK;
pub use writer::{Compression, DatasetSpec, TetWriter};
