//! Answers Flight SQL requests.

use crate::execution::bindings::Bindings;
use crate::execution::queries::{Answer, Queries, answer};
use crate::execution::statement::refused;
use crate::network::authentication::{Authentication, HEADER};
use crate::options::Options;
use crate::protocol::information;
use crate::protocol::metadata;
use crate::protocol::ticket::{Execution, Prepared};
use crate::status::{of_arrow, of_flight, status, wrong};
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::metadata::{SqlInfoData, XdbcTypeInfoData};
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, CommandGetCatalogs,
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandGetXdbcTypeInfo, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementIngest, CommandStatementQuery, CommandStatementUpdate,
    DoPutPreparedStatementResult, ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus,
    FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage,
    SchemaAsIpc, Ticket,
};
use arrow_ipc::writer::IpcWriteOptions;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use prost::Message;
use prost::bytes::Bytes;
use tonic::{Code, Request, Response, Status, Streaming};

/// The action that cancels a query. `CancelQuery`, the action of Flight SQL itself, is an older
/// form.
const CANCEL: &str = "CancelFlightInfo";

/// The Flight SQL service.
pub struct Service {
    queries: Queries,
    bindings: Bindings,
    authentication: Authentication,
    about: SqlInfoData,
    types: XdbcTypeInfoData,
}

impl Service {
    /// Creates the service.
    pub fn new(
        queries: Queries,
        authentication: Authentication,
        options: &Options,
    ) -> Result<Self, Status> {
        Ok(Self {
            queries,
            bindings: Bindings::default(),
            authentication,
            about: information::about(options)?,
            types: information::types()?,
        })
    }

    /// Returns an execution of a prepared statement with its bound parameters.
    fn execution(&self, query: &CommandPreparedStatementQuery) -> Result<Execution, Status> {
        let prepared = Prepared::of_handle(&query.prepared_statement_handle)?;
        let parameters = self.bindings.of(prepared.id()?);
        Ok(Execution::new(prepared.sql, parameters))
    }

    fn cancel(&self, info: &FlightInfo) -> Result<(), Status> {
        for execution in Execution::all_of(info)? {
            self.queries.running().cancel(execution.id()?);
        }
        Ok(())
    }
}

/// Describes the result of a metadata command. The command itself is the ticket.
fn described<C: ProstMessageExt>(
    command: &C,
    schema: &Schema,
    request: Request<FlightDescriptor>,
) -> Result<Response<FlightInfo>, Status> {
    let ticket = Ticket::new(command.as_any().encode_to_vec());
    info(ticket, schema, request)
}

/// Describes a result: one endpoint on this server, of unknown length.
fn info(
    ticket: Ticket,
    schema: &Schema,
    request: Request<FlightDescriptor>,
) -> Result<Response<FlightInfo>, Status> {
    let info = FlightInfo::new()
        .try_with_schema(schema)
        .map_err(|error| of_arrow(&error))?
        .with_descriptor(request.into_inner())
        .with_endpoint(FlightEndpoint::new().with_ticket(ticket))
        .with_ordered(true);
    Ok(Response::new(info))
}

fn respond(batch: RecordBatch) -> Result<Response<Answer>, Status> {
    Ok(Response::new(answer(batch)))
}

