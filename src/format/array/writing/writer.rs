//! Writers of array files of any format.

use std::borrow::Cow;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::array::boxes::copy_chunk;
use crate::format::array::dataset::Dataset;
use crate::format::array::walk::next_indices;

/// A chunk to be written.
#[derive(Debug, Clone)]
pub struct ChunkCells<'a> {
    /// The indices of the chunk in the chunk grid.
    pub chunk: Vec<u64>,
    /// The cells of the chunk, clipped to the shape, row-major and little-endian.
    pub cells: Cow<'a, [u8]>,
}

/// The fewest bytes of cells for which starting threads takes less time than it saves.
const THREADED_BYTES: usize = 256 << 10;

/// Returns the number of threads on which to compress chunks, of at most `threads`.
pub(crate) fn threads_for(chunks: &[ChunkCells<'_>], threads: usize) -> usize {
    let mut bytes = 0;
    let mut sizes = chunks.iter().map(|one| one.cells.len());
    let is_enough = sizes.any(|size| {
        bytes += size;
        bytes >= THREADED_BYTES
    });
    match is_enough {
        true => threads,
        false => 1,
    }
}

/// Writes one file of arrays under a temporary name, and gives it the target's name at the end.
///
/// Dropping an unfinished writer deletes what it has written.
pub trait ArrayWriter: Send {
    /// Returns the path of the target.
    fn path(&self) -> &Path;

    /// Returns the dataset with an index, in the order in which the datasets were described.
    fn dataset(&self, number: usize) -> Option<&Dataset>;

    /// Writes one chunk: its cells clipped to the shape, row-major and little-endian.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such chunk, `cells` has the wrong length, or the chunk was
    /// written before; [`Error::Io`] if the chunk cannot be written.
    fn write_chunk(&mut self, dataset: usize, chunk: &[u64], cells: &[u8]) -> Result<()>;

    /// Writes several chunks of a dataset, in the order given. Formats that compress chunks do so on up to
    /// `threads` threads.
    ///
    /// # Errors
    /// Returns the errors of [`Self::write_chunk`].
    fn write_chunks(
        &mut self,
        dataset: usize,
        chunks: &[ChunkCells<'_>],
        threads: usize,
    ) -> Result<()> {
        let _ = threads;
        let mut chunks = chunks.iter();
        chunks.try_for_each(|one| self.write_chunk(dataset, &one.chunk, &one.cells))
    }

    /// Returns warnings about values that the format could not represent, in the chunks so far.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Completes the file and gives it the target's name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a chunk was never written; the target is then left untouched.
    fn finish(self: Box<Self>) -> Result<()>;

    /// Writes a whole dataset from its cells, row-major and little-endian.
    ///
    /// # Errors
    /// Returns the errors of [`Self::write_chunk`].
    fn write_dataset(&mut self, dataset: usize, cells: &[u8]) -> Result<()> {
        let Some(described) = self.dataset(dataset).cloned() else {
            let message = format!("no dataset with index {dataset}");
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
            if !next_indices(&mut chunk, &grid) {
                return Ok(());
            }
        }
    }
}
