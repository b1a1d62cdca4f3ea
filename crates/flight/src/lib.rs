#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod dialect;
mod execution;
mod limits;
mod log;
mod network;
mod options;
mod panics;
mod protocol;
mod server;
mod status;

pub use dialect::{DataFusionDialect, Dialect};
pub use log::Log;
pub use options::{Options, Token};
pub use panics::log_briefly;
pub use server::{Error, Server, serve_service};
pub use tonic::transport::{Certificate, Identity, ServerTlsConfig};
