//! The reasons why a statement or the command ends early.

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use tet_sql::provider::error::describe;

/// The reason why a statement or the command ended early.
#[derive(Debug)]
pub enum Failure {
    /// An error to report: one line, optionally followed by an excerpt of the statement.
    Message(String),
    /// An error that was already reported.
    Told,
    /// The reader of standard output closed it, which is not an error.
    BrokenPipe,
    /// The user left the pager before the end of a result.
    Enough,
    /// Interrupted by Ctrl-C.
    Interrupted,
}

impl Failure {
    /// Creates an error to report, on one line.
    pub fn message(text: impl AsRef<str>) -> Self {
        Self::Message(one_line(text.as_ref()))
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::message(describe(&error))
    }
}

impl From<tet_sql::Error> for Failure {
    fn from(error: tet_sql::Error) -> Self {
        Self::message(error.to_string())
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::message(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::message(error.to_string())
    }
}

/// Joins the lines of a message into one.
pub fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line() {
        assert_eq!(one_line("a\n\n  b \n"), "a b");
    }
}
