//! The error type of the format and grid layers, and its conversion to [`DataFusionError`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use datafusion::error::DataFusionError;

/// The result type of the format layer.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The file, dataset and chunk that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorLocation {
    /// The path of the file.
    pub path: PathBuf,
    /// The dataset, if the error concerns a single one.
    pub dataset: Option<String>,
    /// The chunk's indices in the chunk grid, if the error concerns a single chunk.
    pub chunk: Option<Vec<u64>>,
}

impl ErrorLocation {
    /// Locates an error that concerns the whole file.
    pub fn file(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            dataset: None,
            chunk: None,
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
        Ok(())
    }
}

/// An error in reading or writing a file of arrays.
///
/// Every message names the file and, where they apply, the dataset, chunk and field, with the value
/// found and the value expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system reported an error.
    #[error("{place}: cannot {action}: {source}")]
    Io {
        /// The file, dataset and chunk.
        place: Box<ErrorLocation>,
        /// The operation that failed, worded to follow "cannot": `open`, `read`.
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The bytes break a rule of the format.
    #[error("{place}: {field} is {found}, expected {expected}")]
    Malformed {
        /// The file, dataset and chunk.
        place: Box<ErrorLocation>,
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
        let place = Box::new(ErrorLocation::file(path));
        move |source| Self::Io {
            place,
            action,
            source,
        }
    }

    /// Replaces the file, dataset and chunk of the error by more precise ones.
    pub(crate) fn at(mut self, better: &ErrorLocation) -> Self {
        if let Self::Io { place, .. } | Self::Malformed { place, .. } = &mut self {
            **place = better.clone();
        }
        self
    }

    /// Returns a copy of the error, for results that are cached.
    ///
    /// [`io::Error`] cannot be cloned: the copy keeps its error code, or else its kind and text.
    pub(crate) fn copy(&self) -> Self {
        match self {
            Self::Io {
                place,
                action,
                source,
            } => Self::Io {
                place: place.clone(),
                action,
                source: match source.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(source.kind(), source.to_string()),
                },
            },
            Self::Malformed {
                place,
                field,
                found,
                expected,
            } => Self::Malformed {
                place: place.clone(),
                field,
                found: found.clone(),
                expected: expected.clone(),
            },
            Self::MissingChunk(place) => Self::MissingChunk(place.clone()),
            Self::NoSuchDataset {
                path,
                name,
                available,
            } => Self::NoSuchDataset {
                path: path.clone(),
                name: name.clone(),
                available: available.clone(),
            },
            Self::Invalid { path, message } => Self::Invalid {
                path: path.clone(),
                message: message.clone(),
            },
        }
    }

    /// Creates an [`Error::Malformed`].
    pub(crate) fn malformed(
        place: ErrorLocation,
        field: &'static str,
        found: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Self {
        Self::Malformed {
            place: Box::new(place),
            field,
            found: found.to_string(),
            expected: expected.to_string(),
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

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// Returns the message of a DataFusion error for users: that of the innermost error.
///
/// The errors around it name stages of the planner, which mean little to a user.
pub fn describe(error: &DataFusionError) -> String {
    let root = error.find_root();
    let text = match root {
        DataFusionError::Plan(text)
        | DataFusionError::Execution(text)
        | DataFusionError::Configuration(text) => text.clone(),
        DataFusionError::NotImplemented(text) => format!("not implemented: {text}"),
        DataFusionError::ResourcesExhausted(text) => format!("out of memory: {text}"),
        #[cfg(feature = "cli")]
        DataFusionError::SQL(error, _) => syntax(error),
        DataFusionError::External(error) => error.to_string(),
        DataFusionError::IoError(error) => error.to_string(),
        DataFusionError::ArrowError(error, _) => error.to_string(),
        DataFusionError::SchemaError(error, _) => error.to_string(),
        other => other.to_string(),
    };
    // Backtraces are present only if DataFusion was built with them.
    match text.split_once(DataFusionError::BACK_TRACE_SEP) {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

#[cfg(feature = "cli")]
fn syntax(error: &datafusion::sql::sqlparser::parser::ParserError) -> String {
    use datafusion::sql::sqlparser::parser::ParserError;
    match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            format!("syntax error: {text}")
        }
        ParserError::RecursionLimitExceeded => "the statement is nested too deeply".to_owned(),
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use datafusion::sql::sqlparser::parser::ParserError;

    use super::*;

    #[test]
    fn prefixes_and_contexts_are_dropped() {
        let error = DataFusionError::Plan("no such table".to_owned()).context("some_rule");
        assert_eq!(describe(&error), "no such table");
        let error = ParserError::ParserError("Expected: an expression".to_owned());
        let error = DataFusionError::SQL(Box::new(error), None);
        assert_eq!(describe(&error), "syntax error: Expected: an expression");
    }
}
