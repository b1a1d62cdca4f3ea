//! Byte-level file access: pooled handles, memory maps, positioned reads, object stores, and files
//! under construction.

pub(crate) mod handles;
pub mod identity;
#[cfg(feature = "remote")]
pub mod remote;
pub mod storage;
pub(crate) mod target;
pub(crate) mod unfinished;
