//! NumPy's files: `.npy`, one array, and `.npz`, an archive of some.

mod element;
mod file;
mod header;
mod members;
mod writer;

pub use file::NpyFile;
pub(crate) use file::contiguous_chunk;
pub use writer::NpyWriter;
