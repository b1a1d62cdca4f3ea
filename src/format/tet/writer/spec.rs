//! What is to be written: datasets and their metadata, within the limits that the reference checks.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::tet::dataset::checked_product;
use crate::format::tet::dtype::Dtype;
use crate::format::tet::footer::{AxisLabels, DatasetMetadata};
use crate::format::tet::limits::{MAX_ATTRIBUTES, MAX_LABELS, MAX_TEXT, is_allowed};
use crate::format::tet::superblock::MAX_RANK;

/// How the chunks of a dataset are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// The cells themselves, which a reader maps without copying.
    #[default]
    Raw,
    /// One zstd frame per chunk.
    Zstd {
        /// The zstd level; 3 is zstd's own default.
        level: i32,
    },
}

/// A dataset to be written.
#[derive(Debug, Clone)]
pub struct DatasetSpec {
    pub(in crate::format) name: String,
    pub(in crate::format) dtype: Dtype,
    pub(in crate::format) shape: Vec<u64>,
    pub(in crate::format) chunk_shape: Vec<u64>,
    pub(in crate::format) compression: Compression,
    pub(in crate::format) metadata: DatasetMetadata,
}

impl DatasetSpec {
    /// A raw dataset of `shape` cells in chunks of `chunk_shape` cells, which need not divide the shape.
    pub fn new(name: impl Into<String>, dtype: Dtype, shape: &[u64], chunk_shape: &[u64]) -> Self {
        Self {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
            chunk_shape: chunk_shape.to_vec(),
            compression: Compression::default(),
            metadata: DatasetMetadata::default(),
        }
    }

    /// Stores the chunks like this.
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Names the dimensions.
    pub fn with_dim_names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.metadata.dim_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Labels an axis, given by dimension name or decimal number: one label per position, at most 64.
    pub fn with_labels<S: Into<String>>(
        mut self,
        axis: &str,
        labels: impl IntoIterator<Item = S>,
    ) -> Self {
        let labels = labels.into_iter().map(Into::into).collect();
        self.metadata
            .coords
            .insert(axis.to_string(), AxisLabels { labels });
        self
    }

    /// Adds an attribute such as `units` or `_FillValue`.
    pub fn with_attribute(mut self, key: &str, value: &str) -> Self {
        self.metadata
            .attrs
            .insert(key.to_string(), value.to_string());
        self
    }

    /// Whether the dataset can be written as described, and the reference would read it.
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        let invalid =
            |message: String| Error::invalid(path, format!("dataset \"{}\": {message}", self.name));
        if self.name.is_empty() {
            return Err(Error::invalid(path, "a dataset's name is empty"));
        }
        if self.shape.len() != self.chunk_shape.len() || !(1..=MAX_RANK).contains(&self.shape.len())
        {
            return Err(invalid(format!(
                "shape {:?} and chunk shape {:?} must have the same 1 to 8 dimensions",
                self.shape, self.chunk_shape
            )));
        }
        if self.shape.contains(&0) || self.chunk_shape.contains(&0) {
            return Err(invalid(format!(
                "shape {:?} and chunk shape {:?} must be above zero",
                self.shape, self.chunk_shape
            )));
        }
        if checked_product(&self.shape)
            .and_then(|cells| cells.checked_mul(self.dtype.size()))
            .is_none()
        {
            return Err(invalid(format!("shape {:?} is too large", self.shape)));
        }
        let names = &self.metadata.dim_names;
        if !names.is_empty() && names.len() != self.shape.len() {
            return Err(invalid(format!(
                "{} dimension names for {} dimensions",
                names.len(),
                self.shape.len()
            )));
        }
        // A reader could not tell the columns apart.
        if let Some(repeated) = (1..names.len()).find(|n| names[..*n].contains(&names[*n])) {
            return Err(invalid(format!(
                "two dimensions are called \"{}\"",
                names[repeated]
            )));
        }
        let attributes = &self.metadata.attrs;
        if attributes.len() > MAX_ATTRIBUTES {
            return Err(invalid(format!(
                "{} attributes; the format allows {MAX_ATTRIBUTES}",
                attributes.len()
            )));
        }
        let labels = self.metadata.coords.iter();
        let texts = labels
            .flat_map(|(axis, labels)| std::iter::once(axis).chain(&labels.labels))
            .chain(attributes.iter().flat_map(|(key, value)| [key, value]))
            .chain(names);
        if let Some(text) = texts.into_iter().find(|text| !is_allowed(text)) {
            return Err(invalid(text_limit(text)));
        }
        for (axis, labels) in &self.metadata.coords {
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
            let extent = position.and_then(|position| self.shape.get(position));
            if extent != Some(&(labels.labels.len() as u64)) {
                let extent = extent.map_or("is none of the dataset's".to_string(), |extent| {
                    format!("has {extent} positions")
                });
                return Err(invalid(format!(
                    "{} labels on axis \"{axis}\", which {extent}",
                    labels.labels.len()
                )));
            }
        }
        Ok(())
    }
}

/// What to say of a text that is not allowed.
pub(super) fn text_limit(text: &str) -> String {
    let start: String = text.chars().take(20).collect();
    format!(
        "a text of {} bytes, \"{start}\", in the metadata; the format allows 1 to {MAX_TEXT}",
        text.len()
    )
}
