//! Options of a file, and settings of a session.

pub mod config;
pub mod options;
pub(crate) mod unpack;
