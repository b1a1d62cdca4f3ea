//! Detects the format of array files, and opens and creates them.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::config::ConfigOptions;

use crate::error::Error;
use crate::format::array::{ArrayFile, ArrayWriter, DatasetSpec};
use crate::format::foreign;
use crate::format::npy::{NpyFile, NpyWriter};
use crate::format::tet::{FileMetadata, MAGIC, TetFile, TetWriter, is_package};
#[cfg(feature = "zarr")]
use crate::format::zarr::{
    self, OutwardLinks, ZarrFile, ZarrVersion, ZarrWriteOptions, ZarrWriter,
};
use crate::provider::adapters::file_kind::FileKind;
use crate::provider::catalog::settings::options::ArrayOptions;

/// The extension of packages.
const PACKAGE: &str = "tet.d";
/// The first bytes of NumPy files: `.npy`, `.npz`, and a `.npz` without arrays.
const NUMPY: [&[u8]; 3] = [b"\x93NUM", b"PK\x03\x04", b"PK\x05\x06"];

/// Opens an array file, whose format is detected from its content. `session` gives the access mode
/// if `options` does not.
///
/// # Errors
/// Returns an error if the file cannot be opened.
pub(crate) fn open_file(
    path: &Path,
    options: &ArrayOptions,
    session: &ConfigOptions,
) -> Result<Arc<dyn ArrayFile>, Error> {
    #[cfg(feature = "zarr")]
    let links = match options.refuse_outward_links {
        true => OutwardLinks::Refuse,
        false => OutwardLinks::Follow,
    };
    let options = options.open_options(session);
    // Tried first, since there may be thousands of `.tet` files, and no other format passes for
    // one.
    let error = match TetFile::open(path, options) {
        Ok(file) => return Ok(Arc::new(file)),
        Err(error) => error,
    };
    #[cfg(feature = "zarr")]
    if !is_package(path) && zarr::is_hierarchy(path) {
        return Ok(Arc::new(ZarrFile::open(path, options.access, links)?));
    }
    match NUMPY.contains(&start(path).as_slice()) {
        true => Ok(Arc::new(NpyFile::open(path, options.access)?)),
        false => Err(match foreign(path) {
            Some(advice) => Error::invalid(path, advice),
            None => error,
        }),
    }
}

/// The first bytes of a file, at most four; empty for a directory. Errors are left to whoever opens
/// the file.
fn start(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    // A pipe or a device may never end, or never deliver a byte.
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    if is_file && let Ok(file) = File::open(path) {
        file.take(4).read_to_end(&mut start).ok();
    }
    start
}

/// Returns `true` if a directory is read as one file: a package, or a Zarr hierarchy.
pub fn is_array_directory(path: &Path) -> bool {
    #[cfg(feature = "zarr")]
    if zarr::is_hierarchy(path) {
        return true;
    }
    is_package(path)
}

/// Splits the path of an array in a Zarr hierarchy (`store.zarr/t2m`) into the hierarchy and the
/// name of the array; `None` for any other path.
pub(crate) fn member_of_hierarchy(path: &Path) -> Option<(&Path, String)> {
    #[cfg(feature = "zarr")]
    {
        let is_array = zarr::is_array(path);
        if !is_array && path.exists() {
            return None;
        }
        let above = path.ancestors().skip(1);
        let above = above.filter(|folder| !folder.as_os_str().is_empty());
        let root = above.filter(|folder| zarr::is_hierarchy(folder)).last()?;
        let name = path.strip_prefix(root).ok()?.to_str()?;
        Some((root, name.replace(std::path::MAIN_SEPARATOR, "/")))
    }
    #[cfg(not(feature = "zarr"))]
    {
        let _ = path;
        None
    }
}

/// Returns `true` if a path is an array file by its first bytes, or a directory that is read as
/// one.
pub fn is_array_file(path: &Path) -> bool {
    let start = start(path);
    start == MAGIC || NUMPY.contains(&start.as_slice()) || is_array_directory(path)
}

/// Returns `true` if a file name has the extension of an array format.
pub(crate) fn is_array_name(name: &str) -> bool {
    let name = name.trim_end_matches('/').to_ascii_lowercase();
    FileKind::array_extensions()
        .chain([PACKAGE])
        .any(|extension| {
            name.strip_suffix(extension)
                .is_some_and(|rest| rest.ends_with('.'))
        })
}

/// Settings for writing an array file. Each format applies those that it supports.
#[derive(Debug, Clone, Default)]
pub(in crate::provider) struct WriteOptions {
    /// `true` to embed zone maps.
    pub zone_maps: bool,
    /// The operation and its source, for the history of the file.
    pub history: (&'static str, &'static str),
    /// `true` to write Zarr version 2 instead of version 3.
    pub is_zarr_2: bool,
}

/// Creates a file for these arrays, in an array format.
///
/// # Errors
/// Returns an error if the format cannot hold these arrays, or the file cannot be created.
pub(in crate::provider) fn create_file(
    kind: FileKind,
    path: &Path,
    specs: Vec<DatasetSpec>,
    writing: &WriteOptions,
) -> Result<Box<dyn ArrayWriter>, Error> {
    Ok(match kind {
        FileKind::Tet => {
            let mut writer = TetWriter::create(path, specs)?;
            if writing.zone_maps {
                writer.embed_zone_maps();
            }
            writer.set_file_metadata(FileMetadata {
                tool: Some("tet-sql".to_string()),
                library_version: Some(env!("CARGO_PKG_VERSION").to_string()),
                created_at: None,
            });
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let (op, source) = writing.history;
            writer.push_history(op, source, now.map_or(0, |now| now.as_secs()));
            Box::new(writer)
        }
        FileKind::Npy => Box::new(NpyWriter::create(path, &specs)?),
        #[cfg(feature = "zarr")]
        FileKind::Zarr => {
            let version = match writing.is_zarr_2 {
                true => ZarrVersion::V2,
                false => ZarrVersion::V3,
            };
            Box::new(ZarrWriter::create(
                path,
                specs,
                ZarrWriteOptions { version },
            )?)
        }
        FileKind::Parquet | FileKind::Csv | FileKind::Json | FileKind::Arrow => {
            let message = "the file extension is that of a row format, not of an array format";
            return Err(Error::invalid(path, message));
        }
    })
}
