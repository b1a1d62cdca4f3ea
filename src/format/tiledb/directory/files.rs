//! Reading of directories, whole files, and regions of files.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::storage::{Access, Storage};
use crate::format::tiledb::codecs::{Codecs, EncryptionKey};
use crate::format::tiledb::tile;

/// Returns the names in a directory, in byte order; none if the directory does not exist. Names
/// that are not UTF-8 are not those of the format.
pub(crate) fn list(directory: &Path) -> Result<BTreeSet<String>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(BTreeSet::new());
        }
        Err(error) => return Err(Error::io(directory, "list")(error)),
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry.map_err(Error::io(directory, "list"))?;
        names.extend(entry.file_name().into_string());
    }
    Ok(names)
}

/// Returns the bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let storage = Storage::open(path)?;
    storage.read_range(Access::Pread, 0..storage.length())
}

/// Returns the payload of a file that is one generic tile.
pub(crate) fn read_generic(path: &Path, key: Option<&EncryptionKey>) -> Result<Vec<u8>> {
    let bytes = read(path)?;
    let decoded = tile::decode_generic(&mut Codecs::default(), key, &bytes);
    let (payload, _) = decoded.map_err(|fault| fault.at(ErrorLocation::file(path)))?;
    Ok(payload)
}

/// Returns `true` if a file that is one generic tile is encrypted.
pub(crate) fn is_encrypted(path: &Path) -> Result<bool> {
    let encrypted = tile::is_encrypted(&read(path)?);
    encrypted.map_err(|fault| fault.at(ErrorLocation::file(path)))
}

/// Returns `true` if a name from a file names an entry of a directory, and not a path out of it.
pub(crate) fn is_entry_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

/// Returns the path of a relative location in a file, or `None` if it is not below the directory.
pub(crate) fn path_below(directory: &Path, location: &str) -> Option<PathBuf> {
    let parts = || location.split('/').filter(|part| !part.is_empty());
    let is_below = parts().count() > 0 && parts().all(is_entry_name);
    is_below.then(|| parts().fold(directory.to_path_buf(), |path, part| path.join(part)))
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
        match access {
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
