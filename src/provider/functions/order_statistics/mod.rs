//! Aggregate functions that keep all values of a group: medians and quantiles.

pub(crate) mod collected;
mod columns;
pub mod median;
pub mod quantile;
mod spaced_rows;
