//! Container formats: parsing bytes into arrays and metadata, and writing them back. Nothing in
//! this module depends on Arrow, DataFusion or SQL.

pub mod array;
mod foreign;
pub mod io;
pub mod npy;
pub mod tet;
#[cfg(feature = "zarr")]
pub mod zarr;

pub use foreign::{foreign, remote};
#[cfg(feature = "zarr")]
pub(crate) use io::unfinished::hold;
pub use io::unfinished::{ignores_hang_ups, remove_unfinished};
