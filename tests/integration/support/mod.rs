//! Helpers shared by the integration tests.

pub mod cells;
pub mod clock;
pub mod memory;
pub mod npy;
pub mod sql;
