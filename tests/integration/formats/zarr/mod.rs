//! Zarr directories: arrays from zarr-python and xarray read as in NumPy, broken directories end in
//! an answer or an error, and written arrays read back.

mod corpus;
mod decoded;
mod durations;
mod hostile;
mod images;
mod links;
mod mapped;
mod mutations;
pub mod stores;
mod writing;
