//! Planning and running of statements, each query on a runtime of its own.

pub mod bindings;
pub mod cancellation;
pub mod interruptible;
pub mod parameters;
pub mod plans;
pub mod queries;
pub mod running;
pub mod runtimes;
pub mod statement;
