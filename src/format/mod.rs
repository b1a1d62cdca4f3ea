//! Container formats: bytes to structures and back. Nothing here knows Arrow, DataFusion or SQL.

pub mod array;
mod foreign;
mod handles;
pub mod npy;
pub mod storage;
pub(crate) mod target;
pub mod tet;
mod unfinished;
#[cfg(feature = "zarr")]
pub mod zarr;

pub use foreign::{foreign, remote};
#[cfg(feature = "zarr")]
pub(crate) use unfinished::hold;
pub use unfinished::{ignores_hang_ups, remove_unfinished};
