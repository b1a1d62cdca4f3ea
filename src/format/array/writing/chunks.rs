//! Tracks which chunks of a file under construction have been written.

use std::collections::HashSet;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::array::dataset::Dataset;
use crate::format::array::writing::writer::ChunkCells;

/// The datasets of a file under construction, and a value for each chunk written so far.
#[derive(Debug)]
pub(crate) struct Chunks<T> {
    datasets: Vec<Dataset>,
    /// For each dataset, the values of its chunks in row-major order; `None` if not yet written.
    written: Vec<Vec<Option<T>>>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self {
            datasets: Vec::new(),
            written: Vec::new(),
        }
    }
}

impl<T: Clone> Chunks<T> {
    /// Starts with no chunk of any dataset written.
    ///
    /// The datasets must have passed [`Dataset::check`], and the id of each must be its index.
    ///
    /// # Errors
    /// [`Error::Invalid`] if two datasets have the same name, or the chunks do not fit in memory.
    pub fn new(path: &Path, datasets: Vec<Dataset>) -> Result<Self> {
        let mut written = Vec::with_capacity(datasets.len());
        for (number, dataset) in datasets.iter().enumerate() {
            let name = &dataset.name;
            if datasets[..number].iter().any(|other| other.name == *name) {
                let message = format!("two datasets are called {name:?}");
                return Err(Error::invalid(path, message));
            }
            let count = dataset.chunk_count().unwrap_or(u64::MAX);
            let mut none = Vec::new();
            // Saturates, so that the reservation of an impossible length fails.
            let length = usize::try_from(count).unwrap_or(usize::MAX);
            none.try_reserve_exact(length).map_err(|_| {
                let message = format!("dataset {name:?}: no memory for {count} chunks");
                Error::invalid(path, message)
            })?;
            none.resize(length, None);
            written.push(none);
        }
        Ok(Self { datasets, written })
    }

    /// Returns the datasets.
    pub fn datasets(&self) -> &[Dataset] {
        &self.datasets
    }

    /// Returns the value of each chunk of a dataset, row-major; `None` if not yet written.
    pub fn of(&self, dataset: usize) -> &[Option<T>] {
        self.written.get(dataset).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of chunks of all datasets, written or not.
    pub fn count(&self) -> u64 {
        self.written.iter().map(|chunks| chunks.len() as u64).sum()
    }

    /// Checks that a chunk can be written with the given cells. Returns its dataset and ordinal.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such chunk, `cells` has the wrong length, or the chunk was
    /// written before.
    pub fn check(
        &self,
        path: &Path,
        dataset: usize,
        chunk: &[u64],
        cells: &[u8],
    ) -> Result<(&Dataset, usize)> {
        let Some((described, written)) = self.datasets.get(dataset).zip(self.written.get(dataset))
        else {
            return Err(Error::invalid(
                path,
                format!("no dataset with index {dataset}"),
            ));
        };
        let invalid = |message: &str| {
            let name = &described.name;
            let message = format!("dataset {name:?}, chunk {chunk:?}: {message}");
            Err(Error::invalid(path, message))
        };
        let ordinal = (chunk.len() == described.shape.len())
            .then(|| described.chunk_ordinal(chunk))
            .flatten();
        let Some(ordinal) = ordinal else {
            return invalid("outside the chunk grid");
        };
        let expected = described.chunk_bytes(described.check(path)?, chunk);
        let found = cells.len();
        if found as u64 != expected {
            return invalid(&format!("{found} bytes of cells, expected {expected}"));
        }
        // `written` has an entry for each chunk, so the ordinal fits a `usize`.
        let ordinal = ordinal as usize;
        if written[ordinal].is_some() {
            return invalid("written twice");
        }
        Ok((described, ordinal))
    }

    /// Checks that several chunks of a dataset can be written, like [`Self::check`]. Returns their ordinals.
    ///
    /// # Errors
    /// Returns the errors of [`Self::check`].
    pub fn check_each(
        &self,
        path: &Path,
        dataset: usize,
        chunks: &[ChunkCells<'_>],
    ) -> Result<Vec<usize>> {
        let mut ordinals = Vec::with_capacity(chunks.len());
        let mut seen = HashSet::with_capacity(chunks.len());
        for one in chunks {
            let (described, ordinal) = self.check(path, dataset, &one.chunk, &one.cells)?;
            if !seen.insert(ordinal) {
                let (name, chunk) = (&described.name, &one.chunk);
                let message = format!("dataset {name:?}, chunk {chunk:?}: written twice");
                return Err(Error::invalid(path, message));
            }
            ordinals.push(ordinal);
        }
        Ok(ordinals)
    }

    /// Records that a chunk was written, with the value to keep for it.
    pub fn set(&mut self, dataset: usize, ordinal: usize, kept: T) {
        self.written[dataset][ordinal] = Some(kept);
    }

    /// Checks that all chunks were written.
    ///
    /// # Errors
    /// [`Error::Invalid`], naming the first chunk that was not written.
    pub fn check_all(&self, path: &Path) -> Result<()> {
        for (dataset, written) in self.datasets.iter().zip(&self.written) {
            if let Some(ordinal) = written.iter().position(Option::is_none) {
                let message = format!(
                    "dataset {:?}: chunk number {ordinal} of {} was never written",
                    dataset.name,
                    written.len()
                );
                return Err(Error::invalid(path, message));
            }
        }
        Ok(())
    }
}
