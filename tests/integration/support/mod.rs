//! Helpers shared by the integration tests.

pub mod cells;
pub mod clock;
#[cfg(feature = "proto")]
pub mod encoded;
#[cfg(feature = "remote")]
pub mod http;
#[cfg(feature = "zarr")]
pub mod image;
pub mod memory;
pub mod npy;
pub mod sql;
