//! Conversion of errors to DataFusion's, and their messages for users.

use std::error::Error as _;
use std::path::{Path, PathBuf};

use datafusion::error::DataFusionError;
use datafusion::object_store::Error as StoreError;
use datafusion::object_store::path::Path as ObjectPath;

use crate::error::Error;
use crate::provider::subqueries;

/// A text to look for in an error message, and the advice to append.
const ADVICE: [(&str, &str); 2] = [
    (
        "Cannot coerce arithmetic expression Duration(",
        "; write date_part('epoch', duration) for its seconds as a number",
    ),
    (
        ": error parsing date",
        "; for dates of other calendars, such as 30 February, use year(time), quarter(time), month(time) or day(time)",
    ),
];

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// Returns an error about a file of rows in a store, which is named by its path if it is local.
pub(in crate::provider) fn invalid_file(
    location: &ObjectPath,
    message: impl Into<String>,
) -> Error {
    let path = Path::new("/").join(location.as_ref());
    let path = match path.exists() {
        true => relative(path),
        false => PathBuf::from(location.as_ref()),
    };
    Error::invalid(&path, message)
}

/// Returns the path from the current directory, if the path is below it.
fn relative(path: PathBuf) -> PathBuf {
    let directory = std::env::current_dir().unwrap_or_default();
    match path.strip_prefix(directory) {
        Ok(below) => below.to_owned(),
        Err(_) => path,
    }
}

/// Returns bytes of a file escaped, in quotes.
pub(in crate::provider) fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

/// Returns `true` for errors of this crate and of stores, which name the file.
pub(in crate::provider) fn names_file(error: &DataFusionError) -> bool {
    let is_ours = match error.find_root() {
        DataFusionError::External(error) => error.is::<Error>(),
        DataFusionError::Plan(_) => true,
        _ => false,
    };
    is_ours || store_error(error).is_some()
}

/// Returns the error of a store that is the cause of another error.
pub(in crate::provider) fn store_error(error: &DataFusionError) -> Option<&StoreError> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
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
        #[cfg(feature = "sql")]
        DataFusionError::SQL(error, _) => syntax(error),
        DataFusionError::External(error) => error.to_string(),
        DataFusionError::IoError(error) => error.to_string(),
        DataFusionError::ArrowError(error, _) => error.to_string(),
        DataFusionError::SchemaError(error, _) => error.to_string(),
        #[cfg(feature = "parquet")]
        DataFusionError::ParquetError(error) => error.to_string(),
        other => other.to_string(),
    };
    // Arrow panics if the values of a batch have more bytes than 32-bit offsets can count.
    if text.contains("panicked with message \"offset overflow\"") {
        return "a batch of rows has more than 2 GiB of texts; lower datafusion.execution.batch_size"
            .to_owned();
    }
    if let Some(advice) = subqueries::advice(&text).or_else(|| subqueries::failed_rule(error)) {
        return advice;
    }
    // DataFusion reports a call with unsupported types of arguments as an internal error.
    if let Some((_, call)) =
        text.split_once("No function matches the given name and argument types ")
        && text.contains("failed to match any signature")
    {
        let advice = match call.contains("(Timestamp") {
            true => "; convert times to numbers, for example with date_part('epoch', time)",
            false => "",
        };
        return format!("no function matches {}{advice}", call.trim_end_matches('.'));
    }
    // Backtraces are present only if DataFusion was built with them.
    let text = match text.split_once(DataFusionError::BACK_TRACE_SEP) {
        Some((text, _)) => text.to_owned(),
        None => text,
    };
    match ADVICE.iter().find(|(part, _)| text.contains(part)) {
        Some((_, advice)) => text + advice,
        None => text,
    }
}

#[cfg(feature = "sql")]
fn syntax(error: &datafusion::sql::sqlparser::parser::ParserError) -> String {
    use datafusion::sql::sqlparser::parser::ParserError;
    match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            format!("syntax error: {text}")
        }
        ParserError::RecursionLimitExceeded => "the statement is nested too deeply".to_owned(),
    }
}

#[cfg(all(test, feature = "sql"))]
mod tests {
    use datafusion::sql::sqlparser::parser::ParserError;

    use super::*;

    #[test]
    fn prefixes_and_contexts_are_dropped() {
        let error = DataFusionError::Plan("no such table".to_owned()).context("some_rule");
        assert_eq!(describe(&error), "no such table");
        let error =
            DataFusionError::External("task 1 panicked with message \"offset overflow\"".into());
        assert!(describe(&error).ends_with("; lower datafusion.execution.batch_size"));
        let error = DataFusionError::Plan(
            "Internal error: Function 'avg' failed to match any signature, errors: .... No function matches the given name and argument \
             types 'avg(Timestamp(s))'. Candidate functions: avg(Float64)"
                .to_owned(),
        );
        let expected = "no function matches 'avg(Timestamp(s))'. Candidate functions: avg(Float64); convert times to \
                        numbers, for example with date_part('epoch', time)";
        assert_eq!(describe(&error), expected);
        let error = DataFusionError::NotImplemented(
            "Physical plan does not support logical expression InSubquery(InSubquery { expr: .. })"
                .to_owned(),
        );
        assert!(describe(&error).starts_with("EXISTS or IN with a subquery cannot"));
        let message = "Cannot coerce arithmetic expression Duration(s) / Int64 to valid types";
        let error = DataFusionError::Plan(message.to_owned());
        assert_eq!(describe(&error), format!("{message}{}", ADVICE[0].1));
        let error = ParserError::ParserError("Expected: an expression".to_owned());
        let error = DataFusionError::SQL(Box::new(error), None);
        assert_eq!(describe(&error), "syntax error: Expected: an expression");
    }
}
