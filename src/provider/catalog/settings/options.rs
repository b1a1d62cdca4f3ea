//! Options: those bound when a file is opened, and those that a session can change.

use std::collections::HashSet;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, plan_err};

use crate::format::io::storage::Access;
use crate::format::tet::OpenOptions;
use crate::provider::catalog::settings::config::TetConfig;
use crate::provider::catalog::settings::unpack::Unpack;

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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// Names for the dimensions of every dataset that has so many and names none of them. Bound on opening.
    pub dims: Option<Vec<String>>,
    /// Whether coordinates are taken from other datasets: siblings, and those that the CF attribute `coordinates`
    /// names. On unless turned off. Bound on opening.
    pub decode_coords: bool,
    /// Whether coordinate datasets with CF time units (`hours since 1900-01-01`) become timestamps. On unless turned
    /// off. Bound on opening.
    pub decode_times: bool,
    /// When values are unpacked by the CF attributes `scale_factor` and `add_offset`, to Float64. Bound on opening.
    /// Unset: `tet.unpack`.
    pub unpack: Option<Unpack>,
    /// Refuses to read what lies outside of a Zarr hierarchy and is linked into it. Off, there is a warning on opening. Bound
    /// on opening.
    pub refuse_outward_links: bool,
    /// Whether a table over files has a column `file` with the path of each. Bound on creation of the table; a table
    /// over a single dataset of an open file takes no notice of it.
    pub file_column: bool,
    /// Memory map or positioned reads. Unset: `tet.access`.
    pub access: Option<Access>,
    /// Whether NaN reads as NULL. Unset: `tet.nan_as_null`.
    pub nan_as_null: Option<bool>,
    /// Whether the fill value (the first of the attributes `_FillValue`, `missing_value` and `fill_value`) reads as
    /// NULL. Unset: `tet.fill_as_null`.
    pub fill_as_null: Option<bool>,
    /// Whether scans tell the engine the order of their rows. Unset: `tet.declare_ordering`.
    pub declare_ordering: Option<bool>,
    /// Whether zone maps and value postings drop chunks and answer minima and maxima. Unset: `tet.zone_maps`.
    pub zone_maps: Option<bool>,
}

impl Default for TetOptions {
    fn default() -> Self {
        Self {
            dataset: None,
            text_labels: false,
            ignore_footer: false,
            dims: None,
            decode_coords: true,
            decode_times: true,
            unpack: None,
            refuse_outward_links: false,
            file_column: false,
            access: None,
            nan_as_null: None,
            fill_as_null: None,
            declare_ordering: None,
            zone_maps: None,
        }
    }
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

    /// Names the dimensions of datasets that name none of theirs.
    pub fn with_dims<S: Into<String>>(mut self, dims: impl IntoIterator<Item = S>) -> Self {
        self.dims = Some(dims.into_iter().map(Into::into).collect());
        self
    }

    /// Chooses whether coordinates are taken from other datasets.
    pub fn with_decode_coords(mut self, decode_coords: bool) -> Self {
        self.decode_coords = decode_coords;
        self
    }

    /// Chooses whether coordinates in CF time units become timestamps.
    pub fn with_decode_times(mut self, decode_times: bool) -> Self {
        self.decode_times = decode_times;
        self
    }

    /// Fixes when values are unpacked by `scale_factor` and `add_offset`, whatever the session says.
    pub fn with_unpack(mut self, unpack: Unpack) -> Self {
        self.unpack = Some(unpack);
        self
    }

    /// Refuses to follow links that lead out of a Zarr hierarchy.
    pub fn with_refused_outward_links(mut self, refused: bool) -> Self {
        self.refuse_outward_links = refused;
        self
    }

    /// Chooses whether a table over files has a column `file`.
    pub fn with_file_column(mut self, file_column: bool) -> Self {
        self.file_column = file_column;
        self
    }

    /// Fixes whether zone maps and value postings are used, whatever the session says.
    pub fn with_zone_maps(mut self, zone_maps: bool) -> Self {
        self.zone_maps = Some(zone_maps);
        self
    }

    /// Sets an option by its name, as in `OPTIONS (dataset 'temperature', unpack 'always')`. `dims` takes names between commas.
    ///
    /// # Errors
    /// If there is no such option, or it cannot have this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let switch = || match value.trim().to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => plan_err!("option {name} is '{value}', expected true or false"),
        };
        match name.to_ascii_lowercase().as_str() {
            "dataset" => self.dataset = Some(value.to_string()),
            "dims" => {
                let names: Vec<_> = value
                    .split(',')
                    .map(|name| name.trim().to_string())
                    .collect();
                let distinct: HashSet<_> = names.iter().collect();
                if names.iter().any(String::is_empty) || distinct.len() < names.len() {
                    return plan_err!(
                        "option dims is '{value}', expected different names between commas"
                    );
                }
                self.dims = Some(names);
            }
            "text_labels" => self.text_labels = switch()?,
            "ignore_footer" => self.ignore_footer = switch()?,
            "decode_coords" => self.decode_coords = switch()?,
            "decode_times" => self.decode_times = switch()?,
            "file_column" => self.file_column = switch()?,
            "nan_as_null" => self.nan_as_null = Some(switch()?),
            "fill_as_null" => self.fill_as_null = Some(switch()?),
            "declare_ordering" => self.declare_ordering = Some(switch()?),
            "zone_maps" => self.zone_maps = Some(switch()?),
            "access" => match value.parse() {
                Ok(access) => self.access = Some(access),
                Err(message) => return plan_err!("option access: {message}"),
            },
            "unpack" => match value.parse() {
                Ok(unpack) => self.unpack = Some(unpack),
                Err(message) => return plan_err!("option {message}"),
            },
            _ => {
                return plan_err!(
                    "there is no option {name}; there are access, dataset, declare_ordering, decode_coords, \
                     decode_times, dims, file_column, fill_as_null, ignore_footer, nan_as_null, text_labels, unpack and \
                     zone_maps"
                );
            }
        }
        Ok(())
    }

    /// How a file is opened. `session` is what an unset access mode follows.
    pub(crate) fn open_options(&self, session: &ConfigOptions) -> OpenOptions {
        OpenOptions {
            access: self.read_options(session).access,
            ignore_footer: self.ignore_footer,
        }
    }

    /// These options, where those that shape the schema no longer follow the session.
    pub(crate) fn bound(&self, session: &ConfigOptions) -> Self {
        let config = session.extensions.get::<TetConfig>();
        let default = config.map_or(Unpack::default(), |config| config.unpack);
        Self {
            unpack: Some(self.unpack.unwrap_or(default)),
            ..self.clone()
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
            zone_maps: self.zone_maps.unwrap_or(config.zone_maps),
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
    /// Whether zone maps and value postings are used.
    pub zone_maps: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        TetOptions::new().read_options(&ConfigOptions::new())
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
                zone_maps: true,
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
