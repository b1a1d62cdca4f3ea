//! Runs the tasks that coordinators send.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_distributed::{
    DistributedExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse,
    WorkerQueryContext,
};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;

use crate::provider::catalog::open_tables::OpenTables;
use crate::provider::catalog::session::enable_arrays;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::cluster::envelope::EnvelopeCodec;
use crate::provider::cluster::progress::{RunningTasks, WithProgress};
use crate::provider::cluster::settings;
use crate::provider::cluster::task::TaskExec;
use crate::provider::codec::{Roots, VERSION, check_operators};

/// A worker of a cluster: decodes the tasks of coordinators, and runs them.
///
/// Whoever reaches a worker can read all arrays under its roots. Put the service behind a token, as
/// `tet-sql worker` does.
///
/// ```
/// use std::sync::Arc;
///
/// use datafusion::execution::runtime_env::RuntimeEnv;
/// use tet_sql::{ClusterWorker, Roots};
///
/// # fn main() -> datafusion::error::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let directory = folder.path();
/// let worker = ClusterWorker::new(Roots::new([directory])?, Arc::new(RuntimeEnv::default()));
/// // tonic::transport::Server::builder().add_service(worker.into_service())
/// # let _ = worker;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ClusterWorker {
    roots: Arc<Roots>,
    runtime: Arc<RuntimeEnv>,
    time_limit: Option<Duration>,
}

impl ClusterWorker {
    /// Creates a worker that opens files under `roots` only. The tasks of all queries share the memory
    /// pool of `runtime`.
    pub fn new(roots: Roots, runtime: Arc<RuntimeEnv>) -> Self {
        Self {
            roots: Arc::new(roots),
            runtime,
            time_limit: None,
        }
    }

    /// Sets the maximum time of a task, from its plan to its last row.
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Returns the gRPC service of the worker.
    pub fn into_service(
        self,
    ) -> impl Service<
        Request<Body>,
        Response = Response<Body>,
        Error = Infallible,
        Future: Send + 'static,
    > + NamedService
    + Clone
    + Send
    + Sync
    + 'static {
        let (roots, time_limit) = (self.roots, self.time_limit);
        let tasks = RunningTasks::default();
        let (running, tables) = (tasks.clone(), Arc::new(OpenTables::default()));
        let session = move |query: WorkerQueryContext| {
            let (roots, running) = (Arc::clone(&roots), running.clone());
            let tables = Arc::clone(&tables);
            async move { session(query, roots, time_limit, running, tables) }
        };
        let worker = Worker::from_session_builder(session)
            .with_runtime_env(self.runtime)
            .with_version(VERSION);
        let service = worker.into_worker_server();
        WithProgress { tasks, service }
    }
}

/// Returns the session that decodes and runs a task, with the settings of the coordinator's session.
fn session(
    query: WorkerQueryContext,
    roots: Arc<Roots>,
    time_limit: Option<Duration>,
    running: RunningTasks,
    tables: Arc<OpenTables>,
) -> Result<SessionState> {
    let WorkerQueryContext {
        mut builder,
        headers,
    } = query;
    let config = builder.config().get_or_insert_default();
    config.set_extension(tables);
    settings::apply(&headers, config.options_mut())?;
    let context = SessionContext::new_with_state(builder.build());
    let context = enable_arrays(context, ArrayOptions::new());
    let mut state = context.state();
    state.set_distributed_user_codec(EnvelopeCodec::within(roots));
    // An operator that travels without an envelope is none of this crate.
    state.set_distributed_worker_plan_rewrite_handler(move |event: WorkerPlanRewriteEvent| {
        check_operators(&event.plan)?;
        let plan: Arc<dyn ExecutionPlan> = Arc::new(TaskExec::new(event.plan, time_limit));
        running.add(&headers, &plan);
        Ok(WorkerPlanRewriteEventResponse::new(plan))
    });
    Ok(state)
}
