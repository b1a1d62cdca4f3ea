//! Connects to workers, and names the worker in every error.

use std::fmt::{self, Display, Formatter};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, MaybeEncoded, SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::runtime::{Builder, Runtime};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use url::Url;
use uuid::Uuid;

use crate::provider::cluster::access::ClusterAccess;
use crate::provider::cluster::envelope::Envelope;
use crate::provider::cluster::progress::{Counts, METHOD, Query};
use crate::provider::cluster::row_encoding::decode;
use crate::provider::codec::VERSION;

/// The maximum time to connect to a worker.
const CONNECT: Duration = Duration::from_secs(10);
/// The interval at which a silent worker is pinged, and the time that it has to answer.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// A worker that could not be reached, or whose connection was lost.
#[derive(Debug)]
pub(super) struct LostWorker {
    worker: Url,
    reason: String,
}

impl Display for LostWorker {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "lost the worker {}: {}",
            shown(&self.worker),
            self.reason
        )
    }
}

impl std::error::Error for LostWorker {}

impl LostWorker {
    fn error(worker: &Url, reason: String) -> DataFusionError {
        let worker = worker.clone();
        DataFusionError::External(Box::new(Self { worker, reason }))
    }

    /// Returns the lost worker that an error is about.
    pub fn of(error: &DataFusionError) -> Option<&Self> {
        match error.find_root() {
            DataFusionError::External(error) => error.downcast_ref(),
            _ => None,
        }
    }
}

/// Returns the URL of a worker without the slash that parsing adds.
fn shown(worker: &Url) -> &str {
    worker.as_str().trim_end_matches('/')
}

/// The connections of a coordinator. They live in a runtime of their own, because the runtime of a query
/// may end before the next query.
#[derive(Debug, Clone)]
pub(super) struct Channels {
    access: Arc<ClusterAccess>,
    /// The values of the subqueries to which the tasks refer.
    subqueries: Option<ScalarSubqueryResults>,
}

impl Channels {
    pub fn new(access: Arc<ClusterAccess>, subqueries: Option<ScalarSubqueryResults>) -> Self {
        Self { access, subqueries }
    }

    /// Returns a connection to a worker of the same version.
    async fn connect(&self, worker: &Url) -> Result<Box<dyn WorkerChannel>> {
        let token = self.token()?;
        let client = |channel: Channel| -> Box<dyn WorkerChannel> {
            let token = token.clone();
            let authorized = BoxCloneSyncChannel::new(Authorized { channel, token });
            Box::new(NamedWorker {
                worker: worker.clone(),
                access: Arc::clone(&self.access),
                subqueries: self.subqueries.clone(),
                inner: create_worker_client(authorized),
            })
        };
        if let Some(channel) = self.access.channel(worker) {
            return Ok(client(channel));
        }
        let endpoint = self.endpoint(worker)?;
        let connecting = runtime()?.spawn(async move { endpoint.connect().await });
        let connected = connecting.await;
        let connected =
            connected.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        let channel = connected.map_err(|error| LostWorker::error(worker, with_sources(&error)))?;
        let mut found = client(channel.clone());
        let GetWorkerInfoResponse { version } =
            found.get_worker_info(GetWorkerInfoRequest {}).await?;
        if version != VERSION {
            return exec_err!(
                "the worker {} runs tet-sql {version}, but this is {VERSION}; use the same version",
                shown(worker)
            );
        }
        self.access.keep(worker, &channel);
        Ok(found)
    }

    /// Returns the authorization header, or `None` without a token.
    fn token(&self) -> Result<Option<HeaderValue>> {
        let token = self.access.token();
        let token = token.map(|token| format!("Bearer {token}").parse());
        token.transpose().map_err(|_| {
            exec_datafusion_err!("the token of the workers cannot be sent in a header")
        })
    }

