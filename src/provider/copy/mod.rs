//! `COPY (SELECT ...) TO 'daily.tet' STORED AS TET`: from rows back to a grid.
//!
//! Rows come in any order, and not every cell needs one. They are encoded as they come: each coordinate as the number of
//! its first appearance, each value in the type of its dataset; what does not fit in memory goes to a temporary file. When
//! all have come, the axes are known, and with them the chunk of each row. Chunks are then made a few at a time, from the
//! rows that belong to them.

mod assembly;
mod axes;
mod columns;
mod format;
mod lineage;
mod measure;
mod options;
mod places;
mod row_formats;
mod sink;
mod spool;
mod target;

pub(in crate::provider) use axes::FinishedAxis;
pub use format::ArrayFormatFactory;
pub(in crate::provider) use options::Spelling;
pub use options::{AxisOrder, CopyOptions};
pub(in crate::provider) use row_formats::RowFormatFactory;
#[cfg(feature = "parquet")]
pub(in crate::provider) use row_formats::behind;
pub(in crate::provider) use target::{CoordinateDataset, chunk_shape};
