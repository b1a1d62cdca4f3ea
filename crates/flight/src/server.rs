//! The Flight SQL server.

use crate::dialect::{DataFusionDialect, Dialect, Session};
use crate::execution::queries::Queries;
use crate::execution::running::Running;
use crate::execution::runtimes::Runtimes;
use crate::limits::Limits;
use crate::network::authentication::Authentication;
use crate::network::connections::Connections;
use crate::options::Options;
use crate::protocol::flight::Flight;
use crate::protocol::service::Service;
use arrow_flight::flight_service_server::FlightServiceServer;
use datafusion::prelude::SessionContext;
use futures::{Stream, StreamExt};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::NamedService;
use tonic::service::interceptor::InterceptedService;
use tonic::transport;

/// The time that clients get to receive the last message before their connections are closed.
const LAST_MESSAGES: Duration = Duration::from_millis(500);
/// The maximum size of a request in bytes: a statement, or a batch of its parameters.
const MAX_REQUEST_BYTES: usize = 16 << 20;
/// The maximum number of concurrent requests on one connection.
const STREAMS: u32 = 128;
/// The interval at which silent clients are pinged, and the time they have to answer.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// A read-only Flight SQL server for a DataFusion session.
///
/// Clients can query the tables of the session but not change them. See the [crate
/// documentation](crate) for an example.
///
/// The server caches the logical plans of statements. Register all tables before serving: a table
/// replaced later may still be read through a cached plan.
pub struct Server {
    session: Session,
    options: Options,
    on_ready: Option<Box<dyn FnOnce() + Send>>,
}

/// The error that stopped a server.
#[derive(Debug)]
pub struct Error(String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<transport::Error> for Error {
    /// Includes the sources of the error, because the message of a transport error itself does not
    /// say what failed.
    fn from(error: transport::Error) -> Self {
        use std::error::Error as _;
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        Self(text)
    }
}

impl Server {
    /// Creates a server for a session, with DataFusion's own SQL.
    pub fn new(context: SessionContext, options: Options) -> Self {
        Self {
            session: Session {
                context,
                dialect: Arc::new(DataFusionDialect),
            },
            options,
            on_ready: None,
        }
    }

    /// Replaces how statements are planned and errors are described.
    pub fn with_dialect(mut self, dialect: Arc<dyn Dialect>) -> Self {
        self.session.dialect = dialect;
        self
    }

    /// Calls a function once the server accepts connections.
    pub fn on_ready(mut self, ready: impl FnOnce() + Send + 'static) -> Self {
        self.on_ready = Some(Box::new(ready));
        self
    }

    /// Serves connections until `stop` yields an item. Running queries may then finish for up to
    /// [`Options::grace`]; a second item of `stop` ends this time early. The end of
    /// `stop` means nothing.
    ///
    /// Must run on a Tokio runtime. Queries run on runtimes of their own.
    ///
    /// # Errors
    /// Fails if TLS cannot be set up or the transport fails.
    pub async fn serve<T>(
        self,
        listener: TcpListener,
        stop: impl Stream<Item = T>,
    ) -> Result<(), Error> {
        let Self {
            session,
            options,
            on_ready,
        } = self;
        let (max_queries, log) = (usize::from(options.max_queries), &options.log);
        let workers = Runtimes::new("query", options.threads, max_queries, log.clone());
        let planners = Runtimes::new("planner", 1, max_queries, log.clone());
        let authentication = Authentication::new(options.token.as_ref(), log.counted_apart());
        let running = Running::default();
        let limits = Limits::new(&options);
        let queries = Queries::new(session, workers, planners, limits, running.clone());
        let service = Service::new(queries, authentication.clone(), &options)
            .map_err(|status| Error(status.message().to_owned()))?;
        let service =
            FlightServiceServer::new(Flight(service)).max_decoding_message_size(MAX_REQUEST_BYTES);
        let ready = on_ready.unwrap_or_else(|| Box::new(|| {}));
        serve_admitted(
            service,
            authentication,
            &options,
            listener,
            stop,
            ready,
            || {
                running.stop();
            },
        )
        .await
    }
}

/// Serves another gRPC service than Flight SQL, with the token, the TLS and the limits on connections of
/// `options`. Calls `ready` once the server accepts connections. Requests may finish for up to
/// [`Options::grace`] after `stop` yields an item; a second item ends this time early.
///
/// # Errors
/// Fails if TLS cannot be set up or the transport fails.
pub async fn serve_service<S, T>(
    service: S,
    options: Options,
    listener: TcpListener,
    stop: impl Stream<Item = T>,
    ready: impl FnOnce() + Send,
) -> Result<(), Error>
where
    S: tonic::codegen::Service<
            http::Request<Body>,
            Response = http::Response<Body>,
            Error = Infallible,
            Future: Send + 'static,
        > + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
{
    let log = options.log.counted_apart();
    let authentication = Authentication::new(options.token.as_ref(), log);
    serve_admitted(
        service,
        authentication,
        &options,
        listener,
        stop,
        ready,
        || {},
    )
    .await
}

/// Serves a service to admitted requests until `stop` yields an item. Calls `end` if requests are still
/// running when their time is over.
async fn serve_admitted<S, T>(
    service: S,
    authentication: Authentication,
    options: &Options,
    listener: TcpListener,
    stop: impl Stream<Item = T>,
    ready: impl FnOnce() + Send,
    end: impl FnOnce(),
) -> Result<(), Error>
where
    S: tonic::codegen::Service<
            http::Request<Body>,
            Response = http::Response<Body>,
            Error = Infallible,
            Future: Send + 'static,
        > + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
{
    let mut stop = pin!(stop.chain(futures::stream::pending()));
    let mut server = transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .max_concurrent_streams(STREAMS);
    if let Some(tls) = options.tls.clone() {
        server = server.tls_config(tls)?;
    }
    let service = InterceptedService::new(service, authentication);
    let (finish, finished) = oneshot::channel::<()>();
    let incoming = Connections::new(listener, options).incoming();
    let serving = server
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, async {
            // Dropping the sender also stops the server.
            let _ = finished.await;
        });
    let mut serving = pin!(serving);
    ready();
    tokio::select! {
        result = &mut serving => {
            result?;
            return Err(Error("the server ended by itself".to_owned()));
        }
        _ = stop.next() => {}
    }
    let _ = finish.send(());
    tokio::select! {
        _ = &mut serving => return Ok(()),
        _ = stop.next() => {}
        () = tokio::time::sleep(options.grace) => {}
    }
    end();
    let _ = timeout(LAST_MESSAGES, serving).await;
    Ok(())
}
