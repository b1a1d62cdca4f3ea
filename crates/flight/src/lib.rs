#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod authentication;
mod bindings;
mod cancellation;
mod connections;
mod dialect;
mod flight;
mod information;
mod interruptible;
mod ipc;
mod limits;
mod log;
mod metadata;
mod options;
mod panics;
mod parameters;
mod plans;
mod queries;
mod running;
mod runtimes;
mod server;
mod service;
mod statement;
mod status;
mod ticket;
mod wire;

pub use dialect::{DataFusionDialect, Dialect};
pub use log::Log;
pub use options::{Options, Token};
pub use panics::log_briefly;
pub use server::{Error, Server};
pub use tonic::transport::{Certificate, Identity, ServerTlsConfig};
