//! What columns mean, as the metadata of their fields tells.

use arrow::datatypes::{Field, Schema};

use crate::provider::source::DATASET;

/// What the keys start with that are no attributes of a file.
const OURS: &str = "tet:";
/// The attributes that say in words what a column holds, the best one first.
#[cfg(feature = "sql")]
const DESCRIPTIONS: [&str; 3] = ["long_name", "description", "standard_name"];

/// The attributes of a column, sorted by their keys.
pub(super) fn attributes(field: &Field) -> Vec<(&str, &str)> {
    let attributes = field.metadata().iter();
    let mut attributes: Vec<_> = attributes
        .map(|(key, text)| (key.as_str(), text.as_str()))
        .filter(|(key, _)| !key.starts_with(OURS))
        .collect();
    attributes.sort_unstable();
    attributes
}

/// One attribute of a column.
pub(super) fn attribute(field: &Field, key: &str) -> Option<String> {
    field.metadata().get(key).cloned()
}

/// The unit of a column.
pub(super) fn units(field: &Field) -> Option<String> {
    attribute(field, "units")
}

/// What a column holds, in words.
#[cfg(feature = "sql")]
pub(super) fn description(field: &Field) -> Option<String> {
    DESCRIPTIONS.iter().find_map(|key| attribute(field, key))
}

/// The dataset whose values a column holds.
pub(super) fn dataset(field: &Field) -> Option<&str> {
    field.metadata().get(DATASET).map(String::as_str)
}

/// The only column with values of a dataset, which is then what the table is about.
pub(super) fn only_values(schema: &Schema) -> Option<&Field> {
    let fields = schema.fields().iter();
    let mut values = fields.filter(|field| dataset(field).is_some());
    let first = values.next()?;
    values.next().is_none().then_some(first.as_ref())
}
