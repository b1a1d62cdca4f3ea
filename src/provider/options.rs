//! Options: those bound when a file is opened, and those that a session can change.

use std::any::Any;

use datafusion::common::config::{
    ConfigEntry, ConfigExtension, ConfigField, ConfigOptions, ExtensionOptions,
};
use datafusion::common::{Result, config_err};

use crate::format::storage::Access;
use crate::format::tet::OpenOptions;

/// Options for opening and reading `.tet` files.
///
/// Some shape a table's columns and are bound when the file is opened. The others only change how values are read: each
/// of those, left unset, follows the session's [`TetConfig`], and so obeys `SET tet....`.
///
/// ```
/// use tet_sql::{Access, TetOptions};
///
/// let options = TetOptions::new().with_dataset("temperature").with_access(Access::Pread);
/// assert_eq!(options.dataset.as_deref(), Some("temperature"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct TetOptions {
    /// The dataset to read, where one is wanted. Unset: the only one there is. Registering a whole file takes no
    /// notice of it.
    pub dataset: Option<String>,
    /// Leaves labels as text instead of inferring numbers, dates and times. Bound on opening.
    pub text_labels: bool,
    /// Leaves the footer unread: no dimension names, labels, attributes or fill values. The way to the data of a
    /// file whose footer alone is broken. Bound on opening.
    pub ignore_footer: bool,
    /// Memory map or positioned reads. Unset: `tet.access`.
    pub access: Option<Access>,
    /// Whether NaN reads as NULL. Unset: `tet.nan_as_null`.
    pub nan_as_null: Option<bool>,
    /// Whether the fill value (the first of the attributes `_FillValue`, `missing_value` and `fill_value`) reads as
    /// NULL. Unset: `tet.fill_as_null`.
    pub fill_as_null: Option<bool>,
    /// Whether scans tell the engine the order of their rows. Unset: `tet.declare_ordering`.
    pub declare_ordering: Option<bool>,
}

impl TetOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the dataset to read.
    pub fn with_dataset(mut self, dataset: impl Into<String>) -> Self {
        self.dataset = Some(dataset.into());
        self
    }

    /// Leaves labels as text.
    pub fn with_text_labels(mut self, text_labels: bool) -> Self {
        self.text_labels = text_labels;
        self
    }

    /// Leaves the footer unread.
    pub fn with_ignore_footer(mut self, ignore_footer: bool) -> Self {
        self.ignore_footer = ignore_footer;
        self
    }

    /// Fixes the access mode, whatever the session says.
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = Some(access);
        self
    }

    /// Fixes whether NaN reads as NULL, whatever the session says.
    pub fn with_nan_as_null(mut self, nan_as_null: bool) -> Self {
        self.nan_as_null = Some(nan_as_null);
        self
    }

    /// Fixes whether the fill value reads as NULL, whatever the session says.
    pub fn with_fill_as_null(mut self, fill_as_null: bool) -> Self {
        self.fill_as_null = Some(fill_as_null);
        self
    }

    /// Fixes whether scans tell the engine the order of their rows, whatever the session says.
    pub fn with_declare_ordering(mut self, declare_ordering: bool) -> Self {
        self.declare_ordering = Some(declare_ordering);
        self
    }

    /// How a file is opened. `session` is what an unset access mode follows.
    pub(crate) fn open_options(&self, session: &ConfigOptions) -> OpenOptions {
        OpenOptions {
            access: self.read_options(session).access,
            ignore_footer: self.ignore_footer,
        }
    }

    /// How a scan in this session reads values.
    pub(crate) fn read_options(&self, session: &ConfigOptions) -> ReadOptions {
        let default = TetConfig::default();
        let config = session.extensions.get::<TetConfig>().unwrap_or(&default);
        ReadOptions {
            access: self.access.unwrap_or(config.access),
            nan_as_null: self.nan_as_null.unwrap_or(config.nan_as_null),
            fill_as_null: self.fill_as_null.unwrap_or(config.fill_as_null),
            declare_ordering: self.declare_ordering.unwrap_or(config.declare_ordering),
        }
    }
}

/// How values are read, once a table's and a session's options are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadOptions {
    /// Memory map or positioned reads.
    pub access: Access,
    /// Whether NaN reads as NULL.
    pub nan_as_null: bool,
    /// Whether the fill value reads as NULL.
    pub fill_as_null: bool,
    /// Whether scans tell the engine the order of their rows.
    pub declare_ordering: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        TetOptions::new().read_options(&ConfigOptions::new())
    }
}

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
}

impl Default for TetConfig {
    fn default() -> Self {
        Self {
            nan_as_null: true,
            fill_as_null: true,
            access: Access::Mmap,
            declare_ordering: false,
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
            "access" => match value.parse() {
                Ok(access) => {
                    self.access = access;
                    Ok(())
                }
                Err(message) => config_err!("tet.access: {message}"),
            },
            _ => config_err!(
                "no option tet.{key}; there are tet.nan_as_null, tet.fill_as_null, tet.access and \
                 tet.declare_ordering"
            ),
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |key: &str, value: String, description| ConfigEntry {
            key: format!("tet.{key}"),
            value: Some(value),
            description,
        };
        vec![
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
                "declare_ordering",
                self.declare_ordering.to_string(),
                "Whether scans of .tet files tell the engine the order of their rows",
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_override_the_session() {
        let mut session = ConfigOptions::new();
        session.extensions.insert(TetConfig::default());
        session.set("tet.nan_as_null", "false").unwrap();
        session.set("tet.access", "pread").unwrap();
        let read = TetOptions::new()
            .with_access(Access::Mmap)
            .read_options(&session);
        assert_eq!(
            read,
            ReadOptions {
                access: Access::Mmap,
                nan_as_null: false,
                fill_as_null: true,
                declare_ordering: false,
            }
        );
        let error = session.set("tet.access", "carrier pigeon").unwrap_err();
        assert!(
            error.to_string().contains("expected mmap or pread"),
            "{error}"
        );
        assert!(session.set("tet.nonsense", "1").is_err());
    }
}
