//! Descriptions of datasets to be written.

use crate::format::array::dataset::Dataset;
use crate::format::array::dtype::Dtype;
use crate::format::array::metadata::{AxisLabels, DatasetMetadata};

/// The compression of a dataset's chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Uncompressed cells, which a reader can memory-map without copying.
    #[default]
    Raw,
    /// One zstd frame per chunk.
    Zstd {
        /// The zstd level; zstd's own default is 3.
        level: i32,
    },
}

impl Compression {
    /// Zstd at its default level.
    pub const ZSTD: Self = Self::Zstd { level: 3 };
}

/// The limits of a format on one dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of dimensions.
    pub dimensions: usize,
    /// Maximum number of attributes.
    pub attributes: usize,
    /// Maximum length of a string of the metadata, in bytes.
    pub text_bytes: usize,
    /// Maximum number of labels of an axis; 0 if the format has no labels.
    pub labels: usize,
    /// `true` if cells may be of type [`Dtype::I8`].
    pub allow_i8: bool,
}

impl Limits {
    /// No limits, and no labels.
    pub const NONE: Self = Self {
        dimensions: usize::MAX,
        attributes: usize::MAX,
        text_bytes: usize::MAX,
        labels: 0,
        allow_i8: true,
    };

    /// Returns `true` if the format can store this string as metadata.
    pub fn allow_text(&self, text: &str) -> bool {
        (1..=self.text_bytes).contains(&text.len())
    }
}

/// The description of a dataset to be written.
///
/// ```
/// use tet_sql::format::array::{Compression, DatasetSpec, Dtype};
///
/// let spec = DatasetSpec::new("t2m", Dtype::F32, &[8760, 721, 1440], &[24, 181, 360])
///     .with_dim_names(["time", "latitude", "longitude"])
///     .with_attribute("units", "K")
///     .with_compression(Compression::ZSTD);
/// assert_eq!(spec.name(), "t2m");
/// ```
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
    /// Describes an uncompressed dataset of `shape` cells in chunks of `chunk_shape` cells.
    ///
    /// The chunk shape need not divide the shape.
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

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the compression of the chunks.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Returns the described dataset. `number` is its index among the datasets of the file.
    pub fn dataset(&self, number: usize) -> Dataset {
        Dataset::new(
            number,
            &self.name,
            self.dtype,
            &self.shape,
            &self.chunk_shape,
        )
    }

    /// Returns the metadata.
    pub fn metadata(&self) -> &DatasetMetadata {
        &self.metadata
    }

    /// Replaces all metadata.
    pub fn with_metadata(mut self, metadata: DatasetMetadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the compression of the chunks.
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the dimension names.
    pub fn with_dim_names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.metadata.dim_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Labels an axis, given by dimension name or number in decimal: one label per index, at most
    /// 64.
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
