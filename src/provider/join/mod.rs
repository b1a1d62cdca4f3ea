//! Joins of arrays in array space.

pub mod aligned;
mod aligned_reader;
pub mod lookup;
pub(crate) mod side;
pub mod zip;
