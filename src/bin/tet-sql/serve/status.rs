//! What clients are told of errors.

use crate::diagnostics::excerpt;
use crate::failure::Failure;
use arrow_flight::error::FlightError;
use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use tet_sql::error::describe;
use tonic::{Code, Status};

/// The longest message. It travels in a header, of which clients accept only so many bytes, three for each that is no
/// ASCII.
const LONGEST: usize = 2000;

/// A status with a message that clients can receive.
pub fn status(code: Code, message: &str) -> Status {
    if message.len() <= LONGEST {
        return Status::new(code, message);
    }
    let end = message.floor_char_boundary(LONGEST);
    Status::new(code, format!("{} ...", &message[..end]))
}

/// What a client has asked for wrongly.
pub fn wrong(message: impl AsRef<str>) -> Status {
    status(Code::InvalidArgument, message.as_ref())
}

/// An error of DataFusion.
pub fn of_engine(error: &DataFusionError) -> Status {
    status(code(error), &describe(error))
}

/// An error of a statement, with the line where it is and what may have been meant.
pub async fn of_statement(context: &SessionContext, sql: &str, error: &DataFusionError) -> Status {
    match excerpt::failure(context, sql, error).await {
        Failure::Message(message) => status(code(error), &message),
        _ => of_engine(error),
    }
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

/// What came of encoding.
pub fn of_arrow(error: &ArrowError) -> Status {
    status(Code::Internal, &error.to_string())
}

/// What came of a stream of batches.
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
