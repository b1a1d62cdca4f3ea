//! Options of a file or table. Some are fixed when the file is opened; others follow the session.

use std::collections::{BTreeMap, HashSet};

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, plan_err};
use serde::{Deserialize, Serialize};

use crate::format::io::storage::Access;
use crate::format::tet::OpenOptions;
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::catalog::settings::unpack::Unpack;

/// The names of the options that all formats have.
const NAMES: [&str; 14] = [
    "access",
    "auxiliary_coordinates",
    "dataset",
    "declare_ordering",
    "decode_coords",
    "decode_times",
    "dims",
    "file_column",
    "fill_as_null",
    "ignore_footer",
    "nan_as_null",
    "text_labels",
    "unpack",
    "zone_maps",
];

/// Options for opening and reading array files.
///
/// Options that shape the columns of a table are fixed when the file is opened. The others only
/// change how values are read. If unset, they follow the session's [`ArraySettings`], and so obey
/// `SET tet....`.
///
/// ```
/// use tet_sql::{Access, ArrayOptions};
///
/// let options = ArrayOptions::new().with_dataset("temperature").with_access(Access::Pread);
/// assert_eq!(options.dataset.as_deref(), Some("temperature"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ArrayOptions {
    /// The dataset to read. If unset, the only dataset of the file. Ignored when a whole file is
    /// registered.
    pub dataset: Option<String>,
    /// Keeps labels as text instead of inferring numbers, dates and times. Fixed on opening.
    pub text_labels: bool,
    /// Ignores the footer: no dimension names, labels, attributes or fill values. Gives access to
    /// the data of a file whose footer is broken. Fixed on opening.
    pub ignore_footer: bool,
    /// Names for the dimensions of every dataset that has this many dimensions and does not name
    /// them. Fixed on opening.
    pub dims: Option<Vec<String>>,
    /// Takes coordinates from other datasets: siblings, and datasets that the CF attribute
    /// `coordinates` names. On by default. Fixed on opening.
    pub decode_coords: bool,
    /// Adds the auxiliary coordinates of a dataset as columns: datasets that its attribute `coordinates`
    /// names, and that lie along some of its dimensions, such as `lat(y, x)`. Off by default. Fixed on
    /// opening.
    pub auxiliary_coordinates: bool,
    /// Decodes coordinates and values in CF time units (`hours since 1900-01-01`) to timestamps. On
    /// by default. Fixed on opening.
    pub decode_times: bool,
    /// When to unpack values to Float64 by the CF attributes `scale_factor` and `add_offset`. If
    /// unset, `tet.unpack` applies. Fixed on opening.
    pub unpack: Option<Unpack>,
    /// Refuses data outside of a Zarr hierarchy that is linked into it. Otherwise such links only
    /// give a warning on opening. Fixed on opening.
    pub refuse_outward_links: bool,
    /// Options that only one format has, by name. Fixed on opening.
    pub format_options: BTreeMap<String, String>,
    /// Adds a column `file` with the path of each row's file to a table over files. Fixed when the
    /// table is created. Ignored by a table over a single dataset of an open file.
    pub file_column: bool,
    /// Memory map or positioned reads. If unset, `tet.access` applies.
    pub access: Option<Access>,
    /// Reads NaN as null. If unset, `tet.nan_as_null` applies.
    pub nan_as_null: Option<bool>,
    /// Reads fill values as null: the first of the attributes `_FillValue`, `missing_value` and
    /// `fill_value`. If unset, `tet.fill_as_null` applies.
    pub fill_as_null: Option<bool>,
    /// Declares the row order of scans to DataFusion. If unset, `tet.declare_ordering` applies.
    pub declare_ordering: Option<bool>,
    /// Uses zone maps and value postings to prune chunks and to answer min and max. If unset,
    /// `tet.zone_maps` applies.
    pub zone_maps: Option<bool>,
}

impl Default for ArrayOptions {
    fn default() -> Self {
        Self {
            dataset: None,
            text_labels: false,
            ignore_footer: false,
            dims: None,
            decode_coords: true,
            auxiliary_coordinates: false,
            decode_times: true,
            unpack: None,
            refuse_outward_links: false,
            format_options: BTreeMap::new(),
            file_column: false,
            access: None,
            nan_as_null: None,
            fill_as_null: None,
            declare_ordering: None,
            zone_maps: None,
        }
    }
}

impl ArrayOptions {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the dataset to read.
    pub fn with_dataset(mut self, dataset: impl Into<String>) -> Self {
        self.dataset = Some(dataset.into());
        self
    }

    /// Sets whether labels stay text.
    pub fn with_text_labels(mut self, text_labels: bool) -> Self {
        self.text_labels = text_labels;
        self
    }

    /// Sets whether the footer is ignored.
    pub fn with_ignore_footer(mut self, ignore_footer: bool) -> Self {
        self.ignore_footer = ignore_footer;
        self
    }

