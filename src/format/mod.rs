//! Container formats: bytes to structures and back. Nothing here knows Arrow, DataFusion or SQL.

mod handles;
pub mod storage;
pub mod tet;
#[cfg(feature = "zarr")]
pub mod zarr;
