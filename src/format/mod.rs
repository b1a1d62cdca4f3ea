//! Container formats: parsing bytes into arrays and metadata, and writing them back. Nothing in
//! this module depends on Arrow, DataFusion or SQL.

pub mod array;
#[cfg(any(feature = "tatami", feature = "tiledb"))]
mod fault;
mod foreign;
#[cfg(feature = "hdf5")]
pub mod hdf5;
pub mod io;
#[cfg(feature = "hdf5")]
pub mod netcdf;
pub mod npy;
#[cfg(feature = "tatami")]
pub mod tatami;
pub mod tet;
#[cfg(feature = "tiledb")]
pub mod tiledb;
#[cfg(feature = "zarr")]
pub mod zarr;

pub use foreign::{foreign, remote_location_advice};
#[cfg(any(feature = "tiledb", feature = "zarr"))]
pub(crate) use io::unfinished::hold_removal;
pub use io::unfinished::{ignores_sighup, remove_unfinished};
