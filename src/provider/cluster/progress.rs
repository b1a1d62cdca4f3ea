//! The progress of tasks: a coordinator asks its workers how much of a query they have read.
//!
//! datafusion-distributed sends the metrics of a task when the whole query has ended. Until then it
//! reports only row counts, which are zero for aggregates.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, MetricsSet};
use futures::FutureExt;
use futures::future::BoxFuture;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tonic::server::{NamedService, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use uuid::Uuid;

/// The interval at which workers are asked. Most queries end before the first request.
const INTERVAL: Duration = Duration::from_millis(500);
/// The maximum time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The header of all requests of a query, with the identifier of the query.
const HEADER: HeaderName = HeaderName::from_static("x-tet-sql-query");
/// The path of the gRPC method. It is added to the service of datafusion-distributed, which has no method of
/// this name.
pub(super) const METHOD: &str = "/worker.WorkerService/GetProgress";

/// Returns the header that tells a worker to which query a task belongs.
pub(super) fn header(query: Uuid) -> Option<(HeaderName, HeaderValue)> {
    let query = HeaderValue::try_from(query.to_string());
    query.ok().map(|query| (HEADER, query))
}

/// A request for the progress of a query.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Query {
    #[prost(string, tag = "1")]
    pub id: String,
}

/// The chunks, bytes and requests of all tasks of a query on one worker, by the name of the metric.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Counts {
    #[prost(map = "string, uint64", tag = "1")]
    of_metrics: HashMap<String, u64>,
}

impl Counts {
    /// Adds the progress metrics of all operators of a plan.
    fn add(&mut self, plan: &dyn ExecutionPlan) {
        for metric in plan.metrics().iter().flat_map(MetricsSet::iter) {
            if let MetricValue::Count { name, count } = metric.value()
                && is_progress(name)
            {
                let total = self.of_metrics.entry(name.to_string()).or_default();
                *total = total.saturating_add(count.value() as u64);
            }
        }
        for child in plan.children() {
            self.add(child.as_ref());
        }
    }
}

/// Returns `true` for the metrics that tell how much a scan has read.
fn is_progress(metric: &str) -> bool {
    metric.starts_with("chunks_") || ["bytes_read", "bytes_fetched", "requests"].contains(&metric)
}

/// The tasks that a worker runs.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningTasks(Arc<Mutex<Vec<RunningTask>>>);

#[derive(Debug)]
struct RunningTask {
    query: Uuid,
    plan: Weak<dyn ExecutionPlan>,
}

impl RunningTasks {
    /// Adds a task with the headers of its request. A task whose plan was dropped is removed by the next call.
    pub fn add(&self, headers: &HeaderMap, plan: &Arc<dyn ExecutionPlan>) {
        let query = headers.get(HEADER).and_then(|query| query.to_str().ok());
        if let Some(query) = query.and_then(|query| query.parse().ok()) {
            let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.retain(|task| task.plan.strong_count() > 0);
            let plan = Arc::downgrade(plan);
            tasks.push(RunningTask { query, plan });
        }
    }

    fn counts(&self, query: Uuid) -> Counts {
        let plans: Vec<_> = {
            let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let tasks = tasks.iter().filter(|task| task.query == query);
            tasks.filter_map(|task| task.plan.upgrade()).collect()
        };
        let mut counts = Counts::default();
        plans.iter().for_each(|plan| counts.add(plan.as_ref()));
        counts
    }
}

impl UnaryService<Query> for RunningTasks {
    type Response = Counts;
    type Future = std::future::Ready<Result<tonic::Response<Counts>, Status>>;

    fn call(&mut self, request: tonic::Request<Query>) -> Self::Future {
        let query = request.into_inner().id.parse();
        let counts = query.map(|query| tonic::Response::new(self.counts(query)));
        let invalid = |error| Status::new(Code::InvalidArgument, format!("the query: {error}"));
        std::future::ready(counts.map_err(invalid))
    }
}

/// The service of a worker, extended by [`METHOD`].
#[derive(Debug, Clone)]
pub(super) struct WithProgress<S> {
    pub tasks: RunningTasks,
    pub service: S,
}

impl<S> Service<Request<Body>> for WithProgress<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() != METHOD {
            return self.service.call(request).boxed();
        }
        let tasks = self.tasks.clone();
        async move {
            let mut server = tonic::server::Grpc::new(ProstCodec::default());
            Ok(server.unary(tasks, request).await)
        }
        .boxed()
    }
}

impl<S: NamedService> NamedService for WithProgress<S> {
    const NAME: &'static str = S::NAME;
}

/// The last counts of each worker for a query.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Vec<Counts>>);

impl Progress {
    /// Asks all workers every [`INTERVAL`] until the future is dropped. `ask` takes the index of a worker. A worker
    /// that does not answer keeps its last counts.
    pub async fn follow<F>(&self, workers: usize, ask: impl Fn(usize) -> F)
    where
        F: Future<Output = Option<Counts>>,
    {
        *self.counts() = vec![Counts::default(); workers];
        let ask = &ask;
        let followed = (0..workers).map(|worker| async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                let answer = tokio::time::timeout(PATIENCE, ask(worker)).await;
                if let (Ok(Some(answer)), Some(counts)) = (answer, self.counts().get_mut(worker)) {
                    *counts = answer;
                }
            }
        });
        futures::future::join_all(followed).await;
    }

    /// Returns the counts of all workers, as one metric per worker and name.
    pub fn metrics(&self) -> MetricsSet {
        let mut metrics = MetricsSet::new();
        for (name, value) in self.counts().iter().flat_map(|counts| &counts.of_metrics) {
            let (name, count) = (name.clone().into(), Count::new());
            count.add(usize::try_from(*value).unwrap_or(usize::MAX));
            let value = MetricValue::Count { name, count };
            metrics.push(Arc::new(Metric::new(value, None)));
        }
        metrics
    }

    fn counts(&self) -> MutexGuard<'_, Vec<Counts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
