//! Options of files and settings of sessions.

pub mod config;
pub mod options;
pub(crate) mod unpack;
