//! Reads the bytes of a file through a memory map, by positioned reads, or from an object store.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
#[cfg(feature = "hdf5")]
use std::time::SystemTime;

use memmap2::{Mmap, MmapOptions};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::handles::{self, Handle, Pool, PooledFile};
use crate::format::io::identity::FileIdentity;
#[cfg(feature = "remote")]
use crate::format::io::remote::RemoteObject;

/// The way in which the bytes of a file are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Access {
    /// Through a memory map, without copying. If another process truncates the mapped file, this
    /// process is killed by a bus error.
    #[default]
    Mmap,
    /// Through positioned reads. Every byte is copied, and a truncated file gives an error.
    Pread,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mmap => "mmap",
            Self::Pread => "pread",
        })
    }
}

impl FromStr for Access {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "mmap" => Ok(Self::Mmap),
            "pread" => Ok(Self::Pread),
            _ => Err(format!("access mode is \"{text}\", expected mmap or pread")),
        }
    }
}

/// A file of known length, or an object of a store.
///
/// The memory map of a file is created on first use and then shared. The process-wide pool may close
/// and reopen the file between uses, so the file must stay where it is, unchanged.
#[derive(Debug)]
pub struct Storage {
    source: Source,
    /// One bit per [`BYTES_PER_ADVISED_BIT`] bytes of the file, set once the system was told to read them
    /// ahead.
    advised: OnceLock<Vec<AtomicU64>>,
}

/// The place of the bytes.
#[derive(Debug)]
enum Source {
    File(PooledFile),
    #[cfg(feature = "remote")]
    Object(Arc<RemoteObject>),
}

/// The numbers of bytes at the start and at the end of a file whose checksum is part of its identity.
/// Headers and footers are in these bytes.
const IDENTIFYING_BYTES: [u64; 2] = [4 << 10, 64 << 10];
/// The maximum length of a region of an object, other than a chunk.
#[cfg(feature = "remote")]
const MAX_REGION_BYTES: usize = 1 << 30;
/// Length below which a range is not advised: systems read this far ahead by themselves.
const MIN_ADVISED_BYTES: usize = 256 << 10;
/// Bytes of the file per bit of [`Storage::advised`].
const BYTES_PER_ADVISED_BIT: usize = 256 << 10;

