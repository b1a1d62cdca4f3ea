//! Writing a file of arrays, whatever its format.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::array::boxes::copy_chunk;
use crate::format::array::dataset::Dataset;
use crate::format::array::walk::next_position;

/// Writes one file of arrays: beside the target under a temporary name, and renamed in the end. A writer that is dropped
/// before leaves nothing behind.
pub trait ArrayWriter: Send {
    /// The target.
    fn path(&self) -> &Path;

    /// The dataset of a number, in the order in which they were described.
    fn dataset(&self, number: usize) -> Option<&Dataset>;

    /// Writes one chunk: its cells within the shape, row-major, little-endian.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such chunk, its cells have another length, or it was written before;
    /// [`Error::Io`] if it cannot be written.
    fn write_chunk(&mut self, dataset: usize, chunk: &[u64], cells: &[u8]) -> Result<()>;

    /// What could not be kept of the chunks so far.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a chunk was never written; the target is untouched then.
    fn finish(self: Box<Self>) -> Result<()>;

    /// Writes a whole dataset from its cells, row-major and little-endian.
    ///
    /// # Errors
    /// As [`Self::write_chunk`].
    fn write_dataset(&mut self, dataset: usize, cells: &[u8]) -> Result<()> {
        let Some(described) = self.dataset(dataset).cloned() else {
            let message = format!("no dataset number {dataset}");
            return Err(Error::invalid(self.path(), message));
        };
        let size = described.check(self.path())?.size();
        let expected = described.shape.iter().product::<u64>() * size;
        if cells.len() as u64 != expected {
            return Err(Error::invalid(
                self.path(),
                format!(
                    "dataset \"{}\": {} bytes of cells, expected {expected}",
                    described.name,
                    cells.len()
                ),
            ));
        }
        if cells.is_empty() {
            return Ok(());
        }
        let grid = described.chunk_grid();
        let mut chunk = vec![0; grid.len()];
        let mut buffer = Vec::new();
        loop {
            copy_chunk(&described, size, &chunk, cells, &mut buffer);
            self.write_chunk(dataset, &chunk, &buffer)?;
            if !next_position(&mut chunk, &grid) {
                return Ok(());
            }
        }
    }
}
