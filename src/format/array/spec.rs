//! What is to be written: datasets and their metadata.

use crate::format::array::dataset::Dataset;
use crate::format::array::dtype::Dtype;
use crate::format::array::metadata::{AxisLabels, DatasetMetadata};

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

impl Compression {
    /// Zstd at its own default level.
    pub const ZSTD: Self = Self::Zstd { level: 3 };
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

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dataset, with its place among those of its file.
    pub(crate) fn dataset(&self, number: usize) -> Dataset {
        Dataset::new(
            number,
            &self.name,
            self.dtype,
            &self.shape,
            &self.chunk_shape,
        )
    }

    /// What is said of the dataset.
    pub fn metadata(&self) -> &DatasetMetadata {
        &self.metadata
    }

    /// Says all of this of the dataset.
    pub fn with_metadata(mut self, metadata: DatasetMetadata) -> Self {
        self.metadata = metadata;
        self
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
}
