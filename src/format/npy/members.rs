//! The members of a `.npz` file, which is a ZIP archive of `.npy` files.

use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use zip::read::ZipArchive;
use zip::{CompressionMethod, result::ZipError};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::Warnings;
use crate::format::io::storage::{Access, Storage};
use crate::format::npy::header::MAX_HEADER;

/// The first bytes of an archive: those of a member, or of the end record if the archive is empty.
const MAGICS: [[u8; 4]; 2] = [*b"PK\x03\x04", *b"PK\x05\x06"];
const EXTENSION: &str = ".npy";
/// Maximum number of members that are read.
pub(super) const MAX_MEMBERS: usize = 100_000;
/// Number of bytes of an archive that are read at once.
const READ_BYTES: usize = 64 << 10;
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
/// Members that cannot be read are left out with a warning, and so are those whose names lead out
/// of the archive, and all after the first `most`.
///
/// # Errors
/// Fails if the archive's list of members cannot be read.
pub(super) fn list(
    storage: &Arc<Storage>,
    most: usize,
    warnings: &mut Warnings,
) -> Result<Vec<(Member, Vec<u8>)>> {
    let path = storage.path();
    let mut archive = open(storage)?;
    let mut members = Vec::new();
    for index in 0..archive.len().min(most) {
        let name = match archive.name_for_index(index) {
            Some(Ok(name)) => name.into_owned(),
            _ => format!("number {index}{EXTENSION}"),
        };
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
        match member(storage, &mut archive, index, dataset) {
            Ok(member) => members.push(member),
            Err(error) => {
                let location = ErrorLocation::dataset(path, dataset);
                let warning = format!("{}; the array is left out", error.at(&location));
                warnings.push_if(is_supported(&mut archive, index), warning);
            }
        }
    }
    if archive.len() > most {
        warnings.push(format!(
            "{}: has {} members, of which only the first {most} are read",
            path.display(),
            archive.len()
        ));
    }
    Ok(members)
}

/// Returns `false` if a member is encrypted, or compressed by a method that is not supported.
fn is_supported(archive: &mut Archive, index: usize) -> bool {
    archive.by_index_raw(index).map_or(true, |member| {
        let method = member.compression();
        !member.encrypted()
            && matches!(
                method,
                CompressionMethod::Stored | CompressionMethod::Deflated
            )
    })
}

/// Returns a member, with the first [`MAX_HEADER`] bytes of its `.npy` file.
fn member(
    storage: &Storage,
    archive: &mut Archive,
    index: usize,
    dataset: &str,
) -> Result<(Member, Vec<u8>)> {
    let path = storage.path();
    let location = || ErrorLocation::dataset(path, dataset);
    let member = archive
        .by_index(index)
        .map_err(unreadable(path, location()))?;
    member.name().map_err(unreadable(path, location()))?;
    let malformed =
        |field, found: String, expected| Err(Error::malformed(location(), field, found, expected));
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
        false => storage.read_range(Access::Pread, offset..offset + most)?,
        true => {
            let mut start = Vec::new();
            let read = member.take(most).read_to_end(&mut start);
            read.map_err(Error::io(path, "decompress"))?;
            start
        }
    };
    let member = Member {
        dataset: dataset.to_string(),
        index,
        offset,
        length,
        is_compressed,
    };
    Ok((member, start))
}

/// Verifies the CRC-32 of members that are not compressed, and returns an error for each mismatch, and for
/// each member that cannot be read.
pub(super) fn verify_checksums(storage: &Arc<Storage>, members: &[Member]) -> Vec<Error> {
    let mut archive = match open(storage) {
        Ok(archive) => archive,
        Err(error) => return vec![error],
    };
    let path = storage.path();
    let check = |member: &Member| {
        let location = ErrorLocation::dataset(path, &member.dataset);
        let read = archive
            .by_index(member.index)
            .map_err(unreadable(path, location.clone()))
            .map(|mut member| io::copy(&mut member, &mut io::sink()));
        match read {
            Ok(Ok(_)) => None,
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Some(mismatch(path, &mut archive, member, location))
            }
            Ok(Err(error)) => Some(Error::io(path, "read")(error).at(&location)),
            Err(error) => Some(error),
        }
    };
    members.iter().filter_map(check).collect()
}

/// Returns the error about a member whose CRC-32 does not match its bytes. `zip` does not report the value that
/// it has computed.
fn mismatch(path: &Path, archive: &mut Archive, member: &Member, location: ErrorLocation) -> Error {
    let raw = archive.by_index_raw(member.index);
    match raw.map_err(unreadable(path, location.clone())) {
        Ok(raw) => {
            let expected = format!("{:#010x}, which the archive lists", raw.crc32());
            Error::malformed(location, "CRC-32", "another value", expected)
        }
        Err(error) => error,
    }
}

