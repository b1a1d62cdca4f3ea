//! Byte-level file access: pooled handles, memory maps, positioned reads, object stores, caches, and files
//! under construction.

#[cfg(any(feature = "hdf5", feature = "remote"))]
pub(crate) mod cache;
pub(crate) mod handles;
pub mod identity;
pub(crate) mod parallel;
pub mod place;
#[cfg(feature = "remote")]
pub mod remote;
pub mod storage;
pub(crate) mod target;
pub(crate) mod unfinished;
