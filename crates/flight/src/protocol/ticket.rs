//! Tickets and handles, which contain the statement, so that the server keeps no state between
//! requests.

use crate::status::wrong;
use arrow_flight::sql::{Any, ProstMessageExt, TicketStatementQuery};
use arrow_flight::{FlightInfo, Ticket};
use prost::Message;
use prost::bytes::Bytes;
use tonic::Status;
use uuid::Uuid;

/// One execution of a statement.
#[derive(Clone, PartialEq, Message)]
pub struct Execution {
    /// The id for cancellation: 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    /// The statement.
    #[prost(string, tag = "2")]
    pub sql: String,
    /// Rows of parameters, as an IPC stream.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub parameters: Option<Bytes>,
}

impl Execution {
    /// Creates an execution with a new id.
    pub fn new(sql: String, parameters: Option<Bytes>) -> Self {
        Self {
            id: new_id(),
            sql,
            parameters,
        }
    }

    /// Returns the id for cancellation.
    pub fn id(&self) -> Result<Uuid, Status> {
        Uuid::from_slice(&self.id).map_err(|_| not_issued_here())
    }

    /// Encodes the execution as a ticket.
    pub fn ticket(&self) -> Ticket {
        let ticket = TicketStatementQuery {
            statement_handle: self.encode_to_vec().into(),
        };
        Ticket::new(ticket.as_any().encode_to_vec())
    }

    /// Decodes the execution from a ticket.
    pub fn of_ticket(ticket: &TicketStatementQuery) -> Result<Self, Status> {
        Self::decode(ticket.statement_handle.clone()).map_err(|_| not_issued_here())
    }

    /// Returns the executions of all endpoints of `info`.
    pub fn all_of(info: &FlightInfo) -> Result<Vec<Self>, Status> {
        let tickets = info
            .endpoint
            .iter()
            .filter_map(|endpoint| endpoint.ticket.as_ref());
        let executions = tickets.map(|ticket| {
            let any = Any::decode(ticket.ticket.clone()).map_err(|_| not_issued_here())?;
            let ticket = any.unpack::<TicketStatementQuery>().ok().flatten();
            Self::of_ticket(&ticket.ok_or_else(not_issued_here)?)
        });
        executions.collect()
    }
}

/// A prepared statement.
#[derive(Clone, PartialEq, Message)]
pub struct Prepared {
    /// The id to which parameters are bound: 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    /// The statement.
    #[prost(string, tag = "2")]
    pub sql: String,
}

impl Prepared {
    /// Creates a prepared statement with a new id.
    pub fn new(sql: String) -> Self {
        Self { id: new_id(), sql }
    }

    /// Returns the id to which parameters are bound.
    pub fn id(&self) -> Result<Uuid, Status> {
        Uuid::from_slice(&self.id).map_err(|_| not_issued_here())
    }

    /// Encodes the prepared statement as a handle.
    pub fn handle(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Decodes the prepared statement from a handle.
    pub fn of_handle(handle: &Bytes) -> Result<Self, Status> {
        Self::decode(handle.clone()).map_err(|_| not_issued_here())
    }
}

fn new_id() -> Bytes {
    Bytes::copy_from_slice(Uuid::new_v4().as_bytes())
}

fn not_issued_here() -> Status {
    wrong("the ticket or handle was not issued by this server")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_flight::FlightEndpoint;

    #[test]
    fn executions_come_back_as_they_were() {
        let execution = Execution::new("SELECT $1".to_owned(), Some(Bytes::from_static(b"rows")));
        let endpoint = FlightEndpoint::new().with_ticket(execution.ticket());
        let info = FlightInfo::new().with_endpoint(endpoint);
        assert_eq!(Execution::all_of(&info).unwrap()[0], execution);
        assert!(execution.id().is_ok());
        let other = Execution::new(execution.sql.clone(), None);
        assert_ne!(execution.id().unwrap(), other.id().unwrap());
    }

    #[test]
    fn foreign_tickets_are_rejected() {
        for bytes in [&b""[..], b"\xff\xff", b"SELECT 1", b"\x0a\x01x"] {
            let bytes = Bytes::from_static(bytes);
            let ticket = TicketStatementQuery {
                statement_handle: bytes.clone(),
            };
            assert!(
                Execution::of_ticket(&ticket)
                    .and_then(|execution| execution.id())
                    .is_err()
            );
            assert!(
                Prepared::of_handle(&bytes)
                    .and_then(|prepared| prepared.id())
                    .is_err()
            );
        }
    }
}
