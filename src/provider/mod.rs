//! Arrays as DataFusion tables.
//!
//! [`source`] defines the traits that file formats implement, and [`adapters`] implements them. All
//! other modules work on block sources and grids of any format.

pub mod adapters;
pub mod aggregate;
pub mod attributes;
pub mod catalog;
#[cfg(feature = "cluster")]
pub mod cluster;
#[cfg(feature = "proto")]
pub mod codec;
#[cfg(feature = "cli")]
pub mod convert;
pub mod copy;
pub mod error;
pub mod functions;
pub mod introspection;
pub mod join;
#[cfg(feature = "parquet")]
mod parquet;
mod planning;
pub mod plans;
#[cfg(feature = "remote")]
pub mod remote;
pub mod rules;
pub mod scan;
pub mod source;
pub mod sql;
mod subqueries;
pub mod window;

pub use catalog::settings::unpack::Unpack;
