//! Statistics and indexes of chunks, as far as a file stores them.

use std::fmt::Debug;

use crate::format::array::dataset::Dataset;

/// Chunks per word of a bitmap.
pub(crate) const WORD: u64 = u64::BITS as u64;

/// The statistics of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSummary {
    /// The number of cells of the chunk, clipped to the shape of the dataset.
    pub elements: u64,
    /// The number of cells that are NaN or the fill value.
    pub nulls: u64,
    /// The min and max of all other cells, as zero-extended bit patterns. `None` if all cells are
    /// null. Integers are ordered numerically, floats by the IEEE 754 total order, in which -0
    /// comes before +0.
    pub range: Option<(u64, u64)>,
}

/// The stored statistics of a file's chunks.
pub trait ChunkStatistics: Debug + Send + Sync {
    /// Returns the statistics of a chunk, if they are known. `dataset` must be one of the file's
    /// datasets.
    fn summary(&self, dataset: &Dataset, chunk: &[u64]) -> Option<ChunkSummary>;

    /// Returns `true` if the statistics of all chunks of `dataset` are known. `dataset` must be one
    /// of the file's datasets.
    fn is_complete(&self, dataset: &Dataset) -> bool;
}

/// An index from the values of datasets to the chunks that contain them.
pub trait ValueIndex: Debug + Send + Sync {
    /// Returns the postings of a dataset, if it is indexed. `dataset` must be one of the file's
    /// datasets.
    fn of(&self, dataset: &Dataset) -> Option<&DatasetPostings>;
}

/// The distinct values of a dataset, without NaN and the fill value, and the chunks that contain
/// each.
#[derive(Debug, Default)]
pub struct DatasetPostings {
    /// Zero-extended bit patterns, ascending as unsigned integers.
    values: Vec<u64>,
    /// For each value, a bitmap over the chunks in row-major order.
    chunks: Vec<Vec<u64>>,
}

impl DatasetPostings {
    /// The zero-extended bit patterns of all distinct values except NaN and the fill value,
    /// ascending as unsigned integers. Values that are equal but differ in their bits, such as -0
    /// and +0, are listed separately.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// Returns `true` if the chunk with the row-major ordinal `ordinal` contains the bit pattern
    /// `value`.
    pub fn contains(&self, value: u64, ordinal: u64) -> bool {
        let position = self.values.binary_search(&value);
        position.is_ok_and(|position| self.contains_nth(position, ordinal))
    }

    /// Like [`Self::contains`], for the value at an index of [`Self::values`].
    pub fn contains_nth(&self, position: usize, ordinal: u64) -> bool {
        let word = usize::try_from(ordinal / WORD).ok();
        let chunks = self.chunks.get(position);
        let word = chunks.and_then(|chunks| chunks.get(word?));
        word.is_some_and(|word| word >> (ordinal % WORD) & 1 != 0)
    }

    /// Adds a value with its bitmap of chunks. Returns `false` if the value is already listed.
    pub(crate) fn insert(&mut self, value: u64, chunks: Vec<u64>) -> bool {
        match self.values.binary_search(&value) {
            Ok(_) => false,
            Err(position) => {
                self.values.insert(position, value);
                self.chunks.insert(position, chunks);
                true
            }
        }
    }
}
