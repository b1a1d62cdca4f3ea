//! Arrays as tables of DataFusion.
//!
//! Everything above [`source`] works on block sources and grids and does not know a file format; [`arrays`] is the adapter
//! of one.

pub mod aggregate;
pub mod aligned;
mod analysis;
pub mod arrays;
pub mod attributes;
mod axis_bounds;
mod axis_filter;
mod below;
mod block_queue;
pub mod budget;
mod chunk_walk;
pub mod config;
#[cfg(feature = "cli")]
pub mod convert;
pub mod copy;
pub mod description;
pub mod external;
mod file_blocks;
mod file_kind;
pub mod files;
pub mod filter_pushdown;
pub mod functions;
mod grid_blocks;
mod grid_reader;
pub mod grid_table;
pub mod introspection;
#[cfg(feature = "sql")]
pub mod join_keys;
mod joined_axis;
pub mod last_rows;
pub mod lineage;
mod location;
mod logic;
mod long_limits;
mod mask;
mod metrics;
mod names;
mod nested_loops;
pub mod options;
#[cfg(feature = "parquet")]
mod parquet;
mod partitions;
pub mod planned_reads;
pub mod probe_sides;
mod pruning;
mod pushdown;
pub mod scan;
pub mod schema;
pub mod session;
mod some_blocks;
mod sorted_blocks;
pub mod source;
#[cfg(feature = "sql")]
mod statement;
mod stream;
pub mod table;
mod unpack;
mod url_catalogs;
pub mod zip;

pub use unpack::Unpack;
