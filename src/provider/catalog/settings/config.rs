//! The settings of a session.

use std::any::Any;

use datafusion::common::config::{
    ConfigEntry, ConfigExtension, ConfigField, ConfigOptions, ExtensionOptions,
};
use datafusion::common::{Result, config_err};

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
    /// `tet.max_...`: limits on statements and on the values that they produce.
    pub limits: Limits,
}

impl ArraySettings {
    /// Returns `true` if a setting is on, or if the session has no settings of this crate.
    pub(in crate::provider) fn is_on(config: &ConfigOptions, setting: fn(&Self) -> bool) -> bool {
        config.extensions.get::<Self>().is_none_or(setting)
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
            limits: Limits::default(),
        }
    }
}

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
        match key {
            "nan_as_null" => ConfigField::set(&mut self.nan_as_null, "", value),
            "fill_as_null" => ConfigField::set(&mut self.fill_as_null, "", value),
            "declare_ordering" => ConfigField::set(&mut self.declare_ordering, "", value),
            "zone_maps" => ConfigField::set(&mut self.zone_maps, "", value),
            "array_aggregates" => ConfigField::set(&mut self.array_aggregates, "", value),
            "zip_joins" => ConfigField::set(&mut self.zip_joins, "", value),
            "lookup_joins" => ConfigField::set(&mut self.lookup_joins, "", value),
            "axis_windows" => ConfigField::set(&mut self.axis_windows, "", value),
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
        let mut entries = vec![
            entry(
                "nan_as_null",
                self.nan_as_null.to_string(),
                "Whether NaN in .tet values reads as NULL",
            ),
            entry(
                "fill_as_null",
                self.fill_as_null.to_string(),
                "Whether the fill value of a .tet dataset reads as NULL",
            ),
            entry(
                "access",
                self.access.to_string(),
                "How .tet files are read: mmap or pread",
            ),
            entry(
                "unpack",
                self.unpack.to_string(),
                "When files opened from now on are unpacked by scale_factor and add_offset: auto (integers of Zarr), always \
                 or never",
            ),
            entry(
                "declare_ordering",
                self.declare_ordering.to_string(),
                "Whether scans declare the order of their rows to DataFusion",
            ),
            entry(
                "zone_maps",
                self.zone_maps.to_string(),
                "Whether the zone maps and value postings of .tet files are used",
            ),
            entry(
                "array_aggregates",
                self.array_aggregates.to_string(),
                "Whether aggregates over .tet files are computed in array space",
            ),
            entry(
                "zip_joins",
                self.zip_joins.to_string(),
                "Whether joins of arrays on all dimensions become one scan of both arrays",
            ),
            entry(
                "lookup_joins",
                self.lookup_joins.to_string(),
                "Whether joins of arrays on expressions over dimensions look up matches by position",
            ),
            entry(
                "axis_windows",
                self.axis_windows.to_string(),
                "Whether window functions along an axis of an array are computed without sorting",
            ),
        ];
        entries.extend(self.limits.entries());
        entries
    }
}
