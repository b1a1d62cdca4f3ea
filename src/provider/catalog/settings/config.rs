//! The settings of a session.

use std::any::Any;
#[cfg(any(feature = "hdf5", feature = "remote"))]
use std::path::Path;
#[cfg(any(feature = "hdf5", feature = "remote"))]
use std::sync::Arc;

use datafusion::common::config::{
    ConfigEntry, ConfigExtension, ConfigField, ConfigOptions, ExtensionOptions,
};
use datafusion::common::{Result, config_err};

#[cfg(any(feature = "hdf5", feature = "remote"))]
use crate::format::io::cache::CacheDirectory;
use crate::format::io::storage::Access;
use crate::provider::catalog::settings::unpack::Unpack;
use crate::provider::sql::budget::Limits;

/// The settings of a session, under the prefix `tet`: `SET tet.nan_as_null = false`.
///
/// Registering a file adds the default settings to a session that has none. To start with other
/// settings, add them to the session's configuration with
/// [`with_option_extension`](datafusion::prelude::SessionConfig::with_option_extension).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArraySettings {
    /// `tet.nan_as_null`: `true` to read NaN as null.
    pub nan_as_null: bool,
    /// `tet.fill_as_null`: `true` to read fill values as null.
    pub fill_as_null: bool,
    /// `tet.access`: `mmap` or `pread`.
    pub access: Access,
    /// `tet.declare_ordering`: `true` to declare the row order of scans to DataFusion, which saves
    /// sorts along the leading dimensions. Off by default: over any table with a declared order,
    /// DataFusion 55.2 moves the LIMIT of `SELECT ..., count(*) OVER () ... ORDER BY ... LIMIT n`
    /// below the window and returns wrong results.
    pub declare_ordering: bool,
    /// `tet.unpack`: `auto`, `always` or `never`. Applies to files opened afterwards.
    pub unpack: Unpack,
    /// `tet.zone_maps`: `true` to prune chunks and to answer min and max by zone maps and value
    /// postings. The file's writer computed them, and only reading the values can verify them.
    pub zone_maps: bool,
    /// `tet.array_aggregates`: `true` to compute aggregates in array space, in a session created by
    /// [`enable_arrays`](crate::enable_arrays).
    pub array_aggregates: bool,
    /// `tet.zip_joins`: `true` to turn joins on all dimensions into one scan of both arrays, in a
    /// session created by [`enable_arrays`](crate::enable_arrays).
    pub zip_joins: bool,
    /// `tet.lookup_joins`: `true` to look up the matches of an array's cells by their position, for
    /// joins on expressions over dimensions, in a session created by
    /// [`enable_arrays`](crate::enable_arrays).
    pub lookup_joins: bool,
    /// `tet.axis_windows`: `true` to compute window functions along an axis without sorting, in a
    /// session created by [`enable_arrays`](crate::enable_arrays).
    pub axis_windows: bool,
    /// `tet.cache_dir`: the directory that keeps the chunk indexes of HDF5 and NetCDF-4 files, and what is
    /// fetched from URLs, for later sessions; empty to keep nothing. Applies to files opened afterwards.
    pub cache_dir: String,
    /// `tet.cache_size`: the maximum number of bytes in the cache directory.
    pub cache_size: u64,
    /// `tet.cluster`: the URLs of the workers that run queries, between commas; empty to run them in this
    /// process.
    #[cfg(feature = "cluster")]
    pub cluster: String,
    /// `tet.cluster_task_size`: the minimum number of bytes that a worker reads for a query. A query that
    /// reads less than twice as much runs in this process.
    #[cfg(feature = "cluster")]
    pub cluster_task_size: u64,
    /// `tet.max_...`: limits on statements and on the values that they produce.
    pub limits: Limits,
}

impl ArraySettings {
    /// Returns `true` if a setting is on, or if the session has no settings of this crate.
    pub(in crate::provider) fn is_on(config: &ConfigOptions, setting: fn(&Self) -> bool) -> bool {
        config.extensions.get::<Self>().is_none_or(setting)
    }

    /// Returns the limits of a session; the defaults if it has no settings of this crate.
    pub(in crate::provider) fn limits_of(config: &ConfigOptions) -> Limits {
        let settings = config.extensions.get::<Self>();
        settings.map_or_else(Limits::default, |settings| settings.limits.clone())
    }

    /// Returns the cache directory, if the session has one.
    #[cfg(any(feature = "hdf5", feature = "remote"))]
    pub(in crate::provider) fn cache(config: &ConfigOptions) -> Option<Arc<CacheDirectory>> {
        let settings = config.extensions.get::<Self>()?;
        let path = Some(settings.cache_dir.as_str()).filter(|path| !path.is_empty())?;
        Some(CacheDirectory::at(Path::new(path), settings.cache_size))
    }
}

