//! The array formats of this crate: how to recognise, open and create their files.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::prelude::SessionConfig;

use crate::error::Error;
#[cfg(feature = "hdf5")]
use crate::format::array::{ArrayFile, ValidRangeFile};
use crate::format::array::{ArrayWriter, DatasetSpec};
#[cfg(feature = "hdf5")]
use crate::format::hdf5::{Hdf5File, is_hdf5};
#[cfg(feature = "hdf5")]
use crate::format::netcdf::{self, NetcdfFile};
use crate::format::npy::{NpyFile, NpyWriter};
use crate::format::tet::{FileMetadata, MAGIC, TetFile, TetWriter, is_package};
#[cfg(feature = "zarr")]
use crate::format::zarr::{
    self, OutwardLinks, ZarrFile, ZarrVersion, ZarrWriteOptions, ZarrWriter,
};
use crate::provider::adapters::arrays::container::ArrayContainer;
use crate::provider::adapters::file_kind::FileKind;
use crate::provider::adapters::registry::{Candidate, Format};
#[cfg(feature = "tatami")]
use crate::provider::adapters::tatami::{CollectionFormat, TatamiFormat};
#[cfg(feature = "tiledb")]
use crate::provider::adapters::tiledb::TileDbFormat;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::container::Container;

/// The first bytes of NumPy files: `.npy`, `.npz`, and a `.npz` without arrays.
const NUMPY: [&[u8]; 3] = [b"\x93NUM", b"PK\x03\x04", b"PK\x05\x06"];

/// Returns the formats of this crate.
pub(in crate::provider) fn built_in() -> Vec<Arc<dyn Format>> {
    vec![
        Arc::new(TetFormat),
        #[cfg(feature = "zarr")]
        Arc::new(ZarrFormat),
        Arc::new(NpyFormat),
        #[cfg(feature = "hdf5")]
        Arc::new(NetcdfFormat),
        #[cfg(feature = "hdf5")]
        Arc::new(Hdf5Format),
        #[cfg(feature = "tatami")]
        Arc::new(TatamiFormat),
        #[cfg(feature = "tatami")]
        Arc::new(CollectionFormat),
        #[cfg(feature = "tiledb")]
        Arc::new(TileDbFormat),
    ]
}

/// `.tet` files, and packages of them (`X.tet.d`).
#[derive(Debug)]
struct TetFormat;

impl Format for TetFormat {
    fn name(&self) -> &'static str {
        "tet"
    }

    fn keywords(&self) -> &'static [&'static str] {
        &["TET"]
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["tet", "tet.d"]
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        match candidate.is_directory() {
            true => is_package(candidate.path()),
            false => candidate.start().starts_with(&MAGIC),
        }
    }

    fn is_found_in_directories(&self, path: &Path) -> bool {
        let extension = path.extension().unwrap_or_default();
        (extension.eq_ignore_ascii_case("tet") && path.is_file()) || is_package(path)
    }

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let file = TetFile::open(path, options.open_options(session.options()))?;
        Ok(ArrayContainer::shared(Arc::new(file), options))
    }
}

/// Zarr hierarchies and arrays.
#[cfg(feature = "zarr")]
#[derive(Debug)]
struct ZarrFormat;

#[cfg(feature = "zarr")]
impl Format for ZarrFormat {
    fn name(&self) -> &'static str {
        "zarr"
    }

    fn keywords(&self) -> &'static [&'static str] {
        &["ZARR"]
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["zarr"]
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        candidate.is_directory() && zarr::is_hierarchy(candidate.path())
    }

    fn split_member<'a>(&self, path: &'a Path) -> Option<(&'a Path, String)> {
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

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let links = match options.refuse_outward_links {
            true => OutwardLinks::Refuse,
            false => OutwardLinks::Follow,
        };
        let access = options.open_options(session.options()).access;
        let file = ZarrFile::open(path, access, links)?;
        Ok(ArrayContainer::shared(Arc::new(file), options))
    }
}

/// NumPy files: `.npy`, and `.npz` with several arrays.
#[derive(Debug)]
struct NpyFormat;

impl Format for NpyFormat {
    fn name(&self) -> &'static str {
        "npy"
    }

    fn keywords(&self) -> &'static [&'static str] {
        &["NPY", "NPZ"]
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["npy", "npz"]
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        let mut magics = NUMPY.iter();
        magics.any(|magic| candidate.start().starts_with(magic))
    }

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let access = options.open_options(session.options()).access;
        let file = NpyFile::open(path, access)?;
        Ok(ArrayContainer::shared(Arc::new(file), options))
    }
}

/// The keywords of HDF5 and NetCDF files. NetCDF-4 files are HDF5 files.
#[cfg(feature = "hdf5")]
const NETCDF_KEYWORDS: &[&str] = &["NETCDF", "HDF5"];

/// The option that makes cells outside of the attributes `valid_min`, `valid_max` and `valid_range` null.
#[cfg(feature = "hdf5")]
const VALID_RANGE: &str = "valid_range";

/// Creates the container of a NetCDF or HDF5 file.
#[cfg(feature = "hdf5")]
fn netcdf_container(
    file: Arc<dyn ArrayFile>,
    options: &ArrayOptions,
) -> Result<Arc<dyn Container>, Error> {
    let option = options.format_options.get(VALID_RANGE);
    let file = match option.map(String::as_str) {
        None | Some("ignore") => file,
        Some("mask") => ValidRangeFile::wrap(file),
        Some(other) => {
            let message = format!("option {VALID_RANGE} is '{other}', expected ignore or mask");
            return Err(Error::invalid(file.path(), message));
        }
    };
    Ok(ArrayContainer::shared(file, options))
}

/// NetCDF files of the classic formats: CDF-1, CDF-2 and CDF-5.
#[cfg(feature = "hdf5")]
#[derive(Debug)]
struct NetcdfFormat;

#[cfg(feature = "hdf5")]
impl Format for NetcdfFormat {
    fn name(&self) -> &'static str {
        "netcdf"
    }

    fn keywords(&self) -> &'static [&'static str] {
        NETCDF_KEYWORDS
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["nc", "cdf"]
    }

    fn options(&self) -> &'static [&'static str] {
        &[VALID_RANGE]
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        let mut magics = netcdf::MAGICS.iter();
        magics.any(|magic| candidate.start().starts_with(magic))
    }

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let access = options.open_options(session.options()).access;
        let file = NetcdfFile::open(path, access)?;
        netcdf_container(Arc::new(file), options)
    }
}

/// HDF5 files, and so NetCDF-4 files.
#[cfg(feature = "hdf5")]
#[derive(Debug)]
struct Hdf5Format;

#[cfg(feature = "hdf5")]
impl Format for Hdf5Format {
    fn name(&self) -> &'static str {
        "hdf5"
    }

    fn keywords(&self) -> &'static [&'static str] {
        NETCDF_KEYWORDS
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["h5", "hdf5", "hdf", "he5", "nc4"]
    }

    fn options(&self) -> &'static [&'static str] {
        &[VALID_RANGE]
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        is_hdf5(candidate.path(), candidate.start())
    }

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let access = options.open_options(session.options()).access;
        let file = Hdf5File::open(path, access)?;
        netcdf_container(Arc::new(file), options)
    }
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
        _ => {
            let message = "the file extension is that of a row format, not of an array format";
            return Err(Error::invalid(path, message));
        }
    })
}
