//! Zarr folders: what zarr-python and xarray wrote is read as NumPy says, broken folders end in an answer or
//! an error, and what is written is read again.

mod corpus;
mod decoded;
mod hostile;
mod links;
mod mutations;
mod stores;
mod writing;