impl Storage {
    /// Opens `path` in the process-wide pool.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_in(path, &handles::SHARED)
    }

    /// Opens `path` in `pool`.
    pub(crate) fn open_in(path: &Path, pool: &'static Pool) -> Result<Self> {
        let file = PooledFile::open(path, pool)?;
        Ok(Self {
            source: Source::File(file),
            advised: OnceLock::new(),
        })
    }

    /// Creates the storage of an object.
    #[cfg(feature = "remote")]
    pub fn remote(object: Arc<RemoteObject>) -> Self {
        Self {
            source: Source::Object(object),
            advised: OnceLock::new(),
        }
    }

    /// The path as given to [`Self::open`], or the URL of an object.
    pub fn path(&self) -> &Path {
        match &self.source {
            Source::File(file) => file.path(),
            #[cfg(feature = "remote")]
            Source::Object(object) => object.path(),
        }
    }

    /// The length in bytes when the file was opened.
    pub fn length(&self) -> u64 {
        match &self.source {
            Source::File(file) => file.length(),
            #[cfg(feature = "remote")]
            Source::Object(object) => object.size(),
        }
    }

    /// Returns the time of the file's last change when it was opened; `None` for an object of a store.
    #[cfg(feature = "hdf5")]
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        match &self.source {
            Source::File(file) => file.modified(),
            #[cfg(feature = "remote")]
            Source::Object(_) => None,
        }
    }

    /// Returns the object, if the bytes are in a store.
    #[cfg(feature = "remote")]
    pub(crate) fn object(&self) -> Option<&Arc<RemoteObject>> {
        match &self.source {
            Source::File(_) => None,
            Source::Object(object) => Some(object),
        }
    }

    /// Returns the access mode for a reader that prefers `access`: objects of a store cannot be
    /// mapped.
    pub(crate) fn usable(&self, access: Access) -> Access {
        match &self.source {
            Source::File(_) => access,
            #[cfg(feature = "remote")]
            Source::Object(_) => Access::Pread,
        }
    }

    /// Checks the length of a region before memory is allocated for it. A file is as long as the
    /// system says, but the length of an object is what a server claims.
    ///
    /// # Errors
    /// Fails if the region of an object is longer than 1 GiB.
    #[cfg(feature = "remote")]
    pub(crate) fn check_region(&self, length: usize) -> Result<()> {
        match &self.source {
            Source::Object(_) if length > MAX_REGION_BYTES => Err(Error::malformed(
                ErrorLocation::file(self.path()),
                "region",
                format!("{length} bytes"),
                format!("at most {MAX_REGION_BYTES} bytes in a file behind a URL"),
            )),
            _ => Ok(()),
        }
    }

    /// Reads a range of an object into memory, so that small reads within it need no requests. Does
    /// nothing for a file.
    #[cfg(feature = "remote")]
    pub(crate) fn prefetch(&self, range: Range<u64>) -> Result<()> {
        match &self.source {
            Source::File(_) => Ok(()),
            Source::Object(object) => object.prefetch(range),
        }
    }

    /// Returns the open file.
    fn handle(&self) -> Result<(&PooledFile, Arc<Handle>)> {
        match &self.source {
            Source::File(file) => Ok((file, file.handle()?)),
            #[cfg(feature = "remote")]
            Source::Object(object) => Err(Error::invalid(
                object.path(),
                "an object of a store cannot be mapped into memory",
            )),
        }
    }

    /// Returns the identity of the file as it was when it was opened.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(crate) fn identity(&self) -> Result<FileIdentity> {
        #[cfg(feature = "remote")]
        if let Some(object) = self.object() {
            return Ok(object.identity());
        }
        let [first, last] = IDENTIFYING_BYTES.map(|bytes| bytes.min(self.length()));
        let first = self.read_range(Access::Pread, 0..first)?;
        let last = self.read_range(Access::Pread, self.length() - last..self.length())?;
        let content = [first.as_slice(), &last];
        let (file, _) = self.handle()?;
        Ok(FileIdentity::new(self.length(), file.modified(), content))
    }

    /// Returns a memory map of the whole file.
    pub fn map(&self) -> Result<Arc<Mmap>> {
        let (_, handle) = self.handle()?;
        self.map_of(&handle).map(Arc::clone)
    }

    /// Tells the operating system to read a range of `map` ahead, unless the range is short or was
    /// advised before.
    ///
    /// Without advice, a file that is not cached is loaded page by page, which takes far longer.
    /// For a cached file the call costs more than a tenth of reading the range, so it is made only
    /// once.
    pub fn read_ahead(&self, map: &Mmap, range: &Range<usize>) {
        if range.len() < MIN_ADVISED_BYTES {
            return;
        }
        let parts = range.start / BYTES_PER_ADVISED_BIT..=(range.end - 1) / BYTES_PER_ADVISED_BIT;
        let advised = self.advised.get_or_init(|| {
            let words = (map.len() / BYTES_PER_ADVISED_BIT / 64) + 1;
            std::iter::repeat_with(AtomicU64::default)
                .take(words)
                .collect()
        });
        let mut is_new = false;
        for part in parts {
            let bit = 1 << (part % 64);
            let before = advised
                .get(part / 64)
                .map_or(bit, |word| word.fetch_or(bit, Ordering::Relaxed));
            is_new |= before & bit == 0;
        }
        #[cfg(unix)]
        if is_new {
            // A failed hint does no harm: the bytes stay readable.
            let _ = map.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        }
        #[cfg(not(unix))]
        let _ = is_new;
    }

    fn map_of<'a>(&self, handle: &'a Handle) -> Result<&'a Arc<Mmap>> {
        if let Some(map) = handle.map.get() {
            return Ok(map);
        }
        let metadata = handle.file.metadata();
        let now = metadata.map_err(Error::io(self.path(), "map"))?.len();
        if now < self.length() {
            return Err(self.truncated(now));
        }
        let length = usize::try_from(self.length()).map_err(|_| {
            Error::invalid(
                self.path(),
                "is larger than the address space; use pread access",
            )
        })?;
        // SAFETY: the map is read-only and private to this process. Its bytes can change only if
        // another process writes to the file in place, which the documentation of `Storage` rules
        // out. All values read from the map are validated, and none is used as a Rust type with
        // invalid bit patterns.
        let map = unsafe { MmapOptions::new().len(length).map(&handle.file) }
            .map_err(Error::io(self.path(), "map"))?;
        Ok(handle.map.get_or_init(|| Arc::new(map)))
    }

    /// Fills `buffer` with the bytes from `offset` on, by positioned reads.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        #[cfg(feature = "remote")]
        if let Some(object) = self.object() {
            return object.read_at(offset, buffer);
        }
        let (_, handle) = self.handle()?;
        read_exact_at(&handle.file, offset, buffer).map_err(|error| {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                match handle.file.metadata() {
                    Ok(now) if now.len() < self.length() => self.truncated(now.len()),
                    _ => Error::io(self.path(), "read")(error),
                }
            } else {
                Error::io(self.path(), "read")(error)
            }
        })
    }

    /// Copies a range, which the caller has checked against [`Self::length`].
    pub fn read_range(&self, access: Access, range: Range<u64>) -> Result<Vec<u8>> {
        let length = usize::try_from(range.end - range.start).map_err(|_| {
            Error::invalid(self.path(), "a region is larger than the address space")
        })?;
        #[cfg(feature = "remote")]
        self.check_region(length)?;
        let mut bytes = vec![0; length];
        self.copy_range(access, range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `buffer` with the bytes from `offset` on, through the map or by positioned reads. The
    /// caller has checked the range against [`Self::length`].
    pub fn copy_range(&self, access: Access, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.usable(access) {
            Access::Pread => self.read_at(offset, buffer),
            Access::Mmap => {
                let start = offset as usize;
                let (_, handle) = self.handle()?;
                buffer.copy_from_slice(&self.map_of(&handle)?[start..start + buffer.len()]);
                Ok(())
            }
        }
    }

    fn truncated(&self, now: u64) -> Error {
        Error::malformed(
            ErrorLocation::file(self.path()),
            "file length",
            format!("now {now} bytes"),
            format!("{} bytes as when it was opened", self.length()),
        )
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> std::io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => {
                offset += count as u64;
                buffer = &mut buffer[count..];
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(path: &Path, content: &[u8], pool: &'static Pool) -> Storage {
        std::fs::write(path, content).unwrap();
        Storage::open_in(path, pool).unwrap()
    }

    fn pool() -> &'static Pool {
        Box::leak(Box::new(Pool::new(1)))
    }

    #[test]
    fn maps_outlive_their_closed_file() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool();
        let a = storage(&folder.path().join("a"), b"first", pool);
        let map = a.map().unwrap();
        assert!(Arc::ptr_eq(&map, &a.map().unwrap()));
        let b = storage(&folder.path().join("b"), b"second", pool);
        assert_eq!(b.map().unwrap()[..], *b"second");
        assert_eq!(map[..], *b"first");
        // `a` was reopened and has a new map.
        for access in [Access::Mmap, Access::Pread] {
            assert_eq!(a.read_range(access, 1..3).unwrap(), b"ir");
            assert_eq!(b.read_range(access, 1..3).unwrap(), b"ec");
        }
        assert!(!Arc::ptr_eq(&map, &a.map().unwrap()));
    }

    #[cfg(unix)]
    #[test]
    fn a_removed_file_is_read_as_long_as_it_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool();
        let path = folder.path().join("a");
        let a = storage(&path, b"first", pool);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"other").unwrap();
        for access in [Access::Mmap, Access::Pread] {
            assert_eq!(a.read_range(access, 0..5).unwrap(), b"first");
        }
        let map = a.map().unwrap();
        let _b = storage(&folder.path().join("b"), b"second", pool);
        for access in [Access::Mmap, Access::Pread] {
            let error = a.read_range(access, 0..5).unwrap_err();
            assert!(error.to_string().contains("replaced or changed"), "{error}");
        }
        assert_eq!(map[..], *b"first");
    }

    #[test]
    fn truncation_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let a = storage(&path, b"first", pool());
        std::fs::write(&path, b"fi").unwrap();
        for access in [Access::Mmap, Access::Pread] {
            let error = a.read_range(access, 0..5).unwrap_err();
            assert!(error.to_string().contains("now 2 bytes"), "{error}");
        }
    }
}
