//! SQL over chunked n-dimensional arrays.
//!
//! A `.tet` file holds many arrays ("datasets"), each cut into a grid of chunks. This crate makes each of them a table
//! of [DataFusion](datafusion): a column per dimension, then `value`, and a row per cell. Zarr folders and NumPy's files are
//! read the same way.
//!
//! ```
//! use datafusion::prelude::SessionContext;
//! use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
//! use tet_sql::{TetOptions, TetSessionExt};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // A small file: temperatures at two times and three latitudes.
//!     let folder = tempfile::tempdir()?;
//!     let path = folder.path().join("weather.tet");
//!     let temperature = DatasetSpec::new("temperature", Dtype::F32, &[2, 3], &[1, 3])
//!         .with_dim_names(["time", "lat"])
//!         .with_labels("time", ["2024-01-01", "2024-01-02"])
//!         .with_labels("lat", ["-45", "0", "45"]);
//!     let mut writer = TetWriter::create(&path, vec![temperature])?;
//!     let cells = [11.5f32, 27.0, 8.5, 12.5, 26.0, f32::NAN];
//!     writer.write_dataset(0, &cells.map(f32::to_le_bytes).concat())?;
//!     writer.finish()?;
//!
//!     // A file is a schema, a dataset is a table.
//!     let ctx = SessionContext::new();
//!     ctx.register_tet_file(&path, TetOptions::new()).await?;
//!     let warm = ctx
//!         .sql("SELECT time, max(value) FROM weather.temperature WHERE lat >= 0 GROUP BY time ORDER BY time")
//!         .await?
//!         .to_string()
//!         .await?;
//!     assert!(warm.contains("| 2024-01-01 | 27.0 "), "{warm}");
//!     Ok(())
//! }
//! ```
//!
//! # What is pushed down
//!
//! A predicate over one dimension (`lat > 40`, `station IN (...)`, `date_part('month', time) = 7`: any deterministic
//! expression) is evaluated on that dimension's axis, once per coordinate. The sets of positions that come out of it,
//! one per axis, are the [selection](grid::Selection): it is exact, and chunks outside it are never touched. (On an axis
//! of more than 16 million positions only comparisons of the index with integers are; others are left to the rows.) `count(*)`,
//! and `min` and `max` of coordinates, read no chunk at all.
//!
//! Zone maps and value postings, where a file has them, rule out chunks for predicates over values, and answer `min`, `max`
//! and `count` of whole chunks. In a session that [`enable_tet`] made, joins, `ORDER BY ... LIMIT` and scalar subqueries rule
//! out chunks by both while a scan runs. `EXPLAIN` shows the selection, `EXPLAIN ANALYZE` what was read.
//!
//! In such a session, [aggregates](provider::aggregate) grouped by dimensions are reductions of the
//! stored [cells](grid::reduce), without rows.
//!
//! # Layers
//!
//! - [`mod@format`]: bytes to structures and back. No Arrow, no SQL.
//! - [`grid`]: axes, selections, chunk geometry. No I/O, no plans.
//! - [`provider`]: DataFusion on top of both.
//!
//! # Features
//!
//! `zarr` (on by default) reads and writes Zarr folders.
//!
//! `cli` (on by default) is the `tet-sql` command and the DataFusion features that it wants. An application that embeds
//! the crate turns it off and chooses DataFusion's features itself. `sql`, a part of it, adds units and descriptions to
//! `information_schema`. `parquet`, also a part of it, keeps attributes of columns in Parquet files.
//!
//! `serve` (on by default) adds `tet-sql serve`, an Arrow Flight SQL server.

#![deny(missing_docs)]

pub mod error;
pub mod format;
pub mod grid;
pub mod provider;

pub use error::Error;
pub use format::io::storage::Access;
pub use provider::Unpack;
pub use provider::attributes::{annotated_schema, result_schema};
pub use provider::catalog::description::{
    AttributeDescription, DimensionDescription, TableDescription,
};
pub use provider::catalog::external::{TetTableFactory, open_location};
pub use provider::catalog::schema::TetSchema;
pub use provider::catalog::session::{TetFolder, TetSessionExt, enable_tet};
pub use provider::catalog::settings::config::TetConfig;
pub use provider::catalog::settings::options::TetOptions;
pub use provider::catalog::table::ArrayTable;
#[cfg(feature = "sql")]
pub use provider::sql::using_keys::create_logical_plan;

/// The examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
struct Embedding;
