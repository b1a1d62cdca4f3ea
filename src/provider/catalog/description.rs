//! Descriptions of tables, for people and for tools.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;

use crate::grid::{Axis, IndexSet};
use crate::provider::planning::axis_bounds::axis_range;

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
    /// The codecs of the chunks: `raw`, `zstd`, `bytes, blosc`.
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

impl DimensionDescription {
    /// Describes an axis. The reason why its range is unknown is added to `problems`.
    pub fn of(axis: &Axis, problems: &mut Vec<String>) -> Self {
        let range = match axis_range(axis, &IndexSet::all(axis.length())) {
            Ok(range) => range,
            Err(error) => {
                problems.push(error.to_string());
                None
            }
        };
        Self {
            name: axis.name().to_string(),
            extent: axis.length(),
            data_type: axis.data_type(),
            range,
            source: axis.source().to_string(),
        }
    }
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

impl ChunkDescription {
    /// Describes a chunk of this many bytes that is stored as its cells, or by a format's own codec.
    pub fn new(codec: impl Into<String>, bytes: u64) -> Self {
        Self {
            codec: codec.into(),
            offset: None,
            stored_bytes: bytes,
            raw_bytes: bytes,
        }
    }
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

impl AttributeDescription {
    /// Describes a value column without a fill value.
    pub fn new(field: &Field, stored_type: impl Into<String>) -> Self {
        Self {
            name: field.name().clone(),
            stored_type: stored_type.into(),
            data_type: field.data_type().clone(),
            fill: None,
            metadata: field.metadata().clone().into_iter().collect(),
        }
    }
}
