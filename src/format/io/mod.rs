//! Bytes of files: open handles, memory maps and positioned reads, and files under construction.

pub(crate) mod handles;
pub mod storage;
pub(crate) mod target;
pub(crate) mod unfinished;