fn encoded(schema: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &options));
    Ok(message.map_err(|error| of_arrow(&error))?.0)
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Service;

    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<BoxStream<'static, Result<HandshakeResponse, Status>>>, Status> {
        let bearer = self.authentication.bearer(request.metadata())?;
        let answer = stream::iter([Ok(HandshakeResponse::default())]);
        let mut response = Response::new(answer.boxed());
        response.metadata_mut().insert(HEADER, bearer);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let (sql, statement) = self.queries.prepare(query.query).await?;
        let execution = Execution::new(sql, None);
        let schema = self.queries.schema(statement, &execution).await?;
        info(execution.ticket(), &schema, request)
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let execution = Execution::of_ticket(&ticket)?;
        Ok(Response::new(self.queries.execute(execution).await?))
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        _request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let (sql, statement) = self.queries.prepare(query.query).await?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: Prepared::new(sql).handle(),
            dataset_schema: encoded(&statement.schema())?,
            parameter_schema: encoded(&statement.parameter_schema())?,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        _request: Request<Action>,
    ) -> Result<(), Status> {
        let prepared = Prepared::of_handle(&query.prepared_statement_handle)?;
        self.bindings.release(prepared.id()?);
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let prepared = Prepared::of_handle(&query.prepared_statement_handle)?;
        let rows = self.queries.receive(request.into_inner()).await?;
        self.bindings.bind(prepared.id()?, rows)?;
        Ok(DoPutPreparedStatementResult {
            prepared_statement_handle: Some(query.prepared_statement_handle),
        })
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let execution = self.execution(&query)?;
        let (_, statement) = self.queries.prepare(execution.sql.clone()).await?;
        let schema = self.queries.schema(statement, &execution).await?;
        info(execution.ticket(), &schema, request)
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let execution = self.execution(&query)?;
        Ok(Response::new(self.queries.execute(execution).await?))
    }

    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        _request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let info = FlightInfo::decode(query.info).map_err(|error| wrong(error.to_string()))?;
        self.cancel(&info)?;
        // `CancelStatus` uses the same numbers as the older `CancelResult`.
        let result = CancelStatus::Cancelled as i32;
        Ok(ActionCancelQueryResult { result })
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<<Self as FlightService>::DoActionStream>, Status> {
        let action = request.into_inner();
        if action.r#type != CANCEL {
            let message = format!("no action {:?}", action.r#type);
            return Err(status(Code::Unimplemented, &message));
        }
        let request = CancelFlightInfoRequest::decode(action.body);
        let request = request.map_err(|error| wrong(error.to_string()))?;
        let info = request
            .info
            .ok_or_else(|| wrong("the request to cancel has no FlightInfo"))?;
        self.cancel(&info)?;
        let result = CancelFlightInfoResult::new(CancelStatus::Cancelled);
        let result = arrow_flight::Result::new(result.encode_to_vec());
        Ok(Response::new(stream::iter([Ok(result)]).boxed()))
    }

    async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        Some(vec![Ok(ActionType {
            r#type: CANCEL.to_owned(),
            description: "Cancels the query of a FlightInfo".to_owned(),
        })])
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        described(&query, &query.into_builder().schema(), request)
    }

    async fn do_get_catalogs(
        &self,
        query: CommandGetCatalogs,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let batch = self
            .queries
            .ask(|session| async move { metadata::catalogs(&session.context, query) });
        respond(batch.await?)
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        described(&query.clone(), &query.into_builder().schema(), request)
    }

    async fn do_get_schemas(
        &self,
        query: CommandGetDbSchemas,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let batch = self
            .queries
            .ask(|session| async move { metadata::schemas(&session.context, query) });
        respond(batch.await?)
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        described(&query.clone(), &query.into_builder().schema(), request)
    }

    async fn do_get_tables(
        &self,
        query: CommandGetTables,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let batch = self.queries.ask(|session| metadata::tables(session, query));
        respond(batch.await?)
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        described(&query, &query.into_builder().schema(), request)
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        respond(metadata::table_types(query)?)
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        described(&query, &self.about.schema(), request)
    }

    async fn do_get_sql_info(
        &self,
        query: CommandGetSqlInfo,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let batch = query.into_builder(&self.about).build();
        respond(batch.map_err(of_flight)?)
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        described(&query, &self.types.schema(), request)
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let batch = query.into_builder(&self.types).build();
        respond(batch.map_err(of_flight)?)
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        described(&query, &metadata::primary_keys(), request)
    }

    async fn do_get_primary_keys(
        &self,
        _query: CommandGetPrimaryKeys,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        respond(RecordBatch::new_empty(metadata::primary_keys()))
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        described(&query, &metadata::foreign_keys(), request)
    }

    async fn do_get_exported_keys(
        &self,
        _query: CommandGetExportedKeys,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        respond(RecordBatch::new_empty(metadata::foreign_keys()))
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        described(&query, &metadata::foreign_keys(), request)
    }

    async fn do_get_imported_keys(
        &self,
        _query: CommandGetImportedKeys,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        respond(RecordBatch::new_empty(metadata::foreign_keys()))
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        described(&query, &metadata::foreign_keys(), request)
    }

    async fn do_get_cross_reference(
        &self,
        _query: CommandGetCrossReference,
        _request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        respond(RecordBatch::new_empty(metadata::foreign_keys()))
    }

    async fn do_put_statement_update(
        &self,
        _command: CommandStatementUpdate,
        _request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(refused("no updates"))
    }

    async fn do_put_prepared_statement_update(
        &self,
        _command: CommandPreparedStatementUpdate,
        _request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(refused("no updates"))
    }

    async fn do_put_statement_ingest(
        &self,
        _command: CommandStatementIngest,
        _request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(refused("no ingestion"))
    }

    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}
