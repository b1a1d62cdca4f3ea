//! Parquet, as sessions that [`enable_tet`](crate::enable_tet) made read and write it.
//!
//! - [`format`]: a file that was written from arrays has the attributes of its columns, so that dimensions are found
//!   again; floating-point columns that may hold NaN are written without statistics.
//! - [`statistics`]: bounds of floating-point columns are not exact, since those of Parquet ignore NaN.

mod format;
mod statistics;

pub(super) use format::{AttributedParquet, annotated_schema};
pub(super) use statistics::InexactFloatBounds;
