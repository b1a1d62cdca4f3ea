//! The array formats of this crate: how to recognise, open and create their files.

#[cfg(feature = "hdf5")]
mod netcdf;
#[cfg(all(feature = "remote", feature = "zarr"))]
mod reference_rows;
#[cfg(all(feature = "remote", feature = "zarr"))]
mod references;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::format::array::{ArrayWriter, DatasetSpec, Limits};
use crate::format::npy::{self, NpyFile, NpyWriter};
use crate::format::tet::{self, FileMetadata, MAGIC, TetFile, TetWriter, is_package};
#[cfg(feature = "zarr")]
use crate::format::zarr::{
    self, OutwardLinks, ZarrFile, ZarrVersion, ZarrWriteOptions, ZarrWriter,
};
use crate::provider::adapters::arrays::container::ArrayContainer;
#[cfg(feature = "hdf5")]
use crate::provider::adapters::arrays::formats::netcdf::{Hdf5Format, NetcdfFormat};
#[cfg(all(feature = "remote", feature = "zarr"))]
use crate::provider::adapters::arrays::formats::references::ReferenceFormat;
use crate::provider::adapters::create::{CreateArrays, CreateSettings};
use crate::provider::adapters::registry::{Candidate, Format};
#[cfg(feature = "remote")]
use crate::provider::adapters::registry::{RemoteFile, place_of};
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
        // Before Zarr, because a directory of references has a document of Zarr's name.
        #[cfg(all(feature = "remote", feature = "zarr"))]
        Arc::new(ReferenceFormat),
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
            #[cfg(feature = "remote")]
            true if candidate.is_remote() => {
                // Only packages by name, to save requests.
                let name = candidate.path().to_string_lossy();
                name.trim_end_matches('/').ends_with(".tet.d") && candidate.has_entry("PROTOCOL")
            }
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

    fn creator(&self) -> Option<Arc<dyn CreateArrays>> {
        Some(Arc::new(TetFormat))
    }

    #[cfg(feature = "remote")]
    fn open_remote(
        &self,
        file: RemoteFile,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let opening = options.open_options(session.options());
        let is_package = file.path().to_string_lossy().contains(".tet.d");
        let file = match file {
            RemoteFile::Directory(directory) if is_package => {
                TetFile::open_package(place_of(directory.path(), session)?, opening)?
            }
            file => TetFile::open_remote(file.into_object()?, opening)?,
        };
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

    fn is_directory(&self) -> bool {
        true
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        #[cfg(feature = "remote")]
        if candidate.is_remote() {
            let mut documents = zarr::ROOT_DOCUMENTS.iter();
            let first = documents.find(|name| candidate.has_entry(name));
            return first.is_some_and(|name| !ReferenceFormat.recognises_entry(candidate, name));
        }
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

    fn creator(&self) -> Option<Arc<dyn CreateArrays>> {
        Some(Arc::new(ZarrFormat))
    }

    #[cfg(feature = "remote")]
    fn open_remote(
        &self,
        file: RemoteFile,
        options: &ArrayOptions,
        _session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let file = match file {
            RemoteFile::Directory(directory) => ZarrFile::open_remote(directory)?,
            RemoteFile::File(file) => {
                return Err(Error::invalid(
                    file.path(),
                    "is a file, not a Zarr directory",
                ));
            }
        };
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

    fn creator(&self) -> Option<Arc<dyn CreateArrays>> {
        Some(Arc::new(NpyFormat))
    }

    #[cfg(feature = "remote")]
    fn open_remote(
        &self,
        file: RemoteFile,
        options: &ArrayOptions,
        _session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let file = NpyFile::open_remote(file.into_object()?)?;
        Ok(ArrayContainer::shared(Arc::new(file), options))
    }
}

/// Returns `true` if an option has the second of two values, `false` if it has the first or is unset.
fn is_second(
    options: &BTreeMap<String, String>,
    name: &str,
    [first, second]: [&str; 2],
) -> Result<bool, String> {
    match options.get(name).map(|value| value.trim()) {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case(first) => Ok(false),
        Some(value) if value.eq_ignore_ascii_case(second) => Ok(true),
        Some(value) => Err(format!(
            "option {name} is {value:?}, expected {second} or {first}"
        )),
    }
}

impl TetFormat {
    /// The option that embeds zone maps. The file's footer is then of version 2.
    const ZONE_MAPS: &'static str = "zone_maps";

    fn embeds_zone_maps(options: &BTreeMap<String, String>) -> Result<bool, String> {
        is_second(options, Self::ZONE_MAPS, ["false", "true"])
    }
}

impl CreateArrays for TetFormat {
    fn limits(&self) -> Limits {
        tet::LIMITS
    }

    fn allows_null_texts(&self) -> bool {
        true
    }

    fn options(&self) -> &'static [&'static str] {
        &[Self::ZONE_MAPS]
    }

    fn check_options(&self, options: &BTreeMap<String, String>) -> Result<(), String> {
        Self::embeds_zone_maps(options).map(drop)
    }

    fn create(
        &self,
        path: &Path,
        specs: Vec<DatasetSpec>,
        settings: &CreateSettings,
    ) -> Result<Box<dyn ArrayWriter>, Error> {
        let embeds_zone_maps = Self::embeds_zone_maps(&settings.format_options);
        let mut writer = TetWriter::create(path, specs)?;
        if embeds_zone_maps.map_err(|message| Error::invalid(path, message))? {
            writer.embed_zone_maps();
        }
        writer.set_file_metadata(FileMetadata {
            tool: Some("tet-sql".to_string()),
            library_version: Some(env!("CARGO_PKG_VERSION").to_string()),
            created_at: None,
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let (op, source) = settings.history;
        writer.push_history(op, source, now.map_or(0, |now| now.as_secs()));
        Ok(Box::new(writer))
    }
}

#[cfg(feature = "zarr")]
impl ZarrFormat {
    /// The option that selects the version of the format.
    const VERSION: &'static str = "zarr_format";

    fn version(options: &BTreeMap<String, String>) -> Result<ZarrVersion, String> {
        Ok(match is_second(options, Self::VERSION, ["3", "2"])? {
            true => ZarrVersion::V2,
            false => ZarrVersion::V3,
        })
    }
}

#[cfg(feature = "zarr")]
impl CreateArrays for ZarrFormat {
    fn limits(&self) -> Limits {
        zarr::LIMITS
    }

    fn keeps_group_attributes(&self) -> bool {
        true
    }

    fn creates_directories(&self) -> bool {
        true
    }

    fn options(&self) -> &'static [&'static str] {
        &[Self::VERSION]
    }

    fn check_options(&self, options: &BTreeMap<String, String>) -> Result<(), String> {
        Self::version(options).map(drop)
    }

    fn create(
        &self,
        path: &Path,
        specs: Vec<DatasetSpec>,
        settings: &CreateSettings,
    ) -> Result<Box<dyn ArrayWriter>, Error> {
        let version = Self::version(&settings.format_options);
        let version = version.map_err(|message| Error::invalid(path, message))?;
        let options = ZarrWriteOptions { version };
        let writer = ZarrWriter::create(path, specs, options)?;
        let groups = settings.group_attributes.clone();
        Ok(Box::new(writer.with_group_attributes(groups)))
    }
}

impl CreateArrays for NpyFormat {
    fn limits(&self) -> Limits {
        npy::LIMITS
    }

    fn keeps_metadata(&self) -> bool {
        false
    }

    fn create(
        &self,
        path: &Path,
        specs: Vec<DatasetSpec>,
        _settings: &CreateSettings,
    ) -> Result<Box<dyn ArrayWriter>, Error> {
        Ok(Box::new(NpyWriter::create(path, &specs)?))
    }
}
