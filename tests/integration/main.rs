//! Integration tests, in one binary because each binary links all of DataFusion. Expected values
//! are independent of this crate: NumPy arrays, the `tetration` crate, DataFusion over the same
//! cells as rows, and arithmetic.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod aggregates;
#[cfg(all(feature = "cluster", feature = "serve"))]
mod cluster;
mod command;
mod copy;
mod documentation;
mod formats;
mod hostile;
mod joins;
mod pushdown;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "serve")]
mod serve;
mod sqllogic;
mod support;
mod tables;
mod windows;
