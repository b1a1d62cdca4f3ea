//! Byte-level file access: pooled handles, memory maps, positioned reads, and files under
//! construction.

pub(crate) mod handles;
pub mod identity;
pub mod storage;
pub(crate) mod target;
pub(crate) mod unfinished;
