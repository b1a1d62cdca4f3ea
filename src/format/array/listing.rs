//! The datasets of an open file.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::array::dataset::Dataset;
use crate::format::io::storage::Access;

/// The datasets of an open file, and how the file was opened.
#[derive(Debug)]
pub struct Listing {
    path: PathBuf,
    access: Access,
    datasets: Vec<Dataset>,
    /// The index of the first dataset of each name.
    by_name: HashMap<String, usize>,
    warnings: Warnings,
}

/// The warnings raised while opening a file.
#[derive(Debug, Default)]
pub struct Warnings {
    texts: Vec<String>,
    /// The indices of the warnings about damage to the file. The others are about what is not supported.
    damage: HashSet<usize>,
}

impl Warnings {
    /// Adds a warning.
    pub fn push(&mut self, text: String) {
        self.texts.push(text);
    }

    /// Adds a warning about damage to the file.
    pub fn push_damage(&mut self, text: String) {
        self.push_if(true, text);
    }

    /// Adds a warning, which is about damage to the file if `is_damage`.
    pub fn push_if(&mut self, is_damage: bool, text: String) {
        if is_damage {
            self.damage.insert(self.texts.len());
        }
        self.texts.push(text);
    }

    /// Returns the warnings in the order in which they were raised.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

impl Listing {
    /// Creates the listing of a file without datasets. `path` is the path as the caller gave it.
    pub fn new(path: impl Into<PathBuf>, access: Access) -> Self {
        Self {
            path: path.into(),
            access,
            datasets: Vec::new(),
            by_name: HashMap::new(),
            warnings: Warnings::default(),
        }
    }

    /// Adds a dataset, whose id is the number of datasets before it. Returns the index of the first
    /// dataset of its name.
    pub fn push(&mut self, dataset: Dataset) -> usize {
        let name = dataset.name().to_string();
        let first = *self.by_name.entry(name).or_insert(self.datasets.len());
        self.datasets.push(dataset);
        first
    }

    /// Adds warnings.
    pub fn warn(&mut self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.texts.extend(warnings);
    }

    /// Adds a warning about damage to the file.
    pub fn warn_of_damage(&mut self, warning: String) {
        self.warnings.push_damage(warning);
    }

    /// Sets the warnings of a file without warnings.
    pub fn set_warnings(&mut self, warnings: Warnings) {
        self.warnings = warnings;
    }

    /// Returns the path as the caller gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the access mode with which the file was opened.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns the datasets; the id of each is its index. Names may repeat.
    pub fn datasets(&self) -> &[Dataset] {
        &self.datasets
    }

    /// Returns the warnings raised while opening the file.
    pub fn warnings(&self) -> &[String] {
        &self.warnings.texts
    }

    /// Returns `true` if the warning with this index is about damage to the file.
    pub fn is_damage(&self, warning: usize) -> bool {
        self.warnings.damage.contains(&warning)
    }

    /// Returns the dataset with this exact name; if there are several, the first.
    pub fn dataset(&self, name: &str) -> Option<&Dataset> {
        self.by_name.get(name).map(|number| &self.datasets[*number])
    }

    /// Returns the element of `of_datasets`, which has one for each dataset, that belongs to a dataset.
    ///
    /// # Errors
    /// Returns an error if the file has no such dataset.
    pub fn of<'a, T>(&self, dataset: &Dataset, of_datasets: &'a [T]) -> Result<&'a T> {
        let number = usize::try_from(dataset.id()).ok();
        let found = number.and_then(|number| of_datasets.get(number));
        found.ok_or_else(|| self.no_such_dataset(dataset.name()))
    }

    /// Checks that a dataset has a chunk.
    ///
    /// # Errors
    /// Returns an error if the indices of the chunk are outside of the chunk grid.
    pub fn check_chunk(&self, dataset: &Dataset, chunk: &[u64]) -> Result<()> {
        if chunk.len() == dataset.shape().len() && dataset.chunk_ordinal(chunk).is_some() {
            return Ok(());
        }
        let message = format!("dataset {:?} has no chunk {chunk:?}", dataset.name());
        Err(Error::invalid(&self.path, message))
    }

    /// Returns the error for a dataset name that the file does not have.
    pub fn no_such_dataset(&self, name: &str) -> Error {
        let names = self.datasets.iter().map(Dataset::name);
        Error::no_such_dataset(&self.path, name, names, &self.warnings.texts)
    }
}
