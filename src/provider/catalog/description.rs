//! Descriptions of tables, for people and for tools.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

/// A table: its dimensions, its value columns, and how it is stored.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TableDescription {
    /// The name within the file.
    pub name: String,
    /// The format: `tet`.
    pub format: &'static str,
    /// The path of the file, or a text that stands for several files.
    pub location: String,
    /// The dimensions, in order.
    pub dimensions: Vec<DimensionDescription>,
    /// The value columns; exactly one for a dataset.
    pub attributes: Vec<AttributeDescription>,
    /// The number of cells per chunk along each dimension.
    pub chunk_shape: Vec<u64>,
    /// The number of chunks; `None` if 2^64 or more.
    pub chunks: Option<u64>,
    /// The codecs of the chunks: `raw`, `zstd`.
    pub codecs: Vec<String>,
    /// The number of bytes that the chunks occupy in the file.
    pub stored_bytes: u64,
    /// The number of bytes of the decoded cells; `None` if 2^64 or more.
    pub raw_bytes: Option<u64>,
    /// Problems that make the description incomplete, such as chunks missing from the index.
    pub problems: Vec<String>,
}

impl TableDescription {
    /// Creates the description of a table without dimensions. Leaves out its blocks.
    pub fn new(name: impl Into<String>, format: &'static str, location: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            format,
            location: location.into(),
            dimensions: Vec::new(),
            attributes: Vec::new(),
            chunk_shape: Vec::new(),
            chunks: None,
            codecs: Vec::new(),
            stored_bytes: 0,
            raw_bytes: None,
            problems: Vec::new(),
        }
    }
}

/// One dimension of a table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DimensionDescription {
    /// The name of the column.
    pub name: String,
    /// The length of the axis.
    pub extent: u64,
    /// The type of the coordinates.
    pub data_type: DataType,
    /// The min and max coordinate; `None` for an axis of length zero, or one with a NaN coordinate.
    pub range: Option<(ScalarValue, ScalarValue)>,
    /// The source of the coordinates.
    pub source: String,
}

/// One stored chunk of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkDescription {
    /// The encoding of the cells: `raw`, `zstd`, or the name of a format that decodes cells in its
    /// own way.
    pub codec: String,
    /// The offset of the stored bytes in the file, if they are contiguous.
    pub offset: Option<u64>,
    /// The number of bytes in the file.
    pub stored_bytes: u64,
    /// The number of bytes of the decoded cells.
    pub raw_bytes: u64,
}

/// One value column of a table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AttributeDescription {
    /// The name of the column.
    pub name: String,
    /// The type in the file, such as `f32`.
    pub stored_type: String,
    /// The type of the column.
    pub data_type: DataType,
    /// The fill value, if there is one that the stored type can hold.
    pub fill: Option<String>,
    /// Attributes such as `units` and `long_name`.
    pub metadata: BTreeMap<String, String>,
}
