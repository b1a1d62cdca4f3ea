//! NetCDF and HDF5 as formats of the registry.

use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::format::array::{ArrayFile, ValidRangeFile};
use crate::format::hdf5::{Hdf5File, is_hdf5};
use crate::format::netcdf::{self, NetcdfFile};
use crate::provider::adapters::arrays::container::ArrayContainer;
#[cfg(feature = "remote")]
use crate::provider::adapters::registry::RemoteFile;
use crate::provider::adapters::registry::{Candidate, Format};
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::container::Container;

/// The keywords of HDF5 and NetCDF files. NetCDF-4 files are HDF5 files.
const NETCDF_KEYWORDS: &[&str] = &["NETCDF", "HDF5"];

/// The option that makes cells outside of the attributes `valid_min`, `valid_max` and `valid_range` null.
const VALID_RANGE: &str = "valid_range";

/// Creates the container of a NetCDF or HDF5 file.
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
#[derive(Debug)]
pub(super) struct NetcdfFormat;

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

    #[cfg(feature = "remote")]
    fn open_remote(
        &self,
        file: RemoteFile,
        options: &ArrayOptions,
        _session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let file = NetcdfFile::open_remote(file.into_object()?)?;
        netcdf_container(Arc::new(file), options)
    }
}

/// HDF5 files, and so NetCDF-4 files.
#[derive(Debug)]
pub(super) struct Hdf5Format;

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
        let cache = ArraySettings::cache(session.options());
        let file = Hdf5File::open_cached(path, access, cache)?;
        netcdf_container(Arc::new(file), options)
    }

    #[cfg(feature = "remote")]
    fn open_remote(
        &self,
        file: RemoteFile,
        options: &ArrayOptions,
        _session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let file = Hdf5File::open_remote(file.into_object()?)?;
        netcdf_container(Arc::new(file), options)
    }
}
