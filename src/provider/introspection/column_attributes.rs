//! The attributes of columns, as stored in the metadata of their fields.

use arrow::datatypes::{Field, Schema};

use crate::provider::source::{BlockSource, ColumnKind, DATASET, DIMENSION};

/// The prefix of the metadata keys of this crate, which are not attributes of a file.
const OWN_PREFIX: &str = "tet:";
/// The attributes that describe a column in words, in order of preference.
#[cfg(feature = "sql")]
const DESCRIPTIONS: [&str; 3] = ["long_name", "description", "standard_name"];

/// The attributes of a column, sorted by key.
pub(super) fn attributes(field: &Field) -> Vec<(&str, &str)> {
    let attributes = field.metadata().iter();
    let mut attributes: Vec<_> = attributes
        .map(|(key, text)| (key.as_str(), text.as_str()))
        .filter(|(key, _)| !key.starts_with(OWN_PREFIX))
        .collect();
    attributes.sort_unstable();
    attributes
}

/// The attribute of a column with this key.
pub(super) fn attribute(field: &Field, key: &str) -> Option<String> {
    field.metadata().get(key).cloned()
}

/// The unit of a column.
pub(super) fn units(field: &Field) -> Option<String> {
    attribute(field, "units")
}

/// The description of a column in words.
#[cfg(feature = "sql")]
pub(super) fn description(field: &Field) -> Option<String> {
    DESCRIPTIONS.iter().find_map(|key| attribute(field, key))
}

/// The name of the dataset that holds the values of a column; `None` for other columns.
pub(super) fn dataset(field: &Field) -> Option<&str> {
    field.metadata().get(DATASET).map(String::as_str)
}

/// Returns the indices of the dimensions of a table: columns that are known without reading, and
/// columns that are marked as dimensions.
pub(super) fn dimensions(source: &dyn BlockSource) -> Vec<usize> {
    let fields = source.schema().fields().iter().enumerate();
    let dimensions = fields.filter(|(column, field)| {
        let is_marked = field.metadata().contains_key(DIMENSION);
        is_marked || source.column_kind(*column) == ColumnKind::Known
    });
    dimensions.map(|(column, _)| column).collect()
}

/// The only value column of a table, which therefore describes the table; `None` if there are
/// several.
pub(super) fn only_values(schema: &Schema) -> Option<&Field> {
    let fields = schema.fields().iter();
    let mut values = fields.filter(|field| dataset(field).is_some());
    let first = values.next()?;
    values.next().is_none().then_some(first.as_ref())
}
