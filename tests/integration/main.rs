//! Integration tests, in one binary since each links the whole engine. Their truths are independent of this crate:
//! NumPy's arrays, the `tetration` crate, the engine over exploded rows, arithmetic.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod aggregate_filters;
mod aggregate_memory;
mod aggregate_order;
mod aggregates;
mod attributes;
mod budget;
mod carried;
mod cells;
mod command;
mod convert;
mod coordinates;
mod copy;
mod copy_axes;
mod copy_rows;
mod corpus;
mod decoding;
mod documentation;
mod edge;
mod exploded;
mod filtered_aggregates;
mod functions;
mod grouped_files;
mod hostile;
mod hostile_statements;
mod interop;
mod introspection;
mod joins;
mod known_chunks;
mod memory;
mod mutations;
mod npy;
mod null_logic;
mod numpy;
mod odd;
mod opening;
mod packages;
mod plans;
mod pruning;
mod reference;
mod repairs;
mod row_by_row;
mod scans;
#[cfg(feature = "serve")]
mod serve;
mod short_memory;
mod sql;
mod sqllogic;
mod tables;
#[cfg(unix)]
mod terminal;
mod tool;
mod trust;
mod wide;
mod writer;
#[cfg(feature = "zarr")]
mod zarr;
mod zip;
