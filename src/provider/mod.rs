//! Arrays as tables of DataFusion.
//!
//! [`source`] has the traits that file formats implement, [`adapters`] implements them. All other modules work on block
//! sources and grids, whatever the format.

pub mod adapters;
pub mod aggregate;
pub mod attributes;
pub mod catalog;
#[cfg(feature = "cli")]
pub mod convert;
pub mod copy;
pub mod functions;
pub mod introspection;
pub mod join;
#[cfg(feature = "parquet")]
mod parquet;
mod planning;
pub mod plans;
pub mod rules;
pub mod scan;
pub mod source;
pub mod sql;

pub use catalog::settings::unpack::Unpack;
