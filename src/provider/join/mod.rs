//! Joins of arrays in array space.

pub mod aligned;
pub mod lookup;
pub mod zip;
