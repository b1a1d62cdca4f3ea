//! [`ClusterExec`]: runs a query whose tasks are on workers.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, ReplaceChildrenOptions, reset_plan_states,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    replace_children_if_necessary,
};
use datafusion_distributed::{
    DistributedExec, DistributedExt, DistributedMetricsFormat, NetworkBoundaryExt, RouteTasksEvent,
    RouteTasksEventResponse, Stage, WorkerResolver, rewrite_distributed_plan_with_metrics,
};
use futures::{StreamExt, TryStreamExt};
use url::Url;
use uuid::Uuid;

use crate::provider::cluster::access::ClusterAccess;
use crate::provider::cluster::channel::{Channels, LostWorker, runtime};
use crate::provider::cluster::envelope::EnvelopeCodec;
use crate::provider::cluster::planning::broadcast::with_rows;
use crate::provider::cluster::progress::{self, Progress};
use crate::provider::cluster::settings;

/// The maximum time to wait for the metrics of workers when all rows have arrived.
const METRICS: Duration = Duration::from_secs(2);

/// Runs a plan whose stages run on workers. The plan itself runs in this process.
///
/// If a worker is lost before the first rows arrive, the whole query runs once more, on the workers that
/// still answer. Later, and in statements that write, a lost worker fails the query.
pub(super) struct ClusterExec {
    plan: Arc<dyn ExecutionPlan>,
    /// The plan of the same query without tasks.
    undivided: Arc<dyn ExecutionPlan>,
    workers: Arc<dyn WorkerResolver>,
    /// The number of workers when the query was planned.
    count: usize,
    /// The values of the subqueries to which the plan refers, known once the plan runs.
    subqueries: Option<ScalarSubqueryResults>,
    /// The plan of the first execution, with the metrics of all tasks.
    executed: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
    /// The counts of the running tasks.
    progress: Arc<Progress>,
}

impl Debug for ClusterExec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterExec")
            .field("plan", &self.plan)
            .field("workers", &self.count)
            .finish_non_exhaustive()
    }
}

impl ClusterExec {
    /// Creates the operator. `plan` has one partition.
    pub fn new(
        plan: Arc<dyn ExecutionPlan>,
        undivided: Arc<dyn ExecutionPlan>,
        workers: Arc<dyn WorkerResolver>,
        count: usize,
        subqueries: Option<ScalarSubqueryResults>,
    ) -> Self {
        Self {
            plan,
            undivided,
            workers,
            count,
            subqueries,
            executed: Arc::default(),
            progress: Arc::default(),
        }
    }
}

impl DisplayAs for ClusterExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => write!(f, "workers={}", self.count),
            _ => write!(f, "ClusterExec: workers={}", self.count),
        }
    }
}

impl ExecutionPlan for ClusterExec {
    fn name(&self) -> &'static str {
        "ClusterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.executed.get().unwrap_or(&self.plan)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(plan), true) => {
                let (undivided, workers) = (&self.undivided, &self.workers);
                Ok(Arc::new(Self::new(
                    plan,
                    Arc::clone(undivided),
                    Arc::clone(workers),
                    self.count,
                    self.subqueries.clone(),
                )))
            }
            _ => internal_err!("ClusterExec has one child"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("ClusterExec has no partition {partition}");
        }
        let access = context.session_config().get_extension::<ClusterAccess>();
        let run = Run {
            plan: Arc::clone(&self.plan),
            undivided: Arc::clone(&self.undivided),
            workers: Arc::clone(&self.workers),
            channels: Channels::new(access.unwrap_or_default(), self.subqueries.clone()),
            executed: Arc::clone(&self.executed),
            progress: Arc::clone(&self.progress),
            context,
        };
        let rows = futures::stream::once(run.start()).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    /// Returns the last counts of the workers while the query runs. Afterwards the children have the metrics of
    /// all tasks.
    fn metrics(&self) -> Option<MetricsSet> {
        match self.executed.get() {
            None => Some(self.progress.metrics()),
            Some(_) => None,
        }
    }
}

/// One execution of the operator.
struct Run {
    plan: Arc<dyn ExecutionPlan>,
    undivided: Arc<dyn ExecutionPlan>,
    workers: Arc<dyn WorkerResolver>,
    channels: Channels,
    executed: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
    progress: Arc<Progress>,
    context: Arc<TaskContext>,
}

impl Run {
    /// Starts the query, and starts it again if a worker is lost before the first rows arrive.
    async fn start(mut self) -> Result<SendableRecordBatchStream> {
        match with_rows(&self.plan, &self.context).await? {
            Some(plan) => self.plan = plan,
            None => return self.start_undivided(),
        }
        let workers = self.workers.get_urls()?;
        match self.attempt(&self.plan, workers.clone()).await {
            Err(error) if LostWorker::of(&error).is_some() && !self.writes()? => {
                let reachable = self.channels.reachable(&workers).await;
                match reachable.is_empty() {
                    true => Err(error),
                    false => self.attempt(&restarted(&self.plan)?, reachable).await,
                }
            }
            started => started,
        }
    }

