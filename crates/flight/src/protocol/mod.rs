//! The requests of Flight and Flight SQL, and their messages.

pub mod flight;
pub mod information;
pub mod ipc;
pub mod metadata;
pub mod service;
pub mod ticket;
pub mod wire;
