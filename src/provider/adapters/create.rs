//! Creation of array files, for `COPY` and `tet convert`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use crate::error::Error;
use crate::format::array::{ArrayWriter, DatasetSpec, GroupAttributes, Limits};

/// Creates the array files of a format. See [`Format::creator`](super::registry::Format::creator).
pub trait CreateArrays: Debug + Send + Sync {
    /// The limits of the format on one dataset.
    fn limits(&self) -> Limits {
        Limits::NONE
    }

    /// Returns `true` if files keep the names of dimensions, and attributes. Only then does `COPY`
    /// write rows as arrays of this format, since their coordinates would be lost otherwise.
    fn keeps_metadata(&self) -> bool {
        true
    }

    /// Returns `true` if files keep attributes of the file itself and of groups.
    fn keeps_group_attributes(&self) -> bool {
        false
    }

    /// Returns `true` if texts may be null.
    fn allows_null_texts(&self) -> bool {
        false
    }

    /// Returns `true` if the arrays are in a directory, so that creating them may replace one.
    fn creates_directories(&self) -> bool {
        false
    }

    /// The names of the options of `COPY` that only this format has. [`Self::create`] finds their
    /// values in [`CreateSettings::format_options`].
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks the values of [`Self::options`] before any row is read.
    ///
    /// # Errors
    /// Returns a message that names the option, its value, and the values that were expected.
    fn check_options(&self, _options: &BTreeMap<String, String>) -> Result<(), String> {
        Ok(())
    }

    /// Creates a file for these arrays.
    ///
    /// # Errors
    /// Returns an error if the format cannot hold these arrays, or the file cannot be created.
    fn create(
        &self,
        path: &Path,
        specs: Vec<DatasetSpec>,
        settings: &CreateSettings,
    ) -> Result<Box<dyn ArrayWriter>, Error>;
}

/// Settings for the creation of an array file. Each format applies those that it supports.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CreateSettings {
    /// The values of options that only some formats have, by name.
    pub format_options: BTreeMap<String, String>,
    /// The attributes of groups, by the path of the group, which is empty for the file itself.
    pub group_attributes: GroupAttributes,
    /// The operation that creates the file, and its source, for the history of the file.
    pub history: (&'static str, &'static str),
}
