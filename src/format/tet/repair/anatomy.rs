//! [`Anatomy`]: everything that can be read of a file, even if the file is too broken to be opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::array::Dataset;
use crate::format::io::storage::{Access, Storage};
use crate::format::tet::file::{OpenOptions, TetFile};
use crate::format::tet::footer::{Footer, read_footer};
use crate::format::tet::package::Package;
use crate::format::tet::superblock::{LAYOUT_VERSION, Superblock, read_directory};

/// The fields of a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct SuperblockFields {
    /// The layout version.
    pub layout_version: u32,
    /// The number of datasets in the directory.
    pub dataset_count: u32,
    /// The flags. Bit 0: the file has a footer.
    pub flags: u32,
    /// The file offset of the chunk index.
    pub chunk_index_offset: u64,
    /// The length of the chunk index in bytes.
    pub chunk_index_length: u64,
}

/// The sections of a file, as far as they can be read.
#[derive(Debug)]
pub struct Anatomy {
    /// The path as given to [`Anatomy::of`].
    pub path: PathBuf,
    /// The path of the data file: for a package, the `packed.tet` of its current generation.
    pub file: PathBuf,
    /// The generation number, if this is a package.
    pub generation: Option<u64>,
    /// The length of the data file in bytes.
    pub length: u64,
    /// The superblock, if it can be read.
    pub superblock: Option<SuperblockFields>,
    /// The datasets. Empty if the dataset directory cannot be read.
    pub datasets: Vec<Dataset>,
    /// The footer, if the file has one that can be read.
    pub footer: Option<Footer>,
    /// The file offset at which payloads must end.
    pub payload_end: u64,
    /// The open file, if it can be opened, if necessary without its footer.
    pub opened: Option<Arc<TetFile>>,
    /// The errors met while reading, in order of discovery.
    pub problems: Vec<Error>,
}

impl Anatomy {
    /// Reads the sections of a file, or of the current generation of a package.
    ///
    /// # Errors
    /// Fails if there is no file to read.
    pub fn of(path: &Path, access: Access) -> Result<Self> {
        let package = path.is_dir().then(|| Package::open(path)).transpose()?;
        let storage = match &package {
            Some(package) => package.open_packed()?,
            None => Storage::open(path)?,
        };
        let file = storage.path().to_path_buf();
        let mut anatomy = Self {
            path: path.to_path_buf(),
            file,
            generation: package.as_ref().map(Package::generation),
            length: storage.length(),
            superblock: None,
            datasets: Vec::new(),
            footer: None,
            payload_end: storage.length(),
            opened: None,
            problems: Vec::new(),
        };
        let mut ignore_footer = false;
        match Superblock::read(&storage, access) {
            Err(error) => anatomy.problems.push(error),
            Ok(superblock) => {
                anatomy.superblock = Some(SuperblockFields {
                    layout_version: LAYOUT_VERSION,
                    dataset_count: superblock.dataset_count,
                    flags: superblock.flags,
                    chunk_index_offset: superblock.chunk_index_offset,
                    chunk_index_length: superblock.chunk_index_length,
                });
                if superblock.has_footer() {
                    match read_footer(&storage, access) {
                        Ok((footer, payload_end)) => {
                            anatomy.footer = Some(footer);
                            anatomy.payload_end = payload_end;
                        }
                        Err(error) => {
                            ignore_footer = true;
                            anatomy.problems.push(error);
                        }
                    }
                }
                if superblock.dataset_count > 0 {
                    match read_directory(&storage, access, &superblock) {
                        Ok((datasets, _)) => anatomy.datasets = datasets,
                        Err(error) => anatomy.problems.push(error),
                    }
                }
                let options = OpenOptions {
                    access,
                    ignore_footer,
                };
                match TetFile::open(path, options) {
                    Ok(opened) => anatomy.opened = Some(Arc::new(opened)),
                    Err(error) => {
                        let text = error.to_string();
                        let is_known = |known: &Error| known.to_string() == text;
                        if !anatomy.problems.iter().any(is_known) {
                            anatomy.problems.push(error);
                        }
                    }
                }
            }
        }
        Ok(anatomy)
    }
}
