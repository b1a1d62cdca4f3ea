//! The outcome of a statement.

use crate::failure::Failure;
use crate::statement::reading::Reading;
use datafusion::error::DataFusionError;
use std::time::Instant;

/// The outcome of a statement.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The number of rows shown or written.
    pub rows: usize,
    /// The extent of these rows: the whole result, or some rows of a longer one.
    pub extent: Extent,
    /// `true` if there is no number of rows to report, for example after SET.
    pub is_silent: bool,
    /// `true` if the statement only read, so that it may run again.
    pub is_query: bool,
    /// The file that the rows were written to.
    pub written: Option<String>,
    /// The time when the last row was available; `None` means the end of the statement.
    pub finished: Option<Instant>,
    /// The chunks and bytes that the scans read.
    pub reading: Reading,
    /// Hints for the author of the statement.
    pub hints: Vec<String>,
}

/// The extent to which a result was shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extent {
    /// All rows.
    #[default]
    Whole,
    /// Some rows of a longer result.
    Cut {
        /// The number of rows known to be in the result.
        rows: usize,
        /// `true` if the result has exactly this number of rows.
        is_exact: bool,
    },
}

/// The reason why a statement failed.
pub enum Error {
    /// An error of DataFusion, which is shown with an excerpt of the statement.
    DataFusion(DataFusionError),
    /// Any other failure.
    Failure(Failure),
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        Self::DataFusion(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::DataFusion(error) => error.into(),
            Error::Failure(failure) => failure,
        }
    }
}
