//! Queries on several machines: workers in this process and in processes of their own, and what happens
//! if they fail.

mod answers;
mod faults;
pub(crate) mod processes;
mod progress;

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionContext;
use tet_sql::{ClusterAccess, ClusterWorker, Roots};
use tet_sql_flight::{Options, Token, serve_service};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::sql::rows;

/// Workers in this process, on ports of the loopback address. They stop when this is dropped.
pub(crate) struct Workers {
    pub urls: Vec<String>,
    tasks: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts workers for files under these roots.
    pub async fn start<P: AsRef<Path>>(count: usize, roots: &[P]) -> Self {
        Self::start_with(count, roots, Options::default(), Arc::default()).await
    }

    async fn start_with<P: AsRef<Path>>(
        count: usize,
        roots: &[P],
        options: Options,
        runtime: Arc<RuntimeEnv>,
    ) -> Self {
        Self::start_on(count, roots, options, runtime, |worker| worker).await
    }

    /// Starts workers that `change` has changed.
    async fn start_on<P: AsRef<Path>>(
        count: usize,
        roots: &[P],
        options: Options,
        runtime: Arc<RuntimeEnv>,
        change: impl Fn(ClusterWorker) -> ClusterWorker,
    ) -> Self {
        let (mut urls, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            urls.push(format!("http://{}", listener.local_addr().unwrap()));
            let worker = ClusterWorker::new(Roots::new(roots).unwrap(), Arc::clone(&runtime));
            let (service, options) = (change(worker).into_service(), options.clone());
            tasks.push(tokio::spawn(async move {
                let stop = futures::stream::pending::<()>();
                serve_service(service, options, listener, stop, || {})
                    .await
                    .unwrap();
            }));
        }
        Self { urls, tasks }
    }

    /// Makes a session run its queries on the workers, however little they read.
    pub async fn join(&self, ctx: &SessionContext) {
        use_workers(ctx, &self.urls.join(","), ClusterAccess::new()).await;
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Makes a session run its queries on workers, however little they read.
pub(crate) async fn use_workers(ctx: &SessionContext, urls: &str, access: ClusterAccess) {
    // A session that has seen no array yet has no settings of this crate.
    let state = ctx.state_ref();
    let mut state = state.write();
    let extensions = &mut state.config_mut().options_mut().extensions;
    let mut settings = extensions
        .get::<tet_sql::ArraySettings>()
        .cloned()
        .unwrap_or_default();
    settings.cluster = urls.to_string();
    settings.cluster_task_size = 1;
    extensions.insert(settings);
    state.config_mut().set_extension(Arc::new(access));
}

/// Returns a runtime with a memory pool of this size.
fn with_memory(bytes: usize) -> Arc<RuntimeEnv> {
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes)))
        .build_arc()
        .unwrap()
}

/// Returns options with a token.
fn with_token(token: &str) -> Options {
    Options {
        token: Some(Token::new(token).unwrap()),
        ..Options::default()
    }
}

/// Returns the rows of a query, sorted.
async fn sorted(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let mut rows = rows(ctx, sql).await;
    rows.sort();
    rows
}
