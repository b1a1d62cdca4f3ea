//! A dataset: its name, element type, shape and chunk grid.

use std::path::Path;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::dtype::Dtype;

/// An array in a file, cut into a regular grid of chunks.
///
/// ```text
/// shape [5, 7], chunk_shape [3, 3], chunk grid [2, 3]
///
/// index     0..3    3..6    6..7
/// 0..3    [0, 0]  [0, 1]  [0, 2]
/// 3..5    [1, 0]  [1, 1]  [1, 2]
/// ```
///
/// Chunks at the border, such as `[1, 2]` with its 2 x 1 cells, are clipped to the shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    pub(crate) id: u64,
    pub(crate) name: String,
    /// The tag of the element type in a `.tet` file; 0 if the type has none.
    pub(crate) dtype_tag: u32,
    pub(crate) dtype: Option<Dtype>,
    pub(crate) shape: Vec<u64>,
    pub(crate) chunk_shape: Vec<u64>,
}

impl Dataset {
    /// Creates a dataset of a known element type. `number` is its index among the datasets of the
    /// file.
    pub(crate) fn new(
        number: usize,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        chunk_shape: &[u64],
    ) -> Self {
        Self {
            id: number as u64,
            name: name.to_string(),
            dtype_tag: dtype.tag().unwrap_or_default(),
            dtype: Some(dtype),
            shape: shape.to_vec(),
            chunk_shape: chunk_shape.to_vec(),
        }
    }

    /// Returns the index among the datasets of the file, by which the chunk index names a dataset.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the full name, including slashes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of cells along each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the number of cells per chunk along each dimension.
    ///
    /// Chunks at the border are clipped to the shape, and a chunk extent may exceed the shape.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.chunk_shape
    }

    /// Returns the element type, or `None` if the file's dtype tag is unknown.
    pub fn dtype(&self) -> Option<Dtype> {
        self.dtype
    }

    /// Checks that the dataset can be read, and returns its element type.
    ///
    /// The element type must be known, the chunk extents above zero, and the size in bytes below
    /// 2^64. A dataset that fails the check does not affect the others of the file.
    pub fn check(&self, path: &Path) -> Result<Dtype> {
        let location = || ErrorLocation::dataset(path, &self.name);
        let Some(dtype) = self.dtype else {
            return Err(Error::malformed(
                location(),
                "dtype",
                format!("tag {}", self.dtype_tag),
                "a tag from 1 (f32) to 10 (u64)",
            ));
        };
        if self.chunk_shape.contains(&0) {
            return Err(Error::malformed(
                location(),
                "chunk_shape",
                format!("{:?}", self.chunk_shape),
                "extents above zero",
            ));
        }
        let bytes = checked_product(&self.shape).and_then(|cells| cells.checked_mul(dtype.size()));
        if bytes.is_none() {
            return Err(Error::malformed(
                location(),
                "shape",
                format!("{:?}", self.shape),
                "a size in bytes below 2^64",
            ));
        }
        Ok(dtype)
    }

    /// Returns the number of chunks along each dimension. Call [`Self::check`] first.
    pub fn chunk_grid(&self) -> Vec<u64> {
        self.shape
            .iter()
            .zip(&self.chunk_shape)
            .map(|(extent, chunk)| extent.div_ceil(*chunk))
            .collect()
    }

    /// Returns the total number of chunks, or `None` if a chunk extent is zero or on overflow.
    pub(crate) fn chunk_count(&self) -> Option<u64> {
        if self.chunk_shape.contains(&0) {
            return None;
        }
        checked_product(&self.chunk_grid())
    }

    /// Returns the number of cells of a chunk, clipped to the shape. Call [`Self::check`] first.
    pub(crate) fn chunk_cells(&self, chunk: &[u64]) -> u64 {
        chunk
            .iter()
            .zip(self.shape.iter().zip(&self.chunk_shape))
            .map(|(position, (extent, size))| (extent - position * size).min(*size))
            .product()
    }

    /// Returns the first index and the extent of a chunk along each axis, clipped to the shape.
    pub(crate) fn chunk_bounds(&self, chunk: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let axes = chunk.iter().zip(self.shape.iter().zip(&self.chunk_shape));
        axes.map(|(position, (extent, size))| {
            let start = position * size;
            (start, (extent - start).min(*size))
        })
        .unzip()
    }

    /// Returns the number of bytes of a chunk's cells, clipped to the shape.
    pub(crate) fn chunk_bytes(&self, dtype: Dtype, chunk: &[u64]) -> u64 {
        self.chunk_cells(chunk) * dtype.size()
    }

    /// Returns the row-major ordinal of a chunk in the chunk grid, or `None` if outside the grid.
    pub(crate) fn chunk_ordinal(&self, chunk: &[u64]) -> Option<u64> {
        let mut ordinal = 0u64;
        for (position, (extent, size)) in chunk.iter().zip(self.shape.iter().zip(&self.chunk_shape))
        {
            let count = extent.div_ceil(*size);
            if *position >= count {
                return None;
            }
            ordinal = ordinal.checked_mul(count)?.checked_add(*position)?;
        }
        Some(ordinal)
    }

    /// Returns the chunk with the given row-major ordinal. Call [`Self::check`] first.
    pub(crate) fn chunk_at(&self, ordinal: u64) -> Vec<u64> {
        let mut chunk = self.chunk_grid();
        let mut rest = ordinal;
        for position in chunk.iter_mut().rev() {
            // An axis without chunks must not cause a division by zero.
            let count = (*position).max(1);
            *position = rest % count;
            rest /= count;
        }
        chunk
    }
}

/// Returns the product of extents, or `None` on overflow.
///
/// The product is zero if any extent is zero, however large the others are.
pub(crate) fn checked_product(extents: &[u64]) -> Option<u64> {
    if extents.contains(&0) {
        return Some(0);
    }
    extents
        .iter()
        .try_fold(1u64, |product, extent| product.checked_mul(*extent))
}
