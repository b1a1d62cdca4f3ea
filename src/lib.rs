//! SQL over chunked n-dimensional arrays, on [DataFusion](datafusion) and Arrow.
//!
//! Every array in a `.tet`, Zarr or NumPy file becomes a table: a column per dimension, a column
//! `value`, and a row per cell. Queries read only the chunks they need, and aggregates run on the
//! chunks directly.
//!
//! ```text
//!  array "temperature"                      table weather.temperature
//!
//!        lat  -45     0    45               time        lat   value
//!  time                                     2024-01-01  -45    11.5
//!  2024-01-01  11.5  27.0   8.5      =>     2024-01-01    0    27.0
//!  2024-01-02  12.5  26.0   NaN             2024-01-01   45     8.5
//!                                           ...
//! ```
//!
//! ```
//! use datafusion::prelude::SessionContext;
//! use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
//! use tet_sql::{ArrayOptions, ArraySessionExt};
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
//!     ctx.register_array_file(&path, ArrayOptions::new()).await?;
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
//! # Where to start
//!
//! - [`ArraySessionExt`] registers files in any DataFusion session: one file, a directory of files,
//!   or a single dataset.
//! - [`enable_arrays`] prepares a session for everything else: quoted paths as tables
//!   (`FROM 'weather.tet#temperature'`), `CREATE EXTERNAL TABLE` over many files, `COPY` to arrays,
//!   the [functions](provider::functions), and the optimizer rules behind dynamic filters and
//!   aggregates on chunks.
//! - [`ArrayTable`] is the table provider behind all of them.
//!
//! # What a query reads
//!
//! ```text
//!  WHERE lat > 40 AND time < '2024-02-01'
//!
//!              time ----------------->
//!             +-------+-------+-------+
//!    lat  |   |       |       |       |
//!         |   +-------+-------+-------+
//!         v   |#######|##     |       |     # selected cells: 2 of 6 chunks are read
//!             +-------+-------+-------+
//! ```
//!
//! A filter on one dimension (`lat > 40`, `station IN (...)`, `date_part('month', time) = 7`, or
//! any other deterministic expression) is evaluated once per coordinate, not once per cell. The
//! result is a set of indices along each axis, the [selection](grid::Selection). The selection is
//! exact, and chunks outside it are never touched. `count(*)`, and `min` and `max` of coordinates,
//! read no chunk at all. There is one limit: on an axis of more than 16 million indices, only
//! comparisons of the index with integers are evaluated ahead of the scan, and other filters are
//! evaluated per row.
//!
//! Zone maps and value postings, if a file has them, skip chunks for filters on values, and answer
//! `min`, `max` and `count` of whole chunks.
//!
//! A session prepared by [`enable_arrays`] does more:
//!
//! - Joins, `ORDER BY ... LIMIT` and scalar subqueries push dynamic filters into running scans,
//!   which skip chunks by their coordinates and by their statistics.
//! - [Aggregates](provider::aggregate) grouped by dimensions [reduce](grid::reduce) the stored
//!   cells directly, without materialising rows.
//!
//! `EXPLAIN` shows the selection, and `EXPLAIN ANALYZE` shows what was read.
//!
//! # Layers
//!
//! - [`mod@format`]: file formats, from bytes to structures and back. No Arrow, no SQL.
//! - [`grid`]: axes, selections and chunk geometry. No I/O, no plans.
//! - [`provider`]: DataFusion on top of both.
//!
//! # Features
//!
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `zarr` | yes | reading and writing Zarr directories |
//! | `tatami` | yes | reading and writing `.tatami` files of documents, and search in them |
//! | `tiledb` | yes | reading TileDB arrays and groups |
//! | `cli` | yes | the `tet-sql` command, `sql`, `parquet`, and DataFusion's function packages |
//! | `files` | by `cli` | [`FileSession`](provider::catalog::files::FileSession): sessions over files, as the command opens them |
//! | `sql` | by `cli` | statement budgets; units and descriptions in `information_schema` |
//! | `parquet` | by `cli` | Parquet files that keep column attributes, and safe pruning with NaN |
//! | `proto` | yes | [`ArrayPlanCodec`], which encodes physical plans for other processes |
//! | `cluster` | yes | [`enable_cluster`] and [`ClusterWorker`]: queries on several machines; includes `proto` |
//! | `serve` | yes | `tet-sql serve`, an Arrow Flight SQL server; includes `cli` |
//!
//! If you embed the crate, turn the default features off and choose DataFusion's features yourself.

#![deny(missing_docs)]

pub mod error;
pub mod format;
pub mod grid;
mod huge_pages;
pub mod provider;

pub use error::Error;
pub use format::io::storage::Access;
pub use huge_pages::HugePages;
pub use provider::Unpack;
pub use provider::adapters::create::{CreateArrays, CreateSettings};
#[cfg(feature = "remote")]
pub use provider::adapters::registry::RemoteFile;
pub use provider::adapters::registry::{Candidate, Format, FormatRegistry};
pub use provider::attributes::{annotated_schema, result_schema};
pub use provider::catalog::description::{
    AttributeDescription, DimensionDescription, TableDescription,
};
pub use provider::catalog::external::{ArrayTableFactory, open_location};
pub use provider::catalog::opening_warnings::OpeningWarnings;
pub use provider::catalog::schema::ArraySchema;
pub use provider::catalog::session::{ArraySessionExt, RegisteredDirectory, enable_arrays};
pub use provider::catalog::settings::config::ArraySettings;
pub use provider::catalog::settings::options::ArrayOptions;
pub use provider::catalog::table::ArrayTable;
#[cfg(feature = "cluster")]
pub use provider::cluster::{ClusterAccess, ClusterWorker, DistributedScans, enable_cluster};
#[cfg(feature = "proto")]
pub use provider::codec::{ArrayPlanCodec, Roots};
#[cfg(feature = "tiledb")]
pub use provider::copy::insert_into_tiledb;
#[cfg(feature = "remote")]
pub use provider::remote::{LazyStores, RemoteStores};
pub use provider::source::container::{Container, ContainerSummary, TableEntry, TableRole};
#[cfg(feature = "sql")]
pub use provider::sql::execution::execute_logical_plan;
#[cfg(feature = "sql")]
pub use provider::sql::using_keys::create_logical_plan;

/// The examples of the guide, compiled as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
struct Embedding;
