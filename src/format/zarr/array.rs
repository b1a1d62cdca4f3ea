//! One array of a hierarchy, as callers see it.

use crate::format::array::{DatasetMetadata, Dtype};
use crate::format::zarr::metadata::Description;

/// An array of a hierarchy: its name, element type, shape and chunk grid, and what it means.
#[derive(Debug)]
pub struct ZarrArray {
    pub(super) name: String,
    pub(super) metadata: DatasetMetadata,
    pub(super) description: Description,
    /// The code of each cell, if the cells are texts.
    pub(super) codes: Option<Vec<i64>>,
}

impl ZarrArray {
    /// The path within the hierarchy, without a leading slash (`forecast/t2m`). An array that is a hierarchy
    /// by itself is called after its folder's stem.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type that cells are read in. Booleans are `u8`, 0 or 1; `int8` is widened to `i16`; instants and
    /// durations are `i64` in the unit of the attribute `units`; texts are `i64` codes, with their texts in
    /// the attribute `tetration_categories` and those that continue it.
    pub fn dtype(&self) -> Dtype {
        self.description.element.dtype
    }

    /// Cells along each dimension; empty for a single number.
    pub fn shape(&self) -> &[u64] {
        &self.description.shape
    }

    /// Cells per chunk along each dimension, none of them zero: of what is best read at once, which is a
    /// chunk of a shard where there are shards. Chunks at the border are clipped to the shape, and a chunk
    /// extent may exceed the shape.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.description.chunk_shape
    }

    /// Chunks along each dimension.
    pub fn chunk_grid(&self) -> Vec<u64> {
        let axes = self.shape().iter().zip(self.chunk_shape());
        axes.map(|(extent, chunk)| extent.div_ceil(*chunk))
            .collect()
    }

    /// Attributes as text, and the dimensions' names; never labels.
    ///
    /// Numbers and booleans are what JSON prints, lists are JSON but for those of one element, which are that
    /// element; what is null is left out. `_FillValue` is there if a value stands for missing cells, by the
    /// rules of xarray.
    pub fn metadata(&self) -> &DatasetMetadata {
        &self.metadata
    }

    /// The names of the codecs, such as `transpose, bytes, zstd`.
    pub fn codecs(&self) -> &str {
        &self.description.codecs
    }

    /// The version of Zarr that the array is written in: 2 or 3.
    pub fn zarr_version(&self) -> u8 {
        self.description.zarr_version
    }
}
