//! Connections, and who may use them.

pub mod authentication;
pub mod connections;
