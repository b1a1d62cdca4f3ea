//! NetCDF and HDF5 as formats of the registry.

use std::sync::Arc;

use crate::error::Error;
use crate::format::array::{ArrayFile, ValidRangeFile};
use crate::format::hdf5::{Hdf5File, is_hdf5};
use crate::format::netcdf::{self, NetcdfFile};
use crate::provider::adapters::arrays::formats::file_format::{FileFormat, Opened};
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::catalog::settings::options::ArrayOptions;

/// The keywords of HDF5 and NetCDF files. NetCDF-4 files are HDF5 files.
const KEYWORDS: &[&str] = &["NETCDF", "HDF5"];

/// The option that makes cells outside of the attributes `valid_min`, `valid_max` and `valid_range` null.
const VALID_RANGE: &str = "valid_range";

/// NetCDF files of the classic formats: CDF-1, CDF-2 and CDF-5.
pub(super) const NETCDF: FileFormat = FileFormat {
    name: "netcdf",
    keywords: KEYWORDS,
    extensions: &["nc", "cdf"],
    options: &[VALID_RANGE],
    recognises: |candidate| {
        let mut magics = netcdf::MAGICS.iter();
        magics.any(|magic| candidate.start().starts_with(magic))
    },
    is_found_in_directories: |_| false,
    open: |path, options, _| Ok(Arc::new(NetcdfFile::open(path, options.access)?)),
    #[cfg(feature = "remote")]
    open_remote: |file, _, _| Ok(Arc::new(NetcdfFile::open_remote(file.into_object()?)?)),
    with_options: with_valid_range,
    creator: || None,
};

/// HDF5 files, and so NetCDF-4 files.
pub(super) const HDF5: FileFormat = FileFormat {
    name: "hdf5",
    extensions: &["h5", "hdf5", "hdf", "he5", "nc4"],
    recognises: |candidate| is_hdf5(candidate.path(), candidate.start()),
    open: |path, options, session| {
        let cache = ArraySettings::cache(session.options());
        let file = Hdf5File::open_cached(path, options.access, cache)?;
        Ok(Arc::new(file))
    },
    #[cfg(feature = "remote")]
    open_remote: |file, _, _| Ok(Arc::new(Hdf5File::open_remote(file.into_object()?)?)),
    ..NETCDF
};

/// Masks the cells outside of the valid range, if the options ask for that.
fn with_valid_range(file: Arc<dyn ArrayFile>, options: &ArrayOptions) -> Opened {
    let option = options.format_options.get(VALID_RANGE);
    match option.map(String::as_str) {
        None | Some("ignore") => Ok(file),
        Some("mask") => Ok(ValidRangeFile::wrap(file)),
        Some(other) => {
            let message = format!("option {VALID_RANGE} is '{other}', expected ignore or mask");
            Err(Error::invalid(file.path(), message))
        }
    }
}
