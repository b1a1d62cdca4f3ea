//! The fragment that a statement writes.

use crate::error::Result;
use crate::format::tiledb::{
    ArrayWriter, DenseCellWriter, SparseWriter, TileBuffers, TileDbArray, WriteOptions,
};

/// Writes one fragment of a dense or a sparse array from cells in any order.
pub(super) enum FragmentWriter {
    Dense {
        writer: DenseCellWriter,
        /// `true` if the cells must fill a box.
        is_complete: bool,
    },
    Sparse(SparseWriter),
}

impl FragmentWriter {
    /// Starts the fragment of a new array. Cells of a dense array that are not written get the fill
    /// value, or null.
    pub fn new(array: &ArrayWriter) -> Result<Self> {
        Ok(match array.schema().is_sparse {
            true => Self::Sparse(SparseWriter::new(array)?),
            false => Self::Dense {
                writer: DenseCellWriter::new(array)?,
                is_complete: false,
            },
        })
    }

    /// Starts a fragment that is added to an array. The cells of a dense fragment must fill a box.
    pub fn append(array: &TileDbArray, options: &WriteOptions) -> Result<Self> {
        Ok(match array.schema().is_sparse {
            true => Self::Sparse(SparseWriter::append(array, options)?),
            false => Self::Dense {
                writer: DenseCellWriter::append(array, options)?,
                is_complete: true,
            },
        })
    }

    /// Adds cells: the columns are the dimensions, followed by the attributes.
    pub fn write(&mut self, cells: usize, columns: &[TileBuffers]) -> Result<()> {
        match self {
            Self::Dense { writer, .. } => writer.write(cells, columns),
            Self::Sparse(writer) => writer.write(cells, columns),
        }
    }

    /// Sorts the cells and commits the fragment.
    pub fn finish(self) -> Result<()> {
        match self {
            Self::Dense {
                writer,
                is_complete,
            } => writer.finish(is_complete)?,
            Self::Sparse(writer) => writer.finish()?,
        };
        Ok(())
    }
}
