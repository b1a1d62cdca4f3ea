//! The extension module of the Python package `tet_sql`.
//!
//! ```text
//! tet_sql (Python)   Session, Relation: conversion to pandas, Polars, NumPy and xarray
//!    |
//! _tet_sql (here)    session    opens files, plans statements
//!                    query      runs a plan, streams or collects its batches
//!                    columns    hands columns to NumPy without copying
//!                    grid       NumPy and xarray objects as arrays of a session
//!                    extension  queries of the package `datafusion` in a session
//!                    runtime    one tokio runtime per process; Ctrl-C
//! ```
//!
//! Everything that needs a Python library (pandas, NumPy, xarray) is in the Python package.

#![deny(missing_docs)]

mod axis_order;
mod columns;
mod errors;
mod extension;
mod grid;
mod parameters;
mod placeholders;
mod query;
mod runtime;
mod session;
mod statement;
mod streams;
mod text;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: tet_sql::HugePages = tet_sql::HugePages;

/// The extension module.
#[pymodule]
fn _tet_sql(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<session::Session>()?;
    module.add_class::<query::Query>()?;
    module.add_class::<extension::Extension>()?;
    module.add_class::<streams::Batches>()?;
    module.add_class::<columns::Column>()?;
    module.add_class::<grid::Variable>()?;
    let at_exit = wrap_pyfunction!(streams::wait_for_readers, module)?;
    module
        .py()
        .import("atexit")?
        .call_method1("register", (at_exit,))?;
    errors::add_to(module)
}
