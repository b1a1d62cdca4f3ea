//! Classic NetCDF files. `tests/data/netcdf/generate.py` writes them, with what netCDF4-python reads from
//! them.

mod conventions;
mod dimensions;
pub mod exercise;
mod mutations;
mod tables;
mod values;

use std::path::PathBuf;

use crate::support::cells::data;

/// Returns the path of a file in `tests/data/netcdf`.
fn path(name: &str) -> PathBuf {
    data(&format!("netcdf/{name}"))
}
