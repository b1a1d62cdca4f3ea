//! What clients carry for us: their statements come back to us in tickets and handles, so that nothing needs to be
//! remembered between two requests.

use crate::serve::status::wrong;
use arrow_flight::sql::{Any, ProstMessageExt, TicketStatementQuery};
use arrow_flight::{FlightInfo, Ticket};
use prost::Message;
use prost::bytes::Bytes;
use tonic::Status;
use uuid::Uuid;

/// One execution of a statement.
#[derive(Clone, PartialEq, Message)]
pub struct Execution {
    /// What it is cancelled by: 16 bytes.
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
    /// A new execution of a statement.
    pub fn new(sql: String, parameters: Option<Bytes>) -> Self {
        Self {
            id: new_id(),
            sql,
            parameters,
        }
    }

    /// What it is cancelled by.
    pub fn id(&self) -> Result<Uuid, Status> {
        Uuid::from_slice(&self.id).map_err(|_| foreign())
    }

    /// Packed, as clients hand it back.
    pub fn ticket(&self) -> Ticket {
        let ticket = TicketStatementQuery {
            statement_handle: self.encode_to_vec().into(),
        };
        Ticket::new(ticket.as_any().encode_to_vec())
    }

    /// Unpacked.
    pub fn of_ticket(ticket: &TicketStatementQuery) -> Result<Self, Status> {
        Self::decode(ticket.statement_handle.clone()).map_err(|_| foreign())
    }

    /// The executions that a client was told of together.
    pub fn all_of(info: &FlightInfo) -> Result<Vec<Self>, Status> {
        let tickets = info
            .endpoint
            .iter()
            .filter_map(|endpoint| endpoint.ticket.as_ref());
        let executions = tickets.map(|ticket| {
            let any = Any::decode(ticket.ticket.clone()).map_err(|_| foreign())?;
            let ticket = any.unpack::<TicketStatementQuery>().ok().flatten();
            Self::of_ticket(&ticket.ok_or_else(foreign)?)
        });
        executions.collect()
    }
}

/// A prepared statement.
#[derive(Clone, PartialEq, Message)]
pub struct Prepared {
    /// What its parameters are bound to: 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    /// The statement.
    #[prost(string, tag = "2")]
    pub sql: String,
}

impl Prepared {
    /// A new one.
    pub fn new(sql: String) -> Self {
        Self { id: new_id(), sql }
    }

    /// What its parameters are bound to.
    pub fn id(&self) -> Result<Uuid, Status> {
        Uuid::from_slice(&self.id).map_err(|_| foreign())
    }

    /// Packed, as clients hand it back.
    pub fn handle(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Unpacked.
    pub fn of_handle(handle: &Bytes) -> Result<Self, Status> {
        Self::decode(handle.clone()).map_err(|_| foreign())
    }
}

fn new_id() -> Bytes {
    Bytes::copy_from_slice(Uuid::new_v4().as_bytes())
}

fn foreign() -> Status {
    wrong("the ticket or handle is not one that this server gave")
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
    fn what_others_made_is_refused() {
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
