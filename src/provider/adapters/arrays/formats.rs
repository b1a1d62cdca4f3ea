//! Which format a file has.

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
use crate::provider::catalog::settings::options::TetOptions;

/// What the names of packages end in.
const PACKAGE: &str = "tet.d";
/// What NumPy's files start with: `.npy`, `.npz`, and a `.npz` without arrays.
const NUMPY: [&[u8]; 3] = [b"\x93NUM", b"PK\x03\x04", b"PK\x05\x06"];

/// Opens a file of arrays; its first bytes tell which format it has. `session` is what an unset access mode follows.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn open_file(
    path: &Path,
    options: &TetOptions,
    session: &ConfigOptions,
) -> Result<Arc<dyn ArrayFile>, Error> {
    #[cfg(feature = "zarr")]
    let links = match options.refuse_outward_links {
        true => OutwardLinks::Refuse,
        false => OutwardLinks::Follow,
    };
    let options = options.open_options(session);
    // First, since there may be thousands: nothing else looks like one.
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

/// The first bytes of a file, as many as there are; none of a folder. What cannot be read is told where it is opened.
fn start(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    // Anything but a file may have no end, nor a start.
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    if is_file && let Ok(file) = File::open(path) {
        file.take(4).read_to_end(&mut start).ok();
    }
    start
}

/// Whether a folder is read as one file: a package, or a Zarr hierarchy.
pub fn is_array_folder(path: &Path) -> bool {
    #[cfg(feature = "zarr")]
    if zarr::is_hierarchy(path) {
        return true;
    }
    is_package(path)
}

/// The array of a Zarr hierarchy that a path leads to (`store.zarr/t2m`): the hierarchy, and the name of the array in it.
/// `None` for a path of anything else.
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

/// Whether a path leads to what is read as arrays: a file that begins as theirs do, or a folder that is one.
pub fn is_array_file(path: &Path) -> bool {
    let start = start(path);
    start == MAGIC || NUMPY.contains(&start.as_slice()) || is_array_folder(path)
}

/// Whether a name is one of an array file.
pub(crate) fn is_array_name(name: &str) -> bool {
    let name = name.trim_end_matches('/').to_ascii_lowercase();
    FileKind::array_extensions()
        .chain([PACKAGE])
        .any(|extension| {
            name.strip_suffix(extension)
                .is_some_and(|rest| rest.ends_with('.'))
        })
}

/// What is written beside the arrays, as far as the format has room for it.
#[derive(Debug, Clone, Default)]
pub(in crate::provider) struct Writing {
    /// Whether zone maps are embedded.
    pub zone_maps: bool,
    /// What was done, and from what.
    pub history: (&'static str, &'static str),
    /// Whether a Zarr hierarchy is one of version 2.
    pub is_zarr_2: bool,
}

/// Starts a file of these arrays, in a format that has some.
///
/// # Errors
/// If the format has no place for them, or the file cannot be made.
pub(in crate::provider) fn create_file(
    kind: FileKind,
    path: &Path,
    specs: Vec<DatasetSpec>,
    writing: &Writing,
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
            let message = "the name is that of a file of rows, not of arrays";
            return Err(Error::invalid(path, message));
        }
    })
}
