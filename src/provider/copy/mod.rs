//! `COPY (SELECT ...) TO 'daily.tet' STORED AS TET`: writes the rows of a query to files.
//!
//! `arrays` writes rows as arrays, `documents` as `.tatami` documents, and `tiledb` as the cells of TileDB
//! arrays. `row_formats` wraps the formats of DataFusion.

mod arrays;
mod arrow_schemas;
mod background;
mod csv_headers;
#[cfg(feature = "tatami")]
mod documents;
mod format;
mod json_arrays;
mod lineage;
mod options;
mod row_formats;
mod row_paths;
mod row_sink;
mod stored_types;
#[cfg(feature = "tiledb")]
mod tiledb;
#[cfg(feature = "remote")]
mod upload;

#[cfg(feature = "cli")]
pub(in crate::provider) use arrays::axes::FinishedAxis;
#[cfg(feature = "cli")]
pub(in crate::provider) use arrays::target::{CoordinateDataset, chunk_shape};
#[cfg(feature = "tatami")]
pub(in crate::provider) use documents::format_factory as document_format_factory;
pub use format::ArrayFormatFactory;
pub use options::{AxisOrder, CopyOptions};
pub(in crate::provider) use row_formats::RowFormatFactory;
#[cfg(feature = "parquet")]
pub(in crate::provider) use row_formats::parquet_columns;
#[cfg(feature = "tiledb")]
pub(in crate::provider) use tiledb::format_factory as tiledb_format_factory;
#[cfg(feature = "tiledb")]
pub use tiledb::insert_into_tiledb;
