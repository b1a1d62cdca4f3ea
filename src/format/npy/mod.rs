//! NumPy files: `.npy` holds one array, and `.npz` is an archive of `.npy` files.

mod element;
mod file;
mod header;
mod members;
mod writer;

pub use file::NpyFile;
pub(crate) use file::contiguous_chunk;
pub use writer::NpyWriter;
