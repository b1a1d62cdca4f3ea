//! Adapters of file formats to containers, block sources and grids, and the registry of formats.

pub mod arrays;
pub mod create;
#[cfg(feature = "files")]
pub(crate) mod file_kind;
pub mod registry;
#[cfg(feature = "tatami")]
pub(in crate::provider) mod tatami;
#[cfg(feature = "tiledb")]
pub(in crate::provider) mod tiledb;
