//! Arrays as tables of DataFusion.
//!
//! Everything above [`source`] works on block sources and grids and does not know a file format; [`tet`] is the adapter
//! of one.

mod axis_filter;
pub mod description;
pub mod grid_blocks;
mod metrics;
pub mod options;
mod partitions;
mod pushdown;
pub mod scan;
pub mod schema;
pub mod session;
pub mod source;
mod stream;
pub mod table;
pub mod tet;