    fn endpoint(&self, worker: &Url) -> Result<Endpoint> {
        let invalid =
            |error: &dyn Display| exec_datafusion_err!("the worker {}: {error}", shown(worker));
        let endpoint =
            Endpoint::from_shared(worker.to_string()).map_err(|error| invalid(&error))?;
        let endpoint = endpoint
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .tcp_nodelay(true);
        if worker.scheme() != "https" {
            return Ok(endpoint);
        }
        let Some(authorities) = self.access.authorities() else {
            return exec_err!(
                "the worker {} uses TLS: give the authority that signed its certificate, with --cluster-ca",
                shown(worker)
            );
        };
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities));
        endpoint.tls_config(tls).map_err(|error| invalid(&error))
    }

    /// Checks that all workers answer.
    pub async fn check(&self, workers: &[Url]) -> Result<()> {
        let answers = workers.iter().map(|worker| async move {
            let mut client = self.connect(worker).await?;
            client
                .get_worker_info(GetWorkerInfoRequest {})
                .await
                .map(drop)
        });
        futures::future::try_join_all(answers).await.map(drop)
    }

    /// Returns the workers that answer, in their order.
    pub async fn reachable(&self, workers: &[Url]) -> Vec<Url> {
        let answers = workers.iter().map(|worker| async move {
            let mut client = self.connect(worker).await.ok()?;
            let answer = client.get_worker_info(GetWorkerInfoRequest {}).await;
            answer.ok().map(|_| worker.clone())
        });
        let answers = futures::future::join_all(answers).await;
        answers.into_iter().flatten().collect()
    }

    /// Returns a worker's counts for a query; `None` if the worker does not answer.
    pub async fn progress(&self, worker: &Url, query: Uuid) -> Option<Counts> {
        let (channel, token) = (self.access.channel(worker)?, self.token().ok()?);
        let mut client = tonic::client::Grpc::new(Authorized { channel, token });
        client.ready().await.ok()?;
        let id = query.to_string();
        let request = tonic::Request::new(Query { id });
        let method = PathAndQuery::from_static(METHOD);
        let answer = client.unary(request, method, ProstCodec::default()).await;
        answer.ok().map(tonic::Response::into_inner)
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        self.connect(url).await
    }
}

/// Returns the runtime of all connections of this process.
pub(super) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tet-sql-cluster")
            .enable_all()
            .build()
    });
    RUNTIME
        .as_ref()
        .map_err(|error| exec_datafusion_err!("cannot start the thread of the cluster: {error}"))
}

/// Returns the message of an error with those of its sources, because the message of a transport error
/// itself does not say what failed.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// A connection that sends the token with every request.
#[derive(Debug, Clone)]
struct Authorized {
    channel: Channel,
    token: Option<HeaderValue>,
}

impl Service<Request<Body>> for Authorized {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = <Channel as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.channel, context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        Service::call(&mut self.channel, request)
    }
}

/// A connection to a worker whose errors name the worker.
struct NamedWorker {
    worker: Url,
    access: Arc<ClusterAccess>,
    subqueries: Option<ScalarSubqueryResults>,
    inner: Box<dyn WorkerChannel>,
}

impl NamedWorker {
    /// Returns a function that names the worker in errors.
    fn naming(&self) -> impl Fn(DataFusionError) -> DataFusionError + Send + Sync + 'static {
        let (worker, access) = (self.worker.clone(), Arc::clone(&self.access));
        move |error| {
            let named = named(&worker, error);
            if LostWorker::of(&named).is_some() {
                access.forget(&worker);
            }
            named
        }
    }
}

/// Names the worker in an error.
fn named(worker: &Url, error: DataFusionError) -> DataFusionError {
    let name = shown(worker);
    match error.find_root() {
        DataFusionError::External(inner) => match inner.downcast_ref::<Status>() {
            Some(status) => of_status(worker, status),
            // Such as a file that the worker does not have.
            None => DataFusionError::External(format!("worker {name}: {inner}").into()),
        },
        DataFusionError::ResourcesExhausted(text) => {
            DataFusionError::ResourcesExhausted(format!("worker {name}: {text}"))
        }
        _ => error.context(format!("worker {name}")),
    }
}

/// Returns the error of a status that the transport or the server reports, not the query.
fn of_status(worker: &Url, status: &Status) -> DataFusionError {
    let (name, message) = (shown(worker), status.message());
    match status.code() {
        Code::Unauthenticated => exec_datafusion_err!(
            "the worker {name} refuses the coordinator: {message}; give the token of the workers with \
             --cluster-token-file or --cluster-token-env"
        ),
        Code::Unimplemented => exec_datafusion_err!("{name} is no worker of tet-sql: {message}"),
        Code::InvalidArgument | Code::PermissionDenied | Code::ResourceExhausted => {
            exec_datafusion_err!("the worker {name}: {message}")
        }
        _ => LostWorker::error(worker, message.to_string()),
    }
}

#[async_trait]
impl WorkerChannel for NamedWorker {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        mut set_plan_request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let naming = self.naming();
        if let MaybeEncoded::Decoded(plan) = set_plan_request.plan {
            let subqueries = self.subqueries.clone();
            set_plan_request.plan = MaybeEncoded::Decoded(Arc::new(Envelope { plan, subqueries }));
        }
        let answers = self
            .inner
            .coordinator_channel(headers, set_plan_request, messages, metrics, context)
            .await
            .map_err(&naming)?;
        Ok(answers.map(move |answer| answer.map_err(&naming)).boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let naming = self.naming();
        let streams = self
            .inner
            .execute_task(headers, request, metrics, context)
            .await
            .map_err(naming)?;
        let streams = streams.into_iter().map(|stream| {
            let naming = self.naming();
            let rows = stream.map(move |batch| batch.and_then(decode).map_err(&naming));
            rows.boxed()
        });
        Ok(streams.collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse> {
        let naming = self.naming();
        self.inner.get_worker_info(request).await.map_err(naming)
    }
}
