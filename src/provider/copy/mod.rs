//! `COPY (SELECT ...) TO 'daily.tet' STORED AS TET`: writes the rows of a query as arrays.
//!
//! Rows may arrive in any order, and cells without a row are missing. The shape of the arrays is
//! known only after the last row, so writing takes three stages:
//!
//! ```text
//! rows ──encode──> blocks ──spool──> memory, then a temporary file ──assemble──> chunks
//! ```
//!
//! 1. Each coordinate is encoded as a code, numbered by first appearance, and each value in the
//!    type of its dataset.
//! 2. The encoded rows are spooled. Rows that do not fit in memory spill to a temporary file.
//! 3. After the last row the axes are complete, and with them the chunk of each row is known.
//!    Chunks are assembled from their rows, a few at a time.

mod assembly;
mod axes;
mod chunk_lookup;
mod columns;
mod dataset_metadata;
#[cfg(feature = "tatami")]
mod documents;
mod format;
mod lineage;
mod measure;
mod options;
mod row_formats;
mod sink;
mod spool;
mod target;
#[cfg(feature = "tiledb")]
mod tiledb;
#[cfg(feature = "remote")]
mod upload;

#[cfg(feature = "cli")]
pub(in crate::provider) use axes::FinishedAxis;
#[cfg(feature = "tatami")]
pub(in crate::provider) use documents::format_factory as document_format_factory;
pub use format::ArrayFormatFactory;
pub use options::{AxisOrder, CopyOptions};
pub(in crate::provider) use row_formats::RowFormatFactory;
#[cfg(feature = "parquet")]
pub(in crate::provider) use row_formats::parquet_columns;
#[cfg(feature = "cli")]
pub(in crate::provider) use target::{CoordinateDataset, chunk_shape};
#[cfg(feature = "tiledb")]
pub(in crate::provider) use tiledb::format_factory as tiledb_format_factory;
#[cfg(feature = "tiledb")]
pub use tiledb::insert_into_tiledb;