impl Default for ArraySettings {
    fn default() -> Self {
        Self {
            nan_as_null: true,
            fill_as_null: true,
            access: Access::Mmap,
            declare_ordering: false,
            unpack: Unpack::Auto,
            zone_maps: true,
            array_aggregates: true,
            zip_joins: true,
            lookup_joins: true,
            axis_windows: true,
            cache_dir: String::new(),
            cache_size: 1 << 30,
            #[cfg(feature = "cluster")]
            cluster: String::new(),
            #[cfg(feature = "cluster")]
            cluster_task_size: 32 << 20,
            limits: Limits::default(),
        }
    }
}

/// A setting that is on or off: its name, its field and its description.
type Switch = (
    &'static str,
    fn(&mut ArraySettings) -> &mut bool,
    &'static str,
);

/// The settings that are on or off.
const SWITCHES: [Switch; 8] = [
    (
        "nan_as_null",
        |settings| &mut settings.nan_as_null,
        "If true, NaN in arrays reads as NULL",
    ),
    (
        "fill_as_null",
        |settings| &mut settings.fill_as_null,
        "If true, the fill value of an array reads as NULL",
    ),
    (
        "declare_ordering",
        |settings| &mut settings.declare_ordering,
        "If true, scans declare the order of their rows to DataFusion",
    ),
    (
        "zone_maps",
        |settings| &mut settings.zone_maps,
        "If true, stored statistics (zone maps, value postings) skip chunks and answer aggregates",
    ),
    (
        "array_aggregates",
        |settings| &mut settings.array_aggregates,
        "If true, aggregates over arrays are computed in array space",
    ),
    (
        "zip_joins",
        |settings| &mut settings.zip_joins,
        "If true, joins of arrays on all dimensions become one scan of both arrays",
    ),
    (
        "lookup_joins",
        |settings| &mut settings.lookup_joins,
        "If true, joins of arrays on expressions over dimensions look up matches by position",
    ),
    (
        "axis_windows",
        |settings| &mut settings.axis_windows,
        "If true, window functions along an axis of an array are computed without sorting",
    ),
];

impl ConfigExtension for ArraySettings {
    const PREFIX: &'static str = "tet";
}

impl ExtensionOptions for ArraySettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        if let Some((_, field, _)) = SWITCHES.iter().find(|(name, ..)| *name == key) {
            return ConfigField::set(field(self), "", value);
        }
        match key {
            "access" => match value.parse() {
                Ok(access) => {
                    self.access = access;
                    Ok(())
                }
                Err(message) => config_err!("tet.access: {message}"),
            },
            "unpack" => match value.parse() {
                Ok(unpack) => {
                    self.unpack = unpack;
                    Ok(())
                }
                Err(message) => config_err!("tet.{message}"),
            },
            "cache_dir" => {
                self.cache_dir = value.to_string();
                Ok(())
            }
            "cache_size" => ConfigField::set(&mut self.cache_size, "", value),
            #[cfg(feature = "cluster")]
            "cluster" => {
                crate::provider::cluster::parse_workers(value)?;
                self.cluster = value.to_string();
                Ok(())
            }
            #[cfg(feature = "cluster")]
            "cluster_task_size" => ConfigField::set(&mut self.cluster_task_size, "", value),
            _ if Limits::NAMES.contains(&key) => self.limits.set(key, value),
            _ => {
                let mut names: Vec<String> =
                    self.entries().into_iter().map(|entry| entry.key).collect();
                let last = names.pop().unwrap_or_default();
                config_err!(
                    "unknown setting tet.{key}, expected one of {} or {last}",
                    names.join(", ")
                )
            }
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |key: &str, value: String, description| ConfigEntry {
            key: format!("tet.{key}"),
            value: Some(value),
            description,
        };
        let mut settings = self.clone();
        let mut entries = vec![
            entry(
                "access",
                self.access.to_string(),
                "How files are read: mmap or pread",
            ),
            entry(
                "unpack",
                self.unpack.to_string(),
                "Unpack files opened from now on by scale_factor and add_offset: auto (integers of Zarr, NetCDF and HDF5), always or never",
            ),
        ];
        for (key, field, description) in SWITCHES {
            entries.push(entry(key, field(&mut settings).to_string(), description));
        }
        entries.push(entry(
            "cache_dir",
            self.cache_dir.clone(),
            "The directory that keeps chunk indexes of HDF5 and NetCDF-4 files, and what is fetched from URLs; empty to keep nothing",
        ));
        entries.push(entry(
            "cache_size",
            self.cache_size.to_string(),
            "Maximum number of bytes in the cache directory",
        ));
        #[cfg(feature = "cluster")]
        {
            entries.push(entry(
                "cluster",
                self.cluster.clone(),
                "URLs of the workers that run queries, between commas; empty to run them in this process",
            ));
            entries.push(entry(
                "cluster_task_size",
                self.cluster_task_size.to_string(),
                "Minimum number of bytes that a worker reads for a query",
            ));
        }
        entries.extend(self.limits.entries());
        entries
    }
}
