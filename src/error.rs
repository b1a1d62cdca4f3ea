//! The one error of the format and grid layers, and the one place where it becomes DataFusion's.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use datafusion::error::DataFusionError;

/// Result of the format layer.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Where in which file something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The dataset, where one is concerned.
    pub dataset: Option<String>,
    /// The chunk's coordinates in the chunk grid, where one is concerned.
    pub chunk: Option<Vec<u64>>,
}

impl Place {
    /// A place in `path` that belongs to no dataset.
    pub fn file(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            dataset: None,
            chunk: None,
        }
    }

    /// The same file, in `dataset`.
    pub fn dataset(path: &Path, dataset: &str) -> Self {
        Self {
            dataset: Some(dataset.to_string()),
            ..Self::file(path)
        }
    }

    /// The same file and dataset, at `chunk` of the chunk grid.
    pub fn chunk(path: &Path, dataset: &str, chunk: &[u64]) -> Self {
        Self {
            chunk: Some(chunk.to_vec()),
            ..Self::dataset(path, dataset)
        }
    }
}

impl fmt::Display for Place {
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

/// What can go wrong between bytes and arrays. Every message names the file, and the dataset, the chunk
/// and the field where there is one, with what was found and what was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{place}: cannot {action}: {source}")]
    Io {
        /// Where.
        place: Box<Place>,
        /// What was attempted, as in "cannot open".
        action: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Bytes that break the format's rules.
    #[error("{place}: {field} is {found}, expected {expected}")]
    Malformed {
        /// Where.
        place: Box<Place>,
        /// The field of the format's documents.
        field: &'static str,
        /// What the file holds.
        found: String,
        /// What the format allows there.
        expected: String,
    },
    /// A chunk of the grid has no row in the chunk index.
    #[error("{0}: the chunk index has no row for this chunk; the format has no implicit fill")]
    MissingChunk(Box<Place>),
    /// A dataset was asked for that the file does not have.
    #[error("{}: no dataset {name:?}; it has {available}", path.display())]
    NoSuchDataset {
        /// The file.
        path: PathBuf,
        /// The name asked for.
        name: String,
        /// The names there are.
        available: String,
    },
    /// A call that cannot be carried out as asked, such as writing a chunk of the wrong size.
    #[error("{}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with the call.
        message: String,
    },
}

impl Error {
    /// An [`Error::Io`] for `path`, for use in `map_err`.
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let place = Box::new(Place::file(path));
        move |source| Self::Io {
            place,
            action,
            source,
        }
    }

    /// The same error, found at a place that is known better now.
    pub(crate) fn at(mut self, better: &Place) -> Self {
        if let Self::Io { place, .. } | Self::Malformed { place, .. } = &mut self {
            **place = better.clone();
        }
        self
    }

    /// The same error once more, for results that are kept. What the operating system said stays as code or text.
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

    /// An [`Error::Malformed`].
    pub(crate) fn malformed(
        place: Place,
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

    /// An [`Error::Invalid`].
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

/// What to tell a person of the engine's error: the innermost one in its own words. The wrapping ones name stages of the
/// planner, which say little to a reader.
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
    // Present only where DataFusion was built with backtraces.
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
