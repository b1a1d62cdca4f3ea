//! The names and attributes of the datasets that `COPY` makes from columns.

use std::collections::BTreeMap;

use arrow::datatypes::Field;

use crate::format::array::{DatasetMetadata, FILL_ATTRIBUTES, Limits};
use crate::provider::adapters::arrays::{MEANINGFUL, UNPACK_ATTRIBUTES, base};
use crate::provider::copy::arrays::sink::ArraySink;
use crate::provider::source::DATASET;

/// The name of the value column of tables with a single dataset. A dataset made from such a column
/// takes its name from the source dataset instead, if there is one.
const VALUE: &str = "value";
/// Attributes that are not copied. `coordinates` names variables of the source file.
const NOT_COPIED: [&str; 1] = ["coordinates"];
const FILL_VALUE: &str = "_FillValue";

impl ArraySink {
    /// Returns the name of the dataset made from a column.
    pub fn dataset(&self, field: &Field) -> String {
        if let Some(name) = &self.options.dataset {
            return name.clone();
        }
        let comes_from = field.metadata().get(DATASET).map(|name| base(name));
        match comes_from {
            // The table of a coordinate variable has a dimension of the same name, whose
            // coordinates become a dataset of that name. The column then keeps the name `value`.
            Some(name)
                if field.name() == VALUE
                    && !name.is_empty()
                    && self.schema.index_of(name).is_err() =>
            {
                name.to_string()
            }
            _ => field.name().clone(),
        }
    }

    /// Returns the attributes of the dataset made from the column with this index. Attributes in the
    /// options override those of the column.
    pub fn metadata(&self, number: usize, dataset: &str) -> DatasetMetadata {
        let field = self.schema.field(number);
        let mut metadata = DatasetMetadata::default();
        // A scan drops these attributes when it unpacks. Integers that still have them are packed, and so
        // are unchanged floats of a `DESCRIBED` format.
        let origin = self.origins.get(number);
        let is_packed =
            field.data_type().is_integer() || origin.is_some_and(|origin| origin.is_described);
        let limits = self.creator.limits();
        metadata.attrs = carried(field, &limits);
        metadata.attrs.retain(|key, _| {
            let is_stale = !is_packed && UNPACK_ATTRIBUTES.contains(&key.as_str());
            !(is_stale || NOT_COPIED.contains(&key.as_str()))
        });
        // Leave room for a fill value.
        while metadata.attrs.len() >= limits.attributes {
            // Attributes that define the meaning of cells are kept.
            let is_kept = |key: &str| MEANINGFUL.contains(&key) || FILL_ATTRIBUTES.contains(&key);
            let mut keys = metadata.attrs.keys().rev();
            let Some(last) = keys.find(|key| !is_kept(key)).cloned() else {
                break;
            };
            metadata.attrs.remove(&last);
        }
        // Insert the attributes for all datasets first, so that those for a single dataset override
        // them.
        let attributes = self.options.attributes.iter();
        let found = attributes.filter_map(|(key, value)| {
            let name = attribute_of(key, dataset, field.name())?;
            Some((name.len() < key.len(), name, value))
        });
        let mut found: Vec<_> = found.collect();
        found.sort();
        for (_, name, value) in found {
            // DataFusion converts option names to lower case.
            let name = match name.eq_ignore_ascii_case(FILL_VALUE) {
                true => FILL_VALUE,
                false => name,
            };
            metadata.attrs.insert(name.to_string(), value.clone());
        }
        metadata
    }
}

/// Returns the attributes of a column, without the metadata that belongs to Arrow, Parquet or this
/// crate.
pub fn carried(field: &Field, limits: &Limits) -> BTreeMap<String, String> {
    let attributes = field.metadata().iter().filter(|(key, text)| {
        let is_ours = key.starts_with("tet:") || key.starts_with("tetration_");
        let is_engine = key.starts_with("ARROW:") || key.starts_with("PARQUET:");
        !is_ours && !is_engine && limits.allow_text(key) && limits.allow_text(text)
    });
    attributes
        .map(|(key, text)| (key.clone(), text.clone()))
        .collect()
}

/// Returns the name of the attribute that an option sets for a dataset or its column, if it does.
/// The option is `NAME` or `DATASET.NAME`.
pub fn attribute_of<'a>(key: &'a str, dataset: &str, column: &str) -> Option<&'a str> {
    let mut names = [dataset, column];
    // The longer name is the more specific prefix.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let of_name = names.into_iter().find_map(|name| {
        let (head, rest) = key.split_at_checked(name.len())?;
        let rest = rest.strip_prefix('.')?;
        head.eq_ignore_ascii_case(name).then_some(rest)
    });
    of_name.or_else(|| (!key.contains('.')).then_some(key))
}
