//! HDF5 files, and so the files of NetCDF-4 and of most programs that measure or simulate.
//!
//! ```text
//! superblock --> groups --> object headers: shape, element type, layout, filters, attributes
//!                                 |
//!                 chunk index, on first use: offset, size and filter mask of each chunk
//!                                 |
//!                 stored chunk --> filters in reverse order --> elements --> cells
//! ```
//!
//! The crate `hdf5-reader` parses the structures of the metadata, through the bounded reads of
//! [`Source`](source::Source). Chunks are read and decoded here: their sizes are checked before memory is
//! allocated, and buffers are reused.

mod array;
mod chunk_table;
mod file;
mod filters;
mod layout;
mod metadata;
mod open;
mod source;
mod text;

pub use file::Hdf5File;

/// The first bytes of the superblock.
const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";
/// Maximum size of a chunk in bytes.
const MAX_CHUNK_BYTES: u64 = 2 << 30;

/// Returns `true` if a file is HDF5. `start` are its first bytes. A user block before the superblock is
/// 512 bytes long, or a power of two above; `read` reads the eight bytes at an offset.
pub(crate) fn is_hdf5(start: &[u8], mut read: impl FnMut(u64) -> Option<[u8; 8]>) -> bool {
    if start.starts_with(SIGNATURE) {
        return true;
    }
    let mut offset = 512;
    while let Some(bytes) = read(offset) {
        if bytes == SIGNATURE {
            return true;
        }
        // Fails at the end of the file at the latest.
        offset *= 2;
    }
    false
}
