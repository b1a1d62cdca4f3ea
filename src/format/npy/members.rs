//! The members of a `.npz` file, which is a ZIP archive of `.npy` files.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use zip::read::ZipArchive;
use zip::{CompressionMethod, result::ZipError};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::handles::{self, SHARED};
use crate::format::io::storage::{Access, Storage};
use crate::format::npy::header::MAX_HEADER;

/// The first bytes of an archive: those of a member, or of the end record if the archive is empty.
const MAGICS: [[u8; 4]; 2] = [*b"PK\x03\x04", *b"PK\x05\x06"];
const EXTENSION: &str = ".npy";
/// Maximum number of members that are read.
const MAX_MEMBERS: usize = 100_000;
/// Maximum compression ratio of Deflate.
const MAX_RATIO: u64 = 1040;

/// A member of an archive that holds an array.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// The member's name without its extension.
    pub dataset: String,
    index: usize,
    /// Offset of the member's data in the archive.
    pub offset: u64,
    /// Length of the decompressed `.npy` file in bytes.
    pub length: u64,
    pub is_compressed: bool,
}

/// Returns `true` if a file is a ZIP archive, judging by its first bytes.
pub(super) fn is_archive(storage: &Storage) -> Result<bool> {
    if storage.length() < 4 {
        return Ok(false);
    }
    let start = storage.read_range(Access::Pread, 0..4)?;
    Ok(MAGICS.iter().any(|magic| *magic == start[..]))
}

/// Lists the arrays of an archive, each with the first [`MAX_HEADER`] bytes of its `.npy` file.
///
/// Members whose names lead out of the archive are left out with a warning.
pub(super) fn list(
    path: &Path,
    storage: &Storage,
    warnings: &mut Vec<String>,
) -> Result<Vec<(Member, Result<Vec<u8>>)>> {
    let mut archive = open(path)?;
    let mut members = Vec::new();
    for index in 0..archive.len().min(MAX_MEMBERS) {
        let member = archive.by_index(index).map_err(unreadable(path))?;
        let name = member.name().map_err(unreadable(path))?.into_owned();
        // An array without a name could not be queried.
        let Some(dataset) = name.strip_suffix(EXTENSION).filter(|name| !name.is_empty()) else {
            continue;
        };
        // Extracting a member with such a name could write outside the target directory.
        let mut parts = dataset.split(['/', '\\']);
        if dataset.starts_with(['/', '\\']) || parts.any(|part| part == "..") {
            warnings.push(format!(
                "{}: the member {name:?} is left out: its name leads out of the archive",
                path.display()
            ));
            continue;
        }
        let malformed = |field, found: String, expected: String| {
            let place = ErrorLocation::dataset(path, dataset);
            Err(Error::malformed(place, field, found, expected))
        };
        let is_compressed = member.compression() != CompressionMethod::Stored;
        let (length, stored) = (member.size(), member.compressed_size());
        let offset = member.data_start().unwrap_or(u64::MAX);
        let end = offset.checked_add(stored);
        if end.is_none_or(|end| end > storage.length()) {
            return malformed(
                "location of the member",
                format!("{stored} bytes at {offset}"),
                format!(
                    "a location within the {} bytes of the file",
                    storage.length()
                ),
            );
        }
        if (!is_compressed && length != stored) || length > stored.saturating_mul(MAX_RATIO) {
            return malformed(
                "length of the member",
                format!("{length} bytes"),
                format!("a length that {stored} stored bytes can decompress to"),
            );
        }
        let most = length.min(MAX_HEADER as u64);
        let start = match is_compressed {
            false => storage.read_range(Access::Pread, offset..offset + most),
            true => {
                let mut start = Vec::new();
                let read = member.take(most).read_to_end(&mut start);
                read.map(|_| start).map_err(Error::io(path, "decompress"))
            }
        };
        let member = Member {
            dataset: dataset.to_string(),
            index,
            offset,
            length,
            is_compressed,
        };
        members.push((member, start));
    }
    Ok(members)
}

impl Member {
    /// Decompresses the member's `.npy` file to a temporary file.
    pub fn decompress(&self, path: &Path) -> Result<tempfile::TempPath> {
        let mut temporary = tempfile::Builder::new()
            .prefix(".tet-decompressed-")
            .suffix(".tmp")
            .tempfile()
            .map_err(Error::io(path, "create a temporary file to decompress"))?;
        let mut archive = open(path)?;
        let member = archive.by_index(self.index).map_err(unreadable(path))?;
        let copied = io::copy(&mut member.take(self.length + 1), &mut temporary)
            .and_then(|length| temporary.flush().map(|()| length));
        let length = copied.map_err(Error::io(path, "decompress"))?;
        if length != self.length {
            return Err(Error::malformed(
                ErrorLocation::dataset(path, &self.dataset),
                "length of the member",
                match length > self.length {
                    true => "longer when decompressed".to_string(),
                    false => format!("{length} bytes when decompressed"),
                },
                format!("{} bytes", self.length),
            ));
        }
        Ok(temporary.into_temp_path())
    }
}

fn open(path: &Path) -> Result<ZipArchive<File>> {
    let file = handles::open(path, &SHARED).map_err(Error::io(path, "open"))?;
    ZipArchive::new(file).map_err(unreadable(path))
}

fn unreadable(path: &Path) -> impl Fn(ZipError) -> Error {
    move |error| match error {
        ZipError::Io(error) => Error::io(path, "read the archive of")(error),
        other => Error::malformed(
            ErrorLocation::file(path),
            "archive",
            format!("unreadable ({other})"),
            "a ZIP archive of .npy files, stored or deflated",
        ),
    }
}
