//! A file's bytes, by memory map or by positioned reads.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use memmap2::{Mmap, MmapOptions};

use crate::error::{Error, Place, Result};

/// How the bytes of a file are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    /// Through a memory map: nothing is copied. A file that another process truncates while it is mapped
    /// kills this process with a bus error.
    #[default]
    Mmap,
    /// Through positioned reads: every byte is copied, and a truncated file gives an error.
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

/// An open file of known length. Its map is made when first asked for, and shared from then on.
#[derive(Debug)]
pub struct Storage {
    path: PathBuf,
    file: File,
    length: u64,
    map: OnceLock<Arc<Mmap>>,
}

impl Storage {
    /// Opens `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io(path, "open"))?;
        let metadata = file.metadata().map_err(Error::io(path, "open"))?;
        if metadata.is_dir() {
            return Err(Error::invalid(path, "is a folder, expected a file"));
        }
        Ok(Self {
            path: path.to_path_buf(),
            file,
            length: metadata.len(),
            map: OnceLock::new(),
        })
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes in the file when it was opened.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The whole file as a map.
    pub fn map(&self) -> Result<&Arc<Mmap>> {
        if let Some(map) = self.map.get() {
            return Ok(map);
        }
        let now = self
            .file
            .metadata()
            .map_err(Error::io(&self.path, "map"))?
            .len();
        if now < self.length {
            return Err(self.truncated(now));
        }
        let length = usize::try_from(self.length).map_err(|_| {
            Error::invalid(
                &self.path,
                "is larger than the address space; use pread access",
            )
        })?;
        // SAFETY: the map is read-only and private to this process. Its bytes can change only when another
        // process writes into the file in place, which the documentation of `Access::Mmap` rules out; all
        // values read from it are validated as they are read and none is used as a Rust type with invalid
        // bit patterns.
        let map = unsafe { MmapOptions::new().len(length).map(&self.file) }
            .map_err(Error::io(&self.path, "map"))?;
        Ok(self.map.get_or_init(|| Arc::new(map)))
    }

    /// Fills `buffer` from `offset`.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, offset, buffer).map_err(|error| {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                match self.file.metadata() {
                    Ok(now) if now.len() < self.length => self.truncated(now.len()),
                    _ => Error::io(&self.path, "read")(error),
                }
            } else {
                Error::io(&self.path, "read")(error)
            }
        })
    }

    /// Copies a range that the caller has checked against [`Self::length`].
    pub fn read_range(&self, access: Access, range: Range<u64>) -> Result<Vec<u8>> {
        let length = usize::try_from(range.end - range.start)
            .map_err(|_| Error::invalid(&self.path, "a region is larger than the address space"))?;
        let mut bytes = vec![0; length];
        self.copy_range(access, range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `buffer` from `offset` through the map or by a read; the caller has checked the range.
    pub fn copy_range(&self, access: Access, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match access {
            Access::Pread => self.read_at(offset, buffer),
            Access::Mmap => {
                let start = offset as usize;
                buffer.copy_from_slice(&self.map()?[start..start + buffer.len()]);
                Ok(())
            }
        }
    }

    fn truncated(&self, now: u64) -> Error {
        Error::malformed(
            Place::file(&self.path),
            "file length",
            format!("now {now} bytes"),
            format!("{} bytes as when it was opened", self.length),
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
