//! One dataset of the directory: its name, element type, shape and chunk grid.

use std::path::Path;

use crate::error::{Error, Place, Result};
use crate::format::array::dtype::Dtype;

/// One record of the dataset directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) dtype_tag: u32,
    pub(crate) dtype: Option<Dtype>,
    pub(crate) shape: Vec<u64>,
    pub(crate) chunk_shape: Vec<u64>,
}

impl Dataset {
    /// A dataset of a known type, with its place among those of its file.
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
            dtype_tag: dtype.tag(),
            dtype: Some(dtype),
            shape: shape.to_vec(),
            chunk_shape: chunk_shape.to_vec(),
        }
    }

    /// Position in the directory; the chunk index refers to it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name, slashes and all.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Cells along each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Cells per chunk along each dimension. Chunks at the border are clipped to the shape, and a chunk
    /// extent may exceed the shape.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.chunk_shape
    }

    /// The element type, if the wire tag is a known one.
    pub fn dtype(&self) -> Option<Dtype> {
        self.dtype
    }

    /// The element type, after checking that the record can be read at all: a known type, chunk extents
    /// above zero, and a size that fits 64 bits. One refused dataset leaves the others usable.
    pub fn check(&self, path: &Path) -> Result<Dtype> {
        let place = || Place::dataset(path, &self.name);
        let Some(dtype) = self.dtype else {
            return Err(Error::malformed(
                place(),
                "dtype",
                format!("tag {}", self.dtype_tag),
                "a tag from 1 (f32) to 10 (u64)",
            ));
        };
        if self.chunk_shape.contains(&0) {
            return Err(Error::malformed(
                place(),
                "chunk_shape",
                format!("{:?}", self.chunk_shape),
                "extents above zero",
            ));
        }
        let bytes = checked_product(&self.shape).and_then(|cells| cells.checked_mul(dtype.size()));
        if bytes.is_none() {
            return Err(Error::malformed(
                place(),
                "shape",
                format!("{:?}", self.shape),
                "a size in bytes below 2^64",
            ));
        }
        Ok(dtype)
    }

    /// A dataset of the same type and chunks in another shape.
    pub(crate) fn with_shape(&self, shape: &[u64]) -> Self {
        Self {
            shape: shape.to_vec(),
            ..self.clone()
        }
    }

    /// Chunks along each dimension. Call [`Self::check`] first.
    pub fn chunk_grid(&self) -> Vec<u64> {
        self.shape
            .iter()
            .zip(&self.chunk_shape)
            .map(|(extent, chunk)| extent.div_ceil(*chunk))
            .collect()
    }

    /// Chunks in all, or `None` if the record cannot be read or there are 2^64 or more.
    pub(crate) fn chunk_count(&self) -> Option<u64> {
        if self.chunk_shape.contains(&0) {
            return None;
        }
        checked_product(&self.chunk_grid())
    }

    /// Cells of one chunk of the grid, clipped to the shape. Call [`Self::check`] first.
    pub(crate) fn chunk_cells(&self, chunk: &[u64]) -> u64 {
        chunk
            .iter()
            .zip(self.shape.iter().zip(&self.chunk_shape))
            .map(|(position, (extent, size))| (extent - position * size).min(*size))
            .product()
    }

    /// Where a chunk of the grid starts, and how far it goes, clipped to the shape.
    pub(crate) fn chunk_place(&self, chunk: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let axes = chunk.iter().zip(self.shape.iter().zip(&self.chunk_shape));
        axes.map(|(position, (extent, size))| {
            let start = position * size;
            (start, (extent - start).min(*size))
        })
        .unzip()
    }

    /// Bytes of one chunk's cells, clipped to the shape.
    pub(crate) fn chunk_bytes(&self, dtype: Dtype, chunk: &[u64]) -> u64 {
        self.chunk_cells(chunk) * dtype.size()
    }

    /// Row-major position of a chunk in the chunk grid, or `None` outside it.
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

    /// The chunk at a row-major position of the chunk grid. Call [`Self::check`] first.
    pub(crate) fn chunk_at(&self, ordinal: u64) -> Vec<u64> {
        let mut chunk = self.chunk_grid();
        let mut rest = ordinal;
        for position in chunk.iter_mut().rev() {
            // Only a grid without chunks has none along an axis.
            let count = (*position).max(1);
            *position = rest % count;
            rest /= count;
        }
        chunk
    }
}

/// Product of extents, `None` on overflow; zero if any of them is zero, however large the others.
pub(crate) fn checked_product(extents: &[u64]) -> Option<u64> {
    if extents.contains(&0) {
        return Some(0);
    }
    extents
        .iter()
        .try_fold(1u64, |product, extent| product.checked_mul(*extent))
}
