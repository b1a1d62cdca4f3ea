//! Parquet in sessions that [`enable_arrays`](crate::enable_arrays) has set up.
//!
//! - [`columns`]: files written from arrays keep the attributes of their columns, so that
//!   dimensions are recognized when the files are read. Floating-point columns that may contain NaN
//!   are written without statistics.
//! - [`footers`]: truncated files are errors before DataFusion reads them.
//! - [`statistics`]: min and max of floating-point columns are inexact, because Parquet statistics
//!   ignore NaN.

mod columns;
mod footers;
mod statistics;

pub(super) use columns::{ParquetColumns, annotated_schema};
pub(super) use footers::check_footers;
pub(super) use statistics::INEXACT_FLOAT_BOUNDS;
