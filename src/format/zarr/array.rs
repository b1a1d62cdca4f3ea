//! One array of a hierarchy, as callers see it.

use crate::format::array::{DatasetMetadata, DescribedAxis, Dtype};
use crate::format::zarr::metadata::Description;

/// An array of a hierarchy: its name, element type, shape, chunk grid and metadata.
#[derive(Debug)]
pub struct ZarrArray {
    pub(super) name: String,
    pub(super) metadata: DatasetMetadata,
    pub(super) axes: Vec<DescribedAxis>,
    pub(super) description: Description,
    /// The code of each cell, if the cells are strings.
    pub(super) codes: Option<Vec<u8>>,
}

impl ZarrArray {
    /// Returns the path within the hierarchy, without a leading slash, such as `forecast/t2m`.
    ///
    /// If the hierarchy is a single array, the array is named after the stem of the directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type that cells are read as.
    ///
    /// Booleans are `u8`, 0 or 1. Instants and durations are `i64` in the unit of the attribute
    /// `units`. Strings are `i64` codes; the attribute
    /// `tetration_categories` and its continuations hold the string of each code.
    pub fn dtype(&self) -> Dtype {
        self.description.element.dtype
    }

    /// Returns the number of cells along each dimension; empty for a scalar.
    pub fn shape(&self) -> &[u64] {
        &self.description.shape
    }

    /// Returns the number of cells per chunk along each dimension, none of them zero.
    ///
    /// In a sharded array, these are the chunks within a shard. Chunks at the border are clipped to
    /// the shape, and a chunk extent may exceed the shape.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.description.chunk_shape
    }

    /// Returns the number of chunks along each dimension.
    pub fn chunk_grid(&self) -> Vec<u64> {
        let axes = self.shape().iter().zip(self.chunk_shape());
        axes.map(|(extent, chunk)| extent.div_ceil(*chunk))
            .collect()
    }

    /// Returns the attributes as text, and the dimension names, but never labels.
    ///
    /// Numbers and booleans are formatted as JSON, and so are lists, except that a list of one
    /// element becomes that element. Null attributes are left out. `_FillValue` is present if a
    /// value stands for null by the rules of xarray.
    pub fn metadata(&self) -> &DatasetMetadata {
        &self.metadata
    }

    /// Returns a description of each axis of an array that belongs to an OME-Zarr image; empty for other
    /// arrays.
    pub fn described_axes(&self) -> &[DescribedAxis] {
        &self.axes
    }

    /// Returns the names of the codecs, such as `transpose, bytes, zstd`.
    pub fn codecs(&self) -> &str {
        &self.description.codecs
    }

    /// Returns the version of Zarr that the array is written in: 2 or 3.
    pub fn zarr_version(&self) -> u8 {
        self.description.zarr_version
    }
}
