//! The error type of the format and grid layers.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result type of the format layer.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The file, and the dataset, chunk or other part of the file, that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorLocation {
    /// The path of the file.
    pub path: PathBuf,
    /// The dataset, if the error concerns a single one.
    pub dataset: Option<String>,
    /// The chunk's indices in the chunk grid, if the error concerns a single chunk.
    pub chunk: Option<Vec<u64>>,
    /// The part of the file, in the words of its format, such as `row group 3, page 1`.
    pub part: Option<String>,
}

impl ErrorLocation {
    /// Locates an error that concerns the whole file.
    pub fn file(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            dataset: None,
            chunk: None,
            part: None,
        }
    }

    /// Locates an error that concerns one dataset.
    pub fn dataset(path: &Path, dataset: &str) -> Self {
        Self {
            dataset: Some(dataset.to_string()),
            ..Self::file(path)
        }
    }

    /// Locates an error that concerns one chunk.
    pub fn chunk(path: &Path, dataset: &str, chunk: &[u64]) -> Self {
        Self {
            chunk: Some(chunk.to_vec()),
            ..Self::dataset(path, dataset)
        }
    }

    /// Locates an error that concerns one part of a file, in the words of its format.
    pub fn part(path: &Path, part: impl Into<String>) -> Self {
        Self {
            part: Some(part.into()),
            ..Self::file(path)
        }
    }
}

impl fmt::Display for ErrorLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(dataset) = &self.dataset {
            write!(f, ", dataset {dataset:?}")?;
        }
        if let Some(chunk) = &self.chunk {
            write!(f, ", chunk {chunk:?}")?;
        }
        if let Some(part) = &self.part {
            write!(f, ", {part}")?;
        }
        Ok(())
    }
}

/// An error in reading or writing a file of arrays.
///
/// Every message names the file and, where they apply, the dataset, chunk and field, with the value
/// found and the value expected.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system reported an error.
    #[error("{location}: cannot {action}: {source}")]
    Io {
        /// The file, dataset and chunk.
        location: Box<ErrorLocation>,
        /// The operation that failed, worded to follow "cannot": `open`, `read`.
        action: &'static str,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// The bytes break a rule of the format.
    #[error("{location}: {field} is {found}, expected {expected}")]
    Malformed {
        /// The file, dataset and chunk.
        location: Box<ErrorLocation>,
        /// The field, by its name in the format's specification.
        field: &'static str,
        /// The value found.
        found: String,
        /// The values that the format allows.
        expected: String,
    },
    /// The chunk index has no row for a chunk of the grid.
    #[error("{0}: the chunk index has no row for this chunk; the format has no implicit fill")]
    MissingChunk(Box<ErrorLocation>),
    /// The file has no dataset with the requested name.
    #[error("{}: no dataset {name:?}; it has {available}", path.display())]
    NoSuchDataset {
        /// The path of the file.
        path: PathBuf,
        /// The requested name.
        name: String,
        /// The names of the file's datasets, for the message.
        available: String,
    },
    /// The call is invalid, such as writing a chunk of the wrong size.
    #[error("{}: {message}", path.display())]
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        message: String,
    },
}

impl Error {
    /// Returns a function that wraps an [`io::Error`] in [`Error::Io`], for use in `map_err`.
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let location = Box::new(ErrorLocation::file(path));
        move |source| Self::Io {
            location,
            action,
            source: Arc::new(source),
        }
    }

    /// Replaces the file, dataset and chunk of the error by more precise ones.
    pub(crate) fn at(mut self, better: &ErrorLocation) -> Self {
        if let Self::Io { location, .. } | Self::Malformed { location, .. } = &mut self {
            **location = better.clone();
        }
        self
    }

    /// Creates an [`Error::Malformed`].
    pub(crate) fn malformed(
        location: ErrorLocation,
        field: &'static str,
        found: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Self {
        Self::Malformed {
            location: Box::new(location),
            field,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }

    /// Creates the error for a dataset that a file does not have: an [`Error::NoSuchDataset`], or the
    /// warning with which the dataset was left out.
    pub(crate) fn no_such_dataset<'a>(
        path: &Path,
        name: &str,
        available: impl Iterator<Item = &'a str>,
        warnings: &[String],
    ) -> Self {
        let place = path.display().to_string();
        let warnings = warnings.iter().map(|text| {
            let text = text.strip_prefix(&place).unwrap_or(text);
            text.trim_start_matches([',', ':', ' '])
        });
        let is_about = |text: &str| {
            let of_dataset = text.starts_with(&format!("dataset {name:?}: "));
            of_dataset && text.ends_with(" is left out")
                || text.ends_with(&format!("; the dataset {name:?} is left out"))
                || text.starts_with(&format!("array {name:?} is left out: "))
                || text.starts_with(&format!("{name:?} is left out: "))
        };
        if let Some(reason) = warnings.into_iter().find(|text| is_about(text)) {
            return Self::invalid(path, reason);
        }
        let names: Vec<_> = available.map(|name| format!("{name:?}")).collect();
        Self::NoSuchDataset {
            path: path.to_path_buf(),
            name: name.to_string(),
            available: match names.is_empty() {
                true => "none".to_string(),
                false => names.join(", "),
            },
        }
    }

    /// Creates an [`Error::Invalid`].
    pub(crate) fn invalid(path: &Path, message: impl Into<String>) -> Self {
        Self::Invalid {
            path: path.to_path_buf(),
            message: message.into(),
        }
    }
}
