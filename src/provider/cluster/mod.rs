//! Queries on several machines, with [`datafusion_distributed`].
//!
//! A query is planned where it is asked, in the *coordinator*. The rule [`DistributedScans`] finds the
//! parts of the plan that read arrays row by row, divides the chunks among *tasks*, and sends each task
//! to a [`ClusterWorker`]. The coordinator merges the rows of all tasks, and runs the rest of the plan.
//!
//! ```text
//! SELECT time, avg(value) FROM t2m GROUP BY time
//!
//! coordinator    ClusterExec
//!                  AggregateExec: mode=Final                     merges partial states
//!                    CoalescePartitionsExec
//!                      NetworkCoalesceExec: input_tasks=2
//!                        ^                      ^
//! workers        ArrayAggregateExec       ArrayAggregateExec     mode=Partial
//!                  chunks 0..500            chunks 500..1000
//! ```
//!
//! - `planning` divides plans into tasks.
//! - `execution` runs the whole plan: `ClusterExec` sends the tasks, and
//!   repeats the query if a worker is lost before the first rows arrive.
//! - `build_rows` merges joins that return rows of the build side.
//! - `channel` connects to workers, and names them in errors.
//! - `envelope` encodes tasks.
//! - `worker` decodes tasks and runs them, with `task` at their root. It opens only files under its
//!   [`Roots`](crate::Roots).
//! - `row_encoding` encodes the rows that workers send.
//! - `progress` asks workers how much of a query they have read.
//! - `settings` carries the settings of the coordinator's session to the workers.

mod access;
mod build_rows;
mod channel;
mod envelope;
mod execution;
mod planning;
mod progress;
mod row_encoding;
mod settings;
mod task;
mod worker;

use std::sync::Arc;

use datafusion::common::{Result, config_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_distributed::WorkerResolver;
use url::Url;

pub use access::ClusterAccess;
pub use planning::rule::DistributedScans;
pub use worker::ClusterWorker;

/// Returns the session with queries distributed over workers. Prepare the session with
/// [`enable_arrays`](crate::enable_arrays) first.
///
/// `resolver` lists the workers, every time a query is planned and run. If they never change, set
/// `tet.cluster` to their URLs instead, and add [`ClusterAccess`] as an extension to the configuration of
/// the session if the workers need a token. The setting takes precedence over the resolver.
///
/// ```
/// use std::sync::Arc;
///
/// use datafusion::error::Result;
/// use datafusion::prelude::SessionContext;
/// use datafusion_distributed::WorkerResolver;
/// use tet_sql::{ArrayOptions, ClusterAccess, enable_arrays, enable_cluster};
/// use url::Url;
///
/// struct Workers;
///
/// impl WorkerResolver for Workers {
///     fn get_urls(&self) -> Result<Vec<Url>> {
///         let urls = ["http://10.0.0.1:50052", "http://10.0.0.2:50052"];
///         Ok(urls.iter().filter_map(|url| Url::parse(url).ok()).collect())
///     }
/// }
///
/// let context = enable_arrays(SessionContext::new(), ArrayOptions::new());
/// let access = ClusterAccess::new().with_token("s3cret");
/// let context = enable_cluster(context, Arc::new(Workers), access);
/// ```
pub fn enable_cluster(
    context: SessionContext,
    resolver: Arc<dyn WorkerResolver>,
    access: ClusterAccess,
) -> SessionContext {
    let state = context.state();
    let mut rules = state.physical_optimizers().to_vec();
    let own = DistributedScans::with_workers(resolver);
    rules.retain(|rule| rule.name() != DistributedScans::NAME);
    rules.push(Arc::new(own));
    let config = state.config().clone().with_extension(Arc::new(access));
    let state = SessionStateBuilder::new_from_existing(state)
        .with_physical_optimizer_rules(rules)
        .with_config(config)
        .build();
    // The state is replaced in place, because the catalog of quoted paths refers to it.
    *context.state_ref().write() = state;
    context
}

/// Parses the URLs of workers, as in `tet.cluster`.
pub(in crate::provider) fn parse_workers(text: &str) -> Result<Vec<Url>> {
    let urls = text.split(',').map(str::trim).filter(|url| !url.is_empty());
    urls.map(|text| match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => config_err!("tet.cluster: \"{text}\" is not a URL like http://host:50052"),
    })
    .collect()
}

/// Workers that never change.
struct FixedWorkers(Vec<Url>);

impl WorkerResolver for FixedWorkers {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}
