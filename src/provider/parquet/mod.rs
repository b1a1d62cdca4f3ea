//! Parquet in sessions that [`enable_arrays`](crate::enable_arrays) has set up.
//!
//! - [`format`]: files written from arrays keep the attributes of their columns, so that dimensions
//!   are recognized when the files are read. Floating-point columns that may contain NaN are
//!   written without statistics.
//! - [`statistics`]: min and max of floating-point columns are inexact, because Parquet statistics
//!   ignore NaN.

mod format;
mod statistics;

pub(super) use format::{AttributedParquet, annotated_schema};
pub(super) use statistics::InexactFloatBounds;
