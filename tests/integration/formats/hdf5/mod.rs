//! HDF5 and NetCDF-4 files. `tests/data/hdf5/make.py` writes them, with the values and dimensions that
//! h5py and netCDF4-python read from them.

mod auxiliary;
mod cached;
mod checksums;
mod exercise;
mod groups;
mod linked;
mod mutations;
mod stored;
mod tables;
