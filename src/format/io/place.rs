//! [`Place`]: a file or directory of the file system or of an object store.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
#[cfg(feature = "remote")]
use std::sync::Arc;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::handles;
#[cfg(feature = "remote")]
use crate::format::io::remote::{Part, RemoteDirectory, RemoteObject, RemotePlace};
use crate::format::io::storage::Storage;

/// The maximum number of files in an object store that are opened at the same time.
#[cfg(feature = "tiledb")]
const FILES_AT_A_TIME: usize = 16;

/// A file or directory of the file system or of an object store, which may not exist.
#[derive(Debug, Clone)]
pub enum Place {
    /// A path in the file system.
    Local(PathBuf),
    /// An object, or the objects below a path.
    #[cfg(feature = "remote")]
    Remote(RemotePlace),
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Self::Local(path.to_path_buf())
    }
}

impl From<&PathBuf> for Place {
    fn from(path: &PathBuf) -> Self {
        Self::Local(path.clone())
    }
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Self {
        Self::Local(path)
    }
}

impl From<&Self> for Place {
    fn from(place: &Self) -> Self {
        place.clone()
    }
}

impl Place {
    /// Returns the path, or the URL without secrets.
    pub fn path(&self) -> &Path {
        match self {
            Self::Local(path) => path,
            #[cfg(feature = "remote")]
            Self::Remote(place) => place.path(),
        }
    }

    /// Returns `true` if the place is in the file system.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// Returns the place of a name below this directory, with slashes between directories.
    pub(crate) fn join(&self, name: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        match self {
            Self::Local(path) => Self::Local(path.join(name)),
            #[cfg(feature = "remote")]
            Self::Remote(place) => Self::Remote(place.join(name)),
        }
    }

    /// Opens the file.
    ///
    /// # Errors
    /// Fails if there is no such file, or it cannot be read.
    pub(crate) fn open(&self) -> Result<Storage> {
        match self {
            Self::Local(path) => Storage::open(path),
            #[cfg(feature = "remote")]
            Self::Remote(place) => match RemoteObject::open(place)? {
                Some(object) => Ok(Storage::remote(Arc::new(object))),
                None => Err(not_found(place.path())),
            },
        }
    }

    /// Opens several files. Files in an object store are opened by several threads, because opening one
    /// mostly waits for requests.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    #[cfg(feature = "tiledb")]
    pub(crate) fn open_all(places: &[Self]) -> Result<Vec<Storage>> {
        if places.iter().all(Self::is_local) {
            return places.iter().map(Self::open).collect();
        }
        let size = places.len().div_ceil(FILES_AT_A_TIME).max(1);
        std::thread::scope(|scope| {
            let threads = places.chunks(size).map(|part| {
                scope.spawn(move || part.iter().map(Self::open).collect::<Result<Vec<_>>>())
            });
            let threads: Vec<_> = threads.collect();
            let mut opened = Vec::with_capacity(places.len());
            for (thread, part) in threads.into_iter().zip(places.chunks(size)) {
                let panicked =
                    |_| Error::invalid(part[0].path(), "cannot be opened: internal error");
                opened.extend(thread.join().map_err(panicked)??);
            }
            Ok(opened)
        })
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// Fails if there is no such file, if it cannot be read, or has more than `most` bytes.
    pub(crate) fn read(&self, most: u64) -> Result<Vec<u8>> {
        let path = self.path();
        let content = match self {
            Self::Local(path) => {
                let metadata = path.metadata().map_err(Error::io(path, "open"))?;
                if !metadata.is_file() {
                    return Err(Error::invalid(path, "is not a regular file"));
                }
                let file = handles::open(path, &handles::SHARED);
                let file = file.map_err(Error::io(path, "open"))?;
                let mut content = Vec::new();
                let read = file.take(most.saturating_add(1)).read_to_end(&mut content);
                read.map_err(Error::io(path, "read"))?;
                content
            }
            #[cfg(feature = "remote")]
            Self::Remote(place) => {
                let directory = RemoteDirectory::new(place.clone());
                let read = directory.read("", Part::Whole, None, most)?;
                read.ok_or_else(|| not_found(path))?.bytes.to_vec()
            }
        };
        if content.len() as u64 > most {
            return Err(Error::malformed(
                ErrorLocation::file(path),
                "file length",
                format!("more than {most} bytes"),
                "less",
            ));
        }
        Ok(content)
    }

    /// Returns the names in the directory, in byte order; none if there is no such directory. Names that
    /// are not UTF-8 are left out.
    ///
    /// # Errors
    /// Fails if the directory cannot be listed, as on most HTTP servers.
    pub(crate) fn list(&self) -> Result<BTreeSet<String>> {
        let directory = match self {
            Self::Local(path) => path,
            #[cfg(feature = "remote")]
            Self::Remote(place) => {
                let entries = RemoteDirectory::new(place.clone()).entries("")?;
                return Ok(entries
                    .directories
                    .into_iter()
                    .chain(entries.objects)
                    .collect());
            }
        };
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
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
}

/// Returns the error for an object that does not exist.
#[cfg(feature = "remote")]
fn not_found(path: &Path) -> Error {
    let error = std::io::Error::new(
        ErrorKind::NotFound,
        "there is no such object (404 Not Found)",
    );
    Error::io(path, "open")(error)
}
