//! Joins of arrays in array space.

pub mod aligned;
pub mod zip;
