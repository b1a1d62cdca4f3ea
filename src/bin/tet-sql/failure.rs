//! Why a statement, or the command, ended early.

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use tet_sql::error::describe;

/// Why a statement, or the command, ended early.
#[derive(Debug)]
pub enum Failure {
    /// An error to be told: a line, and below it perhaps the place in the statement.
    Message(String),
    /// An error that has been told.
    Told,
    /// The reader of our output went away, which is no error.
    BrokenPipe,
    /// The reader of a pager has seen enough of a result.
    Enough,
    /// Ctrl-C.
    Interrupted,
}

impl Failure {
    /// An error to be told, on one line.
    pub fn message(text: impl AsRef<str>) -> Self {
        Self::Message(one_line(text.as_ref()))
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::message(describe(&error))
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

/// Joins the lines of a message.
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
