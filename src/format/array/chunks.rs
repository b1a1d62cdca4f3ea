//! The chunks of a file under construction.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::array::dataset::Dataset;

/// The datasets of a file under construction, and what is kept of each of their chunks that was written.
#[derive(Debug)]
pub(crate) struct Chunks<T> {
    datasets: Vec<Dataset>,
    /// By dataset and chunk, row-major.
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
    /// None of the chunks of these datasets, which have been checked and whose numbers are their places.
    ///
    /// # Errors
    /// [`Error::Invalid`] if two have the same name, or there is no memory for so many chunks.
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
            // What is no number of things in memory, there is no memory for.
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

    /// The datasets.
    pub fn datasets(&self) -> &[Dataset] {
        &self.datasets
    }

    /// What was kept of each chunk of a dataset, row-major.
    pub fn of(&self, dataset: usize) -> &[Option<T>] {
        self.written.get(dataset).map_or(&[], Vec::as_slice)
    }

    /// All chunks.
    pub fn count(&self) -> u64 {
        self.written.iter().map(|chunks| chunks.len() as u64).sum()
    }

    /// The dataset of a chunk that is to be written with these cells, and the chunk's number.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such chunk, its cells have another length, or it was written before.
    pub fn check(
        &self,
        path: &Path,
        dataset: usize,
        chunk: &[u64],
        cells: &[u8],
    ) -> Result<(&Dataset, usize)> {
        let Some((described, written)) = self.datasets.get(dataset).zip(self.written.get(dataset))
        else {
            return Err(Error::invalid(path, format!("no dataset number {dataset}")));
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
        // In memory, so that it fits.
        let ordinal = ordinal as usize;
        if written[ordinal].is_some() {
            return invalid("written twice");
        }
        Ok((described, ordinal))
    }

    /// Notes that a chunk was written.
    pub fn set(&mut self, dataset: usize, ordinal: usize, kept: T) {
        self.written[dataset][ordinal] = Some(kept);
    }

    /// Whether all chunks were written.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the first that was not.
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
