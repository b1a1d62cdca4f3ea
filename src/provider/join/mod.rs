//! Joins of arrays in array space.

pub mod aligned;
mod aligned_reader;
pub mod lookup;
mod matched_rows;
pub(in crate::provider) mod negative_zeros;
mod pair;
pub(crate) mod reindexed;
pub(crate) mod side;
pub mod zip;
