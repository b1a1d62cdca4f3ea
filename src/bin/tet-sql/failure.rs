//! Why a statement, or the command, ended early.

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

/// Why a statement, or the command, ended early.
#[derive(Debug)]
pub enum Failure {
    /// An error to be told.
    Message(String),
    /// The reader of our output went away, which is no error.
    BrokenPipe,
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

/// The innermost error in its own words: the wrapping ones name stages of the planner, which say little to a reader.
fn describe(error: &DataFusionError) -> String {
    let root = error.find_root();
    let text = match root {
        DataFusionError::Plan(text)
        | DataFusionError::Execution(text)
        | DataFusionError::Configuration(text) => text.clone(),
        DataFusionError::NotImplemented(text) => format!("not implemented: {text}"),
        DataFusionError::ResourcesExhausted(text) => format!("out of memory: {text}"),
        DataFusionError::SQL(error, _) => match error.as_ref() {
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
                format!("syntax error: {text}")
            }
            ParserError::RecursionLimitExceeded => "the statement is nested too deeply".to_owned(),
        },
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

/// Joins the lines of a message.
fn one_line(text: &str) -> String {
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
    fn prefixes_and_contexts_are_dropped() {
        let error = DataFusionError::Plan("no such table".to_owned()).context("some_rule");
        assert_eq!(describe(&error), "no such table");
        let error = ParserError::ParserError("Expected: an expression".to_owned());
        let error = DataFusionError::SQL(Box::new(error), None);
        assert_eq!(describe(&error), "syntax error: Expected: an expression");
    }

    #[test]
    fn messages_are_one_line() {
        assert_eq!(one_line("a\n\n  b \n"), "a b");
    }
}