    /// Starts the query in this process. The build sides that were too large to send run again.
    fn start_undivided(self) -> Result<SendableRecordBatchStream> {
        let mut plan = reset_plan_states(self.undivided)?;
        if plan.output_partitioning().partition_count() > 1 {
            plan = Arc::new(CoalescePartitionsExec::new(plan));
        }
        let _ = self.executed.set(Arc::clone(&plan));
        plan.execute(0, self.context)
    }

    /// Starts the query on these workers, and waits for the first rows.
    async fn attempt(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        workers: Vec<Url>,
    ) -> Result<SendableRecordBatchStream> {
        if workers.is_empty() {
            return Err(exec_datafusion_err!("the cluster has no workers"));
        }
        // The first rows of one worker could otherwise arrive before another is found to be lost.
        self.channels.check(&workers).await?;
        let query = Uuid::new_v4();
        let context = Arc::new(self.context_for(workers.clone(), query)?);
        let running = DistributedExec::new(with_id(plan, query)?).with_metrics_collection(true);
        let running: Arc<dyn ExecutionPlan> = Arc::new(running);
        let mut rows = running.execute(0, context)?;
        let following = self.follow(workers, query)?;
        let first = rows.next().await.transpose()?;
        let executed = Arc::clone(&self.executed);
        let end = async move {
            drop(following);
            let plan = rewrite_distributed_plan_with_metrics(
                running,
                DistributedMetricsFormat::Aggregated,
            );
            if let Ok(Ok(plan)) = tokio::time::timeout(METRICS, plan).await
                && let Some(plan) = plan.children().first()
            {
                // Only the first execution of a plan is shown.
                let _ = executed.set(Arc::clone(plan));
            }
            None
        };
        let schema = rows.schema();
        let first = futures::stream::iter(first.map(Ok));
        let end = futures::stream::once(end).filter_map(|none: Option<Result<_>>| async { none });
        let rows = first.chain(rows).chain(end);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// Asks the workers for the progress of the query until the returned task is dropped. The task runs on the
    /// runtime of the connections, because decoding may occupy the threads of the query.
    fn follow(&self, mut workers: Vec<Url>, query: Uuid) -> Result<SpawnedTask<()>> {
        // One answer covers all tasks of a worker, which may be listed twice.
        workers.sort_unstable();
        workers.dedup();
        let (progress, channels) = (Arc::clone(&self.progress), self.channels.clone());
        let _runtime = runtime()?.enter();
        Ok(SpawnedTask::spawn(async move {
            let ask = |worker: usize| channels.progress(&workers[worker], query);
            progress.follow(workers.len(), ask).await;
        }))
    }

    /// Returns the context in which the coordinator's plan runs.
    fn context_for(&self, workers: Vec<Url>, query: Uuid) -> Result<TaskContext> {
        let context = &self.context;
        let mut config = context.session_config().clone();
        let mut headers = settings::headers(config.options())?;
        headers.extend(progress::header(query));
        config.set_distributed_channel_resolver(self.channels.clone());
        config.set_distributed_user_codec(EnvelopeCodec::default());
        config.set_distributed_passthrough_headers(headers)?;
        // Each task always runs on the same worker, which may have its chunks in the page cache.
        config.set_distributed_route_tasks_handler(move |event: RouteTasksEvent| {
            let urls = workers.iter().cycle().take(event.task_count).cloned();
            Some(Ok(RouteTasksEventResponse::new(urls.collect())))
        });
        Ok(TaskContext::new(
            context.task_id(),
            context.session_id(),
            config,
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        ))
    }

    /// Returns `true` if the plan writes, so that it must not run twice.
    fn writes(&self) -> Result<bool> {
        self.plan.exists(|node| Ok(node.is::<DataSinkExec>()))
    }
}

/// Returns a plan that has started, to run again. Stages keep no state in this process.
fn restarted(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.as_network_boundary().is_some() {
        return Ok(Arc::clone(plan));
    }
    let children = plan.children().into_iter().map(restarted);
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(Arc::clone(plan), children)?.reset_state()
}

/// Returns the plan with this query id in all of its stages. Workers identify tasks by it.
fn with_id(plan: &Arc<dyn ExecutionPlan>, query: Uuid) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = Arc::clone(plan).transform_up(|node| {
        let Some(boundary) = node.as_network_boundary() else {
            return Ok(Transformed::no(node));
        };
        let Stage::Local(mut stage) = boundary.input_stage().clone() else {
            return internal_err!("the stage of a plan has no plan");
        };
        stage.query_id = query;
        let renamed: Arc<dyn ExecutionPlan> = boundary.with_input_stage(Stage::Local(stage))?;
        Ok::<_, DataFusionError>(Transformed::yes(renamed))
    })?;
    Ok(plan.data)
}
