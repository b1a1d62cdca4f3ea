//! Reading of whole files, and regions of files.

use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::place::Place;
use crate::format::io::storage::{Access, Storage};
use crate::format::tiledb::codecs::{Codecs, EncryptionKey};
use crate::format::tiledb::tile;

/// The maximum number of bytes of a file that is read as a whole.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// Returns the bytes of a file.
pub(crate) fn read(file: &Place) -> Result<Vec<u8>> {
    file.read(MAX_FILE_BYTES)
}

/// Returns the payload of a file that is one generic tile.
pub(crate) fn read_generic(file: &Place, key: Option<&EncryptionKey>) -> Result<Vec<u8>> {
    let bytes = read(file)?;
    let decoded = tile::decode_generic(&mut Codecs::default(), key, &bytes);
    let (payload, _) = decoded.map_err(|fault| fault.at(ErrorLocation::file(file.path())))?;
    Ok(payload)
}

/// Returns `true` if a file that is one generic tile is encrypted.
pub(crate) fn is_encrypted(file: &Place) -> Result<bool> {
    let encrypted = tile::is_encrypted(&read(file)?);
    encrypted.map_err(|fault| fault.at(ErrorLocation::file(file.path())))
}

/// Returns `true` if a name from a file names an entry of a directory, and not a path out of it.
pub(crate) fn is_entry_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

/// Returns the place of a relative location in a file, or `None` if it is not below the directory.
pub(crate) fn place_below(directory: &Place, location: &str) -> Option<Place> {
    let parts = || location.split('/').filter(|part| !part.is_empty());
    let is_below = parts().count() > 0 && parts().all(is_entry_name);
    is_below.then(|| parts().fold(directory.clone(), |place, part| place.join(part)))
}

/// A region of a file, in a memory map or in a buffer that is reused.
#[derive(Default)]
pub(crate) struct Region {
    map: Option<Arc<Mmap>>,
    buffer: Vec<u8>,
}

impl Region {
    /// Reads a region of a file.
    pub fn read(&mut self, storage: &Storage, access: Access, range: Range<u64>) -> Result<&[u8]> {
        if range.start > range.end || range.end > storage.length() {
            return Err(Error::malformed(
                ErrorLocation::file(storage.path()),
                "file length",
                format!("{} bytes", storage.length()),
                format!("bytes from {} to {}", range.start, range.end),
            ));
        }
        if range.is_empty() {
            return Ok(&[]);
        }
        match storage.usable(access) {
            Access::Mmap => {
                let map = self.map.insert(storage.map()?);
                // The file's length, and with it the range, fits in the address space.
                let range = range.start as usize..range.end as usize;
                storage.read_ahead(map, &range);
                Ok(map.get(range).unwrap_or_default())
            }
            Access::Pread => {
                let length = usize::try_from(range.end - range.start).map_err(|_| {
                    Error::invalid(storage.path(), "a region is larger than the address space")
                })?;
                self.buffer.resize(length, 0);
                storage.read_at(range.start, &mut self.buffer)?;
                Ok(&self.buffer)
            }
        }
    }
}
