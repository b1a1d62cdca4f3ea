//! What there is to know about a table, for people and for tools.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

/// A table: its dimensions, its value columns, and how it is stored.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TableDescription {
    /// Name within the file.
    pub name: String,
    /// Format: `tet`.
    pub format: &'static str,
    /// The file.
    pub location: String,
    /// The dimensions, in order.
    pub dimensions: Vec<DimensionDescription>,
    /// The value columns; one for a dataset.
    pub attributes: Vec<AttributeDescription>,
    /// Cells per chunk along each dimension.
    pub chunk_shape: Vec<u64>,
    /// Chunks of the grid; `None` if there are 2^64 or more.
    pub chunks: Option<u64>,
    /// The codecs of its chunks: `raw`, `zstd`.
    pub codecs: Vec<String>,
    /// Bytes in the file.
    pub stored_bytes: u64,
    /// Bytes of the cells; `None` if there are 2^64 or more.
    pub raw_bytes: Option<u64>,
    /// What kept part of the above from being found out, such as chunks that the index does not have.
    pub problems: Vec<String>,
}

/// One dimension of a table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DimensionDescription {
    /// Column name.
    pub name: String,
    /// Positions along the axis.
    pub extent: u64,
    /// Type of the coordinates.
    pub data_type: DataType,
    /// Least and greatest coordinate; `None` for an axis of length zero.
    pub range: Option<(ScalarValue, ScalarValue)>,
    /// Where the coordinates come from.
    pub source: String,
}

/// One chunk of an array, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkDescription {
    /// How the cells are encoded: `raw`, `zstd`, or the name of a format that decodes them in its own way.
    pub codec: String,
    /// Where the stored bytes start in the file, if they lie there in one piece.
    pub offset: Option<u64>,
    /// Bytes in the file.
    pub stored_bytes: u64,
    /// Bytes of the cells.
    pub raw_bytes: u64,
}

/// One value column of a table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AttributeDescription {
    /// Column name.
    pub name: String,
    /// Type in the file, such as `f32`.
    pub stored_type: String,
    /// Type of the column.
    pub data_type: DataType,
    /// The fill value, if it has one that its type can hold.
    pub fill: Option<String>,
    /// `units`, `long_name`, ...
    pub metadata: BTreeMap<String, String>,
}