impl Member {
    /// Decompresses the member's `.npy` file to a temporary file.
    pub fn decompress(&self, storage: &Arc<Storage>) -> Result<tempfile::TempPath> {
        let path = storage.path();
        let mut temporary = tempfile::Builder::new()
            .prefix(".tet-decompressed-")
            .suffix(".tmp")
            .tempfile()
            .map_err(Error::io(path, "create a temporary file to decompress"))?;
        let mut archive = open(storage)?;
        let location = ErrorLocation::dataset(path, &self.dataset);
        let member = archive
            .by_index(self.index)
            .map_err(unreadable(path, location))?;
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

/// An archive, whose bytes are read in steps of [`READ_BYTES`].
type Archive = ZipArchive<BufReader<StorageReader>>;

fn open(storage: &Arc<Storage>) -> Result<Archive> {
    let reader = StorageReader {
        storage: Arc::clone(storage),
        position: 0,
    };
    let reader = BufReader::with_capacity(READ_BYTES, reader);
    let path = storage.path();
    ZipArchive::new(reader).map_err(unreadable(path, ErrorLocation::file(path)))
}

/// Reads a file, or an object of a store, from a position on.
struct StorageReader {
    storage: Arc<Storage>,
    position: u64,
}

impl Read for StorageReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.storage.length().saturating_sub(self.position);
        let count = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.storage.read_at(self.position, &mut buffer[..count]);
        read.map_err(io::Error::other)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for StorageReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.storage.length().checked_add_signed(by),
        };
        let outside = || io::Error::from(io::ErrorKind::InvalidInput);
        self.position = position.ok_or_else(outside)?;
        Ok(self.position)
    }
}

fn unreadable(path: &Path, location: ErrorLocation) -> impl FnOnce(ZipError) -> Error {
    move |error| match error {
        ZipError::Io(error) => Error::io(path, "read the archive of")(error),
        other => Error::malformed(
            location,
            "archive",
            format!("unreadable ({other})"),
            "a ZIP archive of .npy files, stored or deflated",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::array::ArrayFile;
    use crate::format::npy::NpyFile;

    /// Writes an archive of stored members that are too short to be arrays.
    fn archive(path: &Path, names: &[&str]) {
        let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
        let options =
            zip::write::SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        for name in names {
            archive.start_file(*name, options).unwrap();
            archive.write_all(b"cells").unwrap();
        }
        archive.finish().unwrap();
    }

    #[test]
    fn an_unreadable_member_does_not_affect_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        archive(&path, &["first.npy", "second.npy", "third.npy"]);
        let mut bytes = std::fs::read(&path).unwrap();
        // The signature before the second member.
        let offset = bytes[1..].windows(4).position(|four| four == MAGICS[0]);
        bytes[offset.unwrap() + 1] = b'X';
        std::fs::write(&path, bytes).unwrap();
        let mut warnings = Warnings::default();
        let storage = Arc::new(Storage::open(&path).unwrap());
        let listed = list(&storage, MAX_MEMBERS, &mut warnings).unwrap();
        let names: Vec<_> = listed.iter().map(|(one, _)| one.dataset.as_str()).collect();
        assert_eq!(names, ["first", "third"]);
        let [warning] = warnings.texts() else {
            panic!("{warnings:?}");
        };
        assert!(
            warning.contains("dataset \"second\": archive is unreadable"),
            "{warning}"
        );
        assert!(warning.ends_with("; the array is left out"), "{warning}");
        // Every other member is left out as well, each for a reason of its own.
        let opened = NpyFile::open(&path, Access::Pread).unwrap();
        assert_eq!((opened.datasets().len(), opened.warnings().len()), (0, 3));
    }

    #[test]
    fn members_beyond_the_limit_are_left_out_with_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        archive(&path, &["a.npy", "b.npy", "c.npy"]);
        let storage = Arc::new(Storage::open(&path).unwrap());
        for (most, expected) in [(2, 1), (3, 0)] {
            let mut warnings = Warnings::default();
            assert_eq!(list(&storage, most, &mut warnings).unwrap().len(), most);
            let warnings = warnings.texts();
            assert_eq!(warnings.len(), expected, "{warnings:?}");
            let is_told =
                |warning: &String| warning.contains("3 members, of which only the first 2");
            assert!(warnings.iter().all(is_told), "{warnings:?}");
        }
    }
}
