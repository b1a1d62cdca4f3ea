//! The `.tet` format (Tetration layout v1): many n-dimensional arrays, called datasets, in one
//! file. Each dataset is split into a regular grid of raw or zstd-compressed chunks.
//!
//! ```text
//! superblock | dataset directory | chunk index (TIDX) | payloads | footer (THST)
//! ```
//!
//! [`TetFile`] opens a file or a package, and [`ChunkReader`] reads its cells. [`ZoneMaps`] and
//! [`ValuePostings`] are statistics, which describe chunks without reading them. [`TetWriter`]
//! writes files. Values are not interpreted here: coordinates, nulls and column types belong to the
//! layers above.

mod bytes;
mod file;
mod footer;
mod index;
mod limits;
mod package;
pub mod repair;
mod statistics;
mod superblock;
#[cfg(test)]
mod testing;
pub mod verify;
mod writer;

pub use crate::format::array::{
    AxisLabels, Categories, ChunkReader, ChunkStatistics, ChunkSummary, Compression, Dataset,
    DatasetMetadata, DatasetPostings, DatasetSpec, Dtype, FileMetadata, HistoryRow, LabelRule,
    MemoryBudget, ValueIndex,
};
pub(crate) use crate::format::array::{FILL_ATTRIBUTES, Fill, fill_text};
pub use file::{OpenOptions, TetFile};
pub use footer::{Footer, Metadata};
pub use index::{ChunkRow, Codec, StoredRow};
pub(crate) use limits::{LIMITS, MAX_TEXT};
pub use package::is_package;
pub use statistics::postings::ValuePostings;
pub use statistics::zone_maps::ZoneMaps;
pub use superblock::MAGIC;
pub use superblock::MAX_RANK;
pub use writer::TetWriter;
