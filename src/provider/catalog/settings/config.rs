//! The session's settings.

use std::any::Any;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigField, ExtensionOptions};
use datafusion::common::{Result, config_err};

use crate::format::io::storage::Access;
use crate::provider::catalog::settings::unpack::Unpack;
use crate::provider::sql::budget::Limits;

/// The session's defaults, under the prefix `tet`: `SET tet.nan_as_null = false`.
///
/// Registering a file adds it to a session that does not have it yet; a session that wants other defaults adds it
/// with [`SessionConfig::with_option_extension`](datafusion::prelude::SessionConfig::with_option_extension).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TetConfig {
    /// `tet.nan_as_null`: whether NaN reads as NULL.
    pub nan_as_null: bool,
    /// `tet.fill_as_null`: whether the fill value reads as NULL.
    pub fill_as_null: bool,
    /// `tet.access`: `mmap` or `pread`.
    pub access: Access,
    /// `tet.declare_ordering`: whether scans tell the engine the order of their rows, which saves sorts along the
    /// leading dimensions. Off by default: over any table of declared order, DataFusion 55.2 moves the LIMIT of
    /// `SELECT ..., count(*) OVER () ... ORDER BY ... LIMIT n` below the window and answers wrongly.
    pub declare_ordering: bool,
    /// `tet.unpack`: `auto`, `always` or `never`. Files that are open already stay as they are.
    pub unpack: Unpack,
    /// `tet.zone_maps`: whether zone maps and value postings drop chunks and answer minima and maxima. They are what the
    /// file's writer says of its values; nothing but reading the values shows whether it is true.
    pub zone_maps: bool,
    /// `tet.array_aggregates`: whether aggregates are computed in array space, in a session that
    /// [`enable_tet`](crate::enable_tet) made.
    pub array_aggregates: bool,
    /// `tet.zip_joins`: whether joins on all dimensions become one scan of both arrays, in such a session.
    pub zip_joins: bool,
    /// `tet.max_...`: what a statement, and a value that it makes, may be.
    pub limits: Limits,
}

impl Default for TetConfig {
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
            limits: Limits::default(),
        }
    }
}

impl ConfigExtension for TetConfig {
    const PREFIX: &'static str = "tet";
}

impl ExtensionOptions for TetConfig {
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
                    "no option tet.{key}; there are {} and {last}",
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
                "Whether scans of .tet files tell the engine the order of their rows",
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
                "Whether joins of .tet datasets on all dimensions become one scan of both",
            ),
        ];
        entries.extend(self.limits.entries());
        entries
    }
}
