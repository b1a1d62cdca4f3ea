//! Zarr as a format of the registry.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::format::array::{ArrayWriter, DatasetSpec, Limits};
use crate::format::zarr::{
    self, OutwardLinks, ZarrFile, ZarrVersion, ZarrWriteOptions, ZarrWriter,
};
use crate::provider::adapters::arrays::container::ArrayContainer;
use crate::provider::adapters::arrays::formats::is_second;
#[cfg(feature = "remote")]
use crate::provider::adapters::arrays::formats::references::ReferenceFormat;
use crate::provider::adapters::create::{CreateArrays, CreateSettings};
#[cfg(feature = "remote")]
use crate::provider::adapters::registry::RemoteFile;
use crate::provider::adapters::registry::{Candidate, Format};
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::container::Container;

/// Zarr hierarchies and arrays.
#[derive(Debug)]
pub(super) struct ZarrFormat;

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
