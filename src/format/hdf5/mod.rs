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
//! `Source`. Chunks are read and decoded here: their sizes are checked before memory is
//! allocated, and buffers are reused.

mod array;
mod cached_tables;
mod cell_attributes;
mod checked_blocks;
mod chunk_checksums;
mod chunk_table;
mod file;
mod filters;
mod layout;
mod metadata;
mod open;
mod source;
mod text;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

pub use file::Hdf5File;

/// The first bytes of the superblock.
const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
/// The length of the shortest user block.
const FIRST_USER_BLOCK: usize = 512;
/// Maximum size of a chunk in bytes.
const MAX_CHUNK_BYTES: u64 = 2 << 30;

/// Returns `true` if a file is HDF5. `start` are its first bytes. A user block before the superblock is
/// 512 bytes long, or a power of two above.
pub(crate) fn is_hdf5(path: &Path, start: &[u8]) -> bool {
    if start.starts_with(SIGNATURE.as_slice()) {
        return true;
    }
    if start.len() < FIRST_USER_BLOCK {
        return false;
    }
    let Ok(mut file) = File::open(path) else {
        return false;
    };
    let mut offset = FIRST_USER_BLOCK as u64;
    let mut bytes = [0; SIGNATURE.len()];
    // Reading past the end of the file fails.
    while file.seek(SeekFrom::Start(offset)).is_ok() && file.read_exact(&mut bytes).is_ok() {
        if bytes == *SIGNATURE {
            return true;
        }
        offset *= 2;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superblock_is_found_behind_a_user_block() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        for (length, expected) in [
            (0, true),
            (512, true),
            (2048, true),
            (600, false),
            (8, false),
        ] {
            let bytes = [vec![b' '; length], SIGNATURE.to_vec()].concat();
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(
                is_hdf5(&path, &bytes[..bytes.len().min(520)]),
                expected,
                "{length}"
            );
        }
    }
}