    /// Sets the access mode, overriding the session.
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = Some(access);
        self
    }

    /// Sets whether NaN reads as null, overriding the session.
    pub fn with_nan_as_null(mut self, nan_as_null: bool) -> Self {
        self.nan_as_null = Some(nan_as_null);
        self
    }

    /// Sets whether fill values read as null, overriding the session.
    pub fn with_fill_as_null(mut self, fill_as_null: bool) -> Self {
        self.fill_as_null = Some(fill_as_null);
        self
    }

    /// Sets whether scans declare their row order to DataFusion, overriding the session.
    pub fn with_declare_ordering(mut self, declare_ordering: bool) -> Self {
        self.declare_ordering = Some(declare_ordering);
        self
    }

    /// Sets the names of dimensions for datasets that do not name them.
    pub fn with_dims<S: Into<String>>(mut self, dims: impl IntoIterator<Item = S>) -> Self {
        self.dims = Some(dims.into_iter().map(Into::into).collect());
        self
    }

    /// Sets whether coordinates are taken from other datasets.
    pub fn with_decode_coords(mut self, decode_coords: bool) -> Self {
        self.decode_coords = decode_coords;
        self
    }

    /// Sets whether auxiliary coordinates are columns.
    pub fn with_auxiliary_coordinates(mut self, auxiliary_coordinates: bool) -> Self {
        self.auxiliary_coordinates = auxiliary_coordinates;
        self
    }

    /// Sets whether coordinates and values in CF time units become timestamps.
    pub fn with_decode_times(mut self, decode_times: bool) -> Self {
        self.decode_times = decode_times;
        self
    }

    /// Sets when values are unpacked by `scale_factor` and `add_offset`, overriding the session.
    pub fn with_unpack(mut self, unpack: Unpack) -> Self {
        self.unpack = Some(unpack);
        self
    }

    /// Sets whether links out of a Zarr hierarchy are refused.
    pub fn with_refused_outward_links(mut self, refused: bool) -> Self {
        self.refuse_outward_links = refused;
        self
    }

    /// Sets an option that only one format has.
    pub fn with_format_option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.format_options.insert(name.into(), value.into());
        self
    }

    /// Sets whether a table over files has a column `file`.
    pub fn with_file_column(mut self, file_column: bool) -> Self {
        self.file_column = file_column;
        self
    }

    /// Sets whether zone maps and value postings are used, overriding the session.
    pub fn with_zone_maps(mut self, zone_maps: bool) -> Self {
        self.zone_maps = Some(zone_maps);
        self
    }

    /// Sets an option by name, as in `OPTIONS (dataset 'temperature', unpack 'always')`. `dims`
    /// takes names separated by commas.
    ///
    /// # Errors
    /// Returns an error if there is no such option, or the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.set_with(&[], name, value)
    }

    /// Sets an option by name, where `own` are the options that only one format has.
    pub(crate) fn set_with(&mut self, own: &[&str], name: &str, value: &str) -> Result<()> {
        if let Some(own) = own.iter().find(|own| own.eq_ignore_ascii_case(name)) {
            self.format_options
                .insert((*own).to_string(), value.to_string());
            return Ok(());
        }
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
                        "option dims is '{value}', expected distinct names separated by commas"
                    );
                }
                self.dims = Some(names);
            }
            "text_labels" => self.text_labels = switch()?,
            "ignore_footer" => self.ignore_footer = switch()?,
            "decode_coords" => self.decode_coords = switch()?,
            "auxiliary_coordinates" => self.auxiliary_coordinates = switch()?,
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
                let mut names = [&NAMES, own].concat();
                names.sort_unstable();
                let last = names.pop().unwrap_or_default();
                return plan_err!(
                    "unknown option {name}, expected one of {} or {last}",
                    names.join(", ")
                );
            }
        }
        Ok(())
    }

    /// The options for opening a file. `session` gives the access mode if it is unset.
    pub(crate) fn open_options(&self, session: &ConfigOptions) -> OpenOptions {
        OpenOptions {
            access: self.read_options(session).access,
            ignore_footer: self.ignore_footer,
        }
    }

    /// Returns these options with the session's setting for every unset option that shapes the
    /// schema.
    pub(crate) fn bound(&self, session: &ConfigOptions) -> Self {
        let config = session.extensions.get::<ArraySettings>();
        let default = config.map_or(Unpack::default(), |config| config.unpack);
        Self {
            unpack: Some(self.unpack.unwrap_or(default)),
            ..self.clone()
        }
    }

    /// The options of a scan in this session.
    pub(crate) fn read_options(&self, session: &ConfigOptions) -> ReadOptions {
        let default = ArraySettings::default();
        let config = session
            .extensions
            .get::<ArraySettings>()
            .unwrap_or(&default);
        ReadOptions {
            access: self.access.unwrap_or(config.access),
            nan_as_null: self.nan_as_null.unwrap_or(config.nan_as_null),
            fill_as_null: self.fill_as_null.unwrap_or(config.fill_as_null),
            declare_ordering: self.declare_ordering.unwrap_or(config.declare_ordering),
            zone_maps: self.zone_maps.unwrap_or(config.zone_maps),
        }
    }
}

/// The options of a scan, resolved from those of the table and of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReadOptions {
    /// Memory map or positioned reads.
    pub access: Access,
    /// `true` if NaN reads as null.
    pub nan_as_null: bool,
    /// `true` if fill values read as null.
    pub fill_as_null: bool,
    /// `true` if scans declare their row order to DataFusion.
    pub declare_ordering: bool,
    /// `true` if zone maps and value postings are used.
    pub zone_maps: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ArrayOptions::new().read_options(&ConfigOptions::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_override_the_session() {
        let mut session = ConfigOptions::new();
        session.extensions.insert(ArraySettings::default());
        session.set("tet.nan_as_null", "false").unwrap();
        session.set("tet.access", "pread").unwrap();
        let read = ArrayOptions::new()
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
