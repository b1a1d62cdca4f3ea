//! NumPy files: `.npy` holds one array, and `.npz` is an archive of `.npy` files.

mod element;
mod file;
mod header;
mod layout;
mod members;
mod writer;

use crate::format::array::Limits;
pub use file::NpyFile;
#[cfg(any(feature = "cli", feature = "hdf5"))]
pub(crate) use layout::contiguous_chunk;
pub use writer::NpyWriter;

/// The limits on one dataset. The formats have no place for attributes, which writers leave out.
pub(crate) const LIMITS: Limits = Limits {
    dimensions: header::MAX_DIMENSIONS,
    ..Limits::NONE
};
