//! Turns errors into statuses for clients.

use crate::dialect::{Dialect, Session};
use arrow_flight::error::FlightError;
use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use tonic::{Code, Status};

/// The maximum length of a message in bytes. The message travels in a header, where each non-ASCII
/// byte takes three bytes, and clients limit the size of headers.
const LONGEST: usize = 2000;

/// Creates a status. A message too long for a header is truncated.
pub fn status(code: Code, message: &str) -> Status {
    if message.len() <= LONGEST {
        return Status::new(code, message);
    }
    let end = message.floor_char_boundary(LONGEST);
    Status::new(code, format!("{} ...", &message[..end]))
}

/// Returns the status of an invalid request.
pub fn wrong(message: impl AsRef<str>) -> Status {
    status(Code::InvalidArgument, message.as_ref())
}

/// Returns the status of a DataFusion error.
pub fn of_datafusion(dialect: &dyn Dialect, error: &DataFusionError) -> Status {
    status(code(error), &dialect.describe(error))
}

/// Returns the status of an error in a statement.
pub async fn of_statement(session: &Session, sql: &str, error: &DataFusionError) -> Status {
    let Session { context, dialect } = session;
    let message = dialect.describe_statement(context, sql, error).await;
    status(code(error), &message)
}

fn code(error: &DataFusionError) -> Code {
    match error.find_root() {
        DataFusionError::Plan(_)
        | DataFusionError::SQL(..)
        | DataFusionError::SchemaError(..)
        | DataFusionError::Configuration(_)
        | DataFusionError::Execution(_)
        | DataFusionError::ArrowError(..) => Code::InvalidArgument,
        DataFusionError::NotImplemented(_) => Code::Unimplemented,
        DataFusionError::ResourcesExhausted(_) => Code::ResourceExhausted,
        _ => Code::Internal,
    }
}

/// Returns the status of an encoding error.
pub fn of_arrow(error: &ArrowError) -> Status {
    status(Code::Internal, &error.to_string())
}

/// Returns the status of an error in a stream of batches.
pub fn of_flight(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => status(Code::Internal, &other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        let message = "ä".repeat(LONGEST);
        let cut = wrong(&message);
        assert_eq!(cut.message(), format!("{} ...", "ä".repeat(LONGEST / 2)));
        assert_eq!(wrong("short").message(), "short");
    }
}
