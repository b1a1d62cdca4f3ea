//! Checks dataset descriptions against the limits of the format, which the reference enforces.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::array::{DatasetSpec, checked_product};
use crate::format::tet::limits::{MAX_ATTRIBUTES, MAX_LABELS, MAX_TEXT, is_allowed};
use crate::format::tet::superblock::MAX_RANK;

/// Checks that a dataset can be written as described, and that the reference would read it.
pub(super) fn check(spec: &DatasetSpec, path: &Path) -> Result<()> {
    let invalid =
        |message: String| Error::invalid(path, format!("dataset \"{}\": {message}", spec.name));
    if spec.name.is_empty() {
        return Err(Error::invalid(path, "a dataset's name is empty"));
    }
    if spec.shape.len() != spec.chunk_shape.len() || !(1..=MAX_RANK).contains(&spec.shape.len()) {
        return Err(invalid(format!(
            "shape {:?} and chunk shape {:?} must have the same 1 to 8 dimensions",
            spec.shape, spec.chunk_shape
        )));
    }
    if spec.shape.contains(&0) || spec.chunk_shape.contains(&0) {
        return Err(invalid(format!(
            "shape {:?} and chunk shape {:?} must be above zero",
            spec.shape, spec.chunk_shape
        )));
    }
    if checked_product(&spec.shape)
        .and_then(|cells| cells.checked_mul(spec.dtype.size()))
        .is_none()
    {
        return Err(invalid(format!("shape {:?} is too large", spec.shape)));
    }
    if spec.dtype.tag().is_none() {
        return Err(invalid(format!(
            "element type {}, but .tet files store f16 to f64, i16 to i64, and u8 to u64",
            spec.dtype
        )));
    }
    let names = &spec.metadata.dim_names;
    if !names.is_empty() && names.len() != spec.shape.len() {
        return Err(invalid(format!(
            "{} dimension names for {} dimensions",
            names.len(),
            spec.shape.len()
        )));
    }
    // Readers could not tell columns with the same name apart.
    if let Some(repeated) = (1..names.len()).find(|n| names[..*n].contains(&names[*n])) {
        return Err(invalid(format!(
            "two dimensions are called \"{}\"",
            names[repeated]
        )));
    }
    let attributes = &spec.metadata.attrs;
    if attributes.len() > MAX_ATTRIBUTES {
        return Err(invalid(format!(
            "{} attributes; the format allows {MAX_ATTRIBUTES}",
            attributes.len()
        )));
    }
    let labels = spec.metadata.coords.iter();
    let texts = labels
        .flat_map(|(axis, labels)| std::iter::once(axis).chain(&labels.labels))
        .chain(attributes.iter().flat_map(|(key, value)| [key, value]))
        .chain(names);
    if let Some(text) = texts.into_iter().find(|text| !is_allowed(text)) {
        return Err(invalid(text_limit(text)));
    }
    for (axis, labels) in &spec.metadata.coords {
        if labels.labels.len() > MAX_LABELS {
            return Err(invalid(format!(
                "{} labels on axis \"{axis}\"; the format allows {MAX_LABELS}, longer axes keep their \
                     coordinates in a dataset of their own",
                labels.labels.len()
            )));
        }
        let position = names
            .iter()
            .position(|name| name == axis)
            .or_else(|| axis.parse().ok());
        let extent = position.and_then(|position| spec.shape.get(position));
        if extent != Some(&(labels.labels.len() as u64)) {
            let extent = extent.map_or("is not an axis of the dataset".to_string(), |extent| {
                format!("has length {extent}")
            });
            return Err(invalid(format!(
                "{} labels on axis \"{axis}\", which {extent}",
                labels.labels.len()
            )));
        }
    }
    Ok(())
}

/// Returns the message for a string that is not allowed.
pub(super) fn text_limit(text: &str) -> String {
    let start: String = text.chars().take(20).collect();
    format!(
        "a text of {} bytes, \"{start}\", in the metadata; the format allows 1 to {MAX_TEXT}",
        text.len()
    )
}
