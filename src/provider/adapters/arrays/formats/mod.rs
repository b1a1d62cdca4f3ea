//! The array formats of this crate: how to recognise, open and create their files.

mod file_format;
#[cfg(feature = "hdf5")]
mod netcdf;
#[cfg(all(feature = "remote", feature = "zarr"))]
mod reference_rows;
#[cfg(all(feature = "remote", feature = "zarr"))]
mod references;
#[cfg(feature = "zarr")]
mod zarr;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::format::array::{ArrayWriter, DatasetSpec, Limits};
use crate::format::npy::{self, NpyFile, NpyWriter};
use crate::format::tet::{self, FileMetadata, MAGIC, TetFile, TetWriter, is_package};
use crate::provider::adapters::arrays::formats::file_format::FileFormat;
use crate::provider::adapters::create::{CreateArrays, CreateSettings};
use crate::provider::adapters::registry::Format;
#[cfg(feature = "remote")]
use crate::provider::adapters::registry::{RemoteFile, place_of};
#[cfg(feature = "tatami")]
use crate::provider::adapters::tatami::{CollectionFormat, TatamiFormat};
#[cfg(feature = "tiledb")]
use crate::provider::adapters::tiledb::TileDbFormat;

/// The first bytes of NumPy files: `.npy`, `.npz`, and a `.npz` without arrays.
const NUMPY: [&[u8]; 3] = [b"\x93NUM", b"PK\x03\x04", b"PK\x05\x06"];

/// Returns the formats of this crate.
pub(in crate::provider) fn built_in() -> Vec<Arc<dyn Format>> {
    vec![
        Arc::new(TET),
        // Before Zarr, because a directory of references has a document of Zarr's name.
        #[cfg(all(feature = "remote", feature = "zarr"))]
        Arc::new(references::ReferenceFormat),
        #[cfg(feature = "zarr")]
        Arc::new(zarr::ZarrFormat),
        Arc::new(NPY),
        #[cfg(feature = "hdf5")]
        Arc::new(netcdf::NETCDF),
        #[cfg(feature = "hdf5")]
        Arc::new(netcdf::HDF5),
        #[cfg(feature = "tatami")]
        Arc::new(TatamiFormat),
        #[cfg(feature = "tatami")]
        Arc::new(CollectionFormat),
        #[cfg(feature = "tiledb")]
        Arc::new(TileDbFormat),
    ]
}

/// `.tet` files, and packages of them (`X.tet.d`).
const TET: FileFormat = FileFormat {
    name: "tet",
    keywords: &["TET"],
    extensions: &["tet", "tet.d"],
    options: &[],
    recognises: |candidate| match candidate.is_directory() {
        #[cfg(feature = "remote")]
        true if candidate.is_remote() => {
            // Only packages by name, to save requests.
            let name = candidate.path().to_string_lossy();
            name.trim_end_matches('/').ends_with(".tet.d") && candidate.has_entry("PROTOCOL")
        }
        true => is_package(candidate.path()),
        false => candidate.start().starts_with(&MAGIC),
    },
    is_found_in_directories: |path| {
        let extension = path.extension().unwrap_or_default();
        (extension.eq_ignore_ascii_case("tet") && path.is_file()) || is_package(path)
    },
    open: |path, options, _| Ok(Arc::new(TetFile::open(path, options)?)),
    #[cfg(feature = "remote")]
    open_remote: |file, options, session| {
        let is_package = file.path().to_string_lossy().contains(".tet.d");
        Ok(Arc::new(match file {
            RemoteFile::Directory(directory) if is_package => {
                TetFile::open_package(place_of(directory.path(), session)?, options)?
            }
            file => TetFile::open_remote(file.into_object()?, options)?,
        }))
    },
    with_options: |file, _| Ok(file),
    creator: || Some(Arc::new(TetCreator)),
};

/// NumPy files: `.npy`, and `.npz` with several arrays.
const NPY: FileFormat = FileFormat {
    name: "npy",
    keywords: &["NPY", "NPZ"],
    extensions: &["npy", "npz"],
    options: &[],
    recognises: |candidate| {
        let mut magics = NUMPY.iter();
        magics.any(|magic| candidate.start().starts_with(magic))
    },
    is_found_in_directories: |_| false,
    open: |path, options, _| Ok(Arc::new(NpyFile::open(path, options.access)?)),
    #[cfg(feature = "remote")]
    open_remote: |file, _, _| Ok(Arc::new(NpyFile::open_remote(file.into_object()?)?)),
    with_options: |file, _| Ok(file),
    creator: || Some(Arc::new(NpyCreator)),
};

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

/// Creates `.tet` files.
#[derive(Debug)]
struct TetCreator;

impl TetCreator {
    /// The option that embeds zone maps. The file's footer is then of version 2.
    const ZONE_MAPS: &'static str = "zone_maps";

    fn embeds_zone_maps(options: &BTreeMap<String, String>) -> Result<bool, String> {
        is_second(options, Self::ZONE_MAPS, ["false", "true"])
    }
}

impl CreateArrays for TetCreator {
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

/// Creates `.npy` and `.npz` files.
#[derive(Debug)]
struct NpyCreator;

impl CreateArrays for NpyCreator {
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
