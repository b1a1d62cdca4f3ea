//! The directory of an open hierarchy: finds files in it, and detects whether it was replaced.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::handles::{self, Identity, SHARED};
use crate::format::io::identity::FileIdentity;
use crate::format::zarr::metadata::json::is_absent;

/// The treatment of symbolic links that lead out of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutwardLinks {
    /// Follow the links, with a warning for those found on opening.
    #[default]
    Follow,
    /// Do not read what the links lead to.
    ///
    /// This is for servers: a user who can write into a hierarchy may not be allowed to read other
    /// files.
    Refuse,
}

/// The path of a metadata document, and the identity of its file when read; `None` if absent.
pub(super) type Source = (PathBuf, Option<Identity>);

/// The directory of an open hierarchy.
#[derive(Debug)]
pub(super) struct Root {
    /// The path as the caller gave it.
    path: PathBuf,
    /// The absolute path, which stays valid when the process changes its working directory.
    absolute: PathBuf,
    /// The path with all symbolic links resolved.
    canonical: PathBuf,
    links: OutwardLinks,
    identity: Identity,
    /// Kept open, so that no other directory gets the same identity; `None` if the system cannot
    /// open directories.
    _held: Option<File>,
}

impl Root {
    pub fn open(path: &Path, links: OutwardLinks) -> Result<Self> {
        let absolute = std::path::absolute(path).map_err(Error::io(path, "open"))?;
        let metadata = absolute.metadata().map_err(Error::io(path, "open"))?;
        if !metadata.is_dir() {
            let location = ErrorLocation::file(path);
            let expected = "a Zarr hierarchy";
            return Err(Error::malformed(
                location,
                "path",
                "not a directory",
                expected,
            ));
        }
        let held = File::open(&absolute).ok();
        let metadata = match &held {
            Some(held) => held.metadata().map_err(Error::io(path, "open"))?,
            None => metadata,
        };
        Ok(Self {
            path: path.to_path_buf(),
            canonical: absolute.canonicalize().map_err(Error::io(path, "open"))?,
            absolute,
            links,
            identity: Identity::of(&metadata),
            _held: held,
        })
    }

    /// Returns the path as the caller gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the absolute path, whatever the current working directory is.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }

    pub fn links(&self) -> OutwardLinks {
        self.links
    }

    /// Returns `true` if links make a path within the directory lead out of it.
    pub fn is_outside(&self, path: &Path) -> bool {
        path.canonicalize()
            .is_ok_and(|target| !target.starts_with(&self.canonical))
    }

    /// Returns the path to read in place of a path within the directory.
    ///
    /// If outward links are refused, the returned path has all links resolved, and `None` means
    /// that the path does not exist.
    fn resolved(&self, path: &Path) -> Result<Option<PathBuf>> {
        if self.links == OutwardLinks::Follow {
            return Ok(Some(path.to_path_buf()));
        }
        match path.canonicalize() {
            Ok(target) if target.starts_with(&self.canonical) => Ok(Some(target)),
            Ok(_) => Err(Error::invalid(
                path,
                "leads out of the Zarr hierarchy through a link; such links are not followed here",
            )),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(Error::io(path, "read")(error)),
        }
    }

    /// Returns the path to read and the metadata of a chunk file, or `None` if it does not exist.
    pub fn find(&self, path: &Path) -> Result<Option<(PathBuf, Metadata)>> {
        let Some(path) = self.resolved(path)? else {
            return Ok(None);
        };
        match path.metadata() {
            Ok(metadata) if metadata.is_file() => Ok(Some((path, metadata))),
            // Opening a named pipe could block forever.
            Ok(_) => Err(no_file(&path, "chunk", "a file")),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(Error::io(&path, "read")(error)),
        }
    }

    /// Opens a metadata document and returns its file and metadata, or `None` if it does not exist.
    pub fn open_document(&self, path: &Path) -> Result<Option<(File, Metadata)>> {
        let Some(path) = self.resolved(path)? else {
            return Ok(None);
        };
        let opened = handles::open(&path, &SHARED);
        match opened.and_then(|file| Ok((file.metadata()?, file))) {
            Ok((metadata, file)) => Ok(Some((file, metadata))),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                Err(no_file(&path, "metadata", "a JSON document"))
            }
            Err(error) => Err(Error::io(&path, "read")(error)),
        }
    }

    /// Returns the identity of these documents.
    ///
    /// # Errors
    /// Fails if a document cannot be read, or has changed since it was first read.
    pub fn identity(&self, documents: &[Source]) -> Result<FileIdentity> {
        let mut contents = Vec::new();
        for (path, read) in documents {
            if read.is_some() {
                contents.push(std::fs::read(path).map_err(Error::io(path, "read"))?);
            }
        }
        self.check_unchanged(documents)?;
        let length = contents.iter().map(|content| content.len() as u64).sum();
        // The time of change tells nothing more, since the checksum is of all bytes.
        let contents = contents.iter().map(Vec::as_slice);
        Ok(FileIdentity::new(length, None, contents))
    }

    /// Checks that the path still leads to this directory, and that its documents are unchanged.
    ///
    /// Otherwise, chunks found by path could belong to another hierarchy.
    pub fn check_unchanged(&self, documents: &[Source]) -> Result<()> {
        let now = |path: &Path| Some(Identity::of(&path.metadata().ok()?));
        let is_same = now(&self.absolute).is_some_and(|root| root.is_same_file(&self.identity))
            && documents.iter().all(|(path, read)| now(path) == *read);
        match is_same {
            true => Ok(()),
            false => Err(Error::invalid(
                &self.path,
                "the hierarchy was replaced or changed since it was opened; open it again",
            )),
        }
    }
}

fn no_file(path: &Path, field: &'static str, expected: &str) -> Error {
    let location = ErrorLocation::file(path);
    Error::malformed(location, field, "not a file", expected)
}
