//! Container formats: bytes to structures and back. Nothing here knows Arrow, DataFusion or SQL.

pub mod array;
mod handles;
pub mod npy;
pub mod storage;
pub(crate) mod target;
pub mod tet;
#[cfg(feature = "zarr")]
pub mod zarr;
