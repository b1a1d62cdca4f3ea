//! [`TaskExec`]: the root of a task on a worker.

use std::fmt::{self, Formatter};
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::provider::cluster::planning::rule::replaced;
use crate::provider::cluster::row_encoding::{encode, encoded_schema};

/// The plan of a task, whose rows are encoded for the network and must all be sent before a deadline, if there
/// is one.
///
/// The operator takes the place of the root of the plan, with its inputs and its metrics, because the
/// coordinator assigns the metrics of a task to operators by their order.
#[derive(Debug)]
pub(super) struct TaskExec {
    plan: Arc<dyn ExecutionPlan>,
    limit: Option<TimeLimit>,
    properties: Arc<PlanProperties>,
}

/// The maximum time of a task.
#[derive(Debug, Clone, Copy)]
struct TimeLimit {
    duration: Duration,
    deadline: Instant,
}

impl TimeLimit {
    /// Starts the time limit now.
    fn new(duration: Duration) -> Self {
        let now = Instant::now();
        // A limit of centuries overflows.
        let deadline = now.checked_add(duration).unwrap_or(now + FOREVER);
        Self { duration, deadline }
    }

    /// Returns the batches of a stream until the deadline, then an error.
    fn apply_to(self, batches: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = batches.schema();
        let rows = futures::stream::unfold(Some(batches), move |batches| async move {
            let mut batches = batches?;
            // A timeout alone would never end a stream whose batches are always ready.
            let next = match Instant::now() < self.deadline {
                true => timeout_at(self.deadline, batches.next()).await.ok(),
                false => None,
            };
            match next {
                Some(batch) => batch.map(|batch| (batch, Some(batches))),
                // Dropping the stream ends the task.
                None => Some((Err(too_long(self.duration)), None)),
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

impl TaskExec {
    /// Creates the root of a task that starts now.
    pub fn new(plan: Arc<dyn ExecutionPlan>, limit: Option<Duration>) -> Self {
        Self::with_limit(plan, limit.map(TimeLimit::new))
    }

    fn with_limit(plan: Arc<dyn ExecutionPlan>, limit: Option<TimeLimit>) -> Self {
        let sent = encoded_schema(&plan.schema()).unwrap_or_else(|| plan.schema());
        let properties = plan.properties().as_ref().clone();
        let properties = properties.with_eq_properties(EquivalenceProperties::new(sent));
        Self {
            plan,
            limit,
            properties: Arc::new(properties),
        }
    }
}

/// Thirty years.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

impl DisplayAs for TaskExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        self.plan.fmt_as(t, f)
    }
}

impl ExecutionPlan for TaskExec {
    fn name(&self) -> &str {
        self.plan.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.plan.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.plan.children()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.plan.apply_expressions(visit)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = replaced(&self.plan, children)?;
        Ok(Arc::new(Self::with_limit(plan, self.limit)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut batches = self.plan.execute(partition, context)?;
        if let Some(limit) = self.limit {
            batches = limit.apply_to(batches);
        }
        let Some(sent) = encoded_schema(&self.plan.schema()) else {
            return Ok(batches);
        };
        let schema = Arc::clone(&sent);
        let batches = batches.map(move |batch| encode(&batch?, &schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(sent, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.plan.metrics()
    }
}

fn too_long(limit: Duration) -> DataFusionError {
    exec_datafusion_err!(
        "a task took longer than the time limit of the worker ({limit:?}); start the worker with a longer \
         --time-limit"
    )
}
