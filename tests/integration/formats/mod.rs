//! The file formats, tested against the programs that define them.

pub mod corpus;
pub mod decoding;
pub mod edge;
#[cfg(feature = "hdf5")]
mod hdf5;
pub mod interop;
#[cfg(feature = "hdf5")]
mod netcdf;
pub mod numpy;
pub mod packages;
pub mod reference;
pub mod registered;
pub mod repairs;
#[cfg(feature = "tatami")]
pub mod tatami;
#[cfg(feature = "tiledb")]
pub mod tiledb;
#[cfg(feature = "tiledb")]
pub mod tiledb_copy;
#[cfg(feature = "tiledb")]
mod tiledb_killed;
pub mod writer;
#[cfg(feature = "zarr")]
pub mod zarr;
