//! [`LimitedExec`]: ends a task that takes too long.

use std::fmt::{self, Formatter};
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::provider::cluster::planning::rule::replaced;

/// The plan of a task, whose rows must all be sent before a deadline.
///
/// The operator takes the place of the root of the plan, with its inputs and its metrics, because the
/// coordinator assigns the metrics of a task to operators by their order.
#[derive(Debug)]
pub(super) struct LimitedExec {
    plan: Arc<dyn ExecutionPlan>,
    limit: Duration,
    deadline: Instant,
}

impl LimitedExec {
    /// Limits the time of a plan, from now on.
    pub fn new(plan: Arc<dyn ExecutionPlan>, limit: Duration) -> Self {
        let now = Instant::now();
        // A limit of centuries overflows.
        let deadline = now.checked_add(limit).unwrap_or(now + FOREVER);
        Self {
            plan,
            limit,
            deadline,
        }
    }
}

/// Thirty years.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

impl DisplayAs for LimitedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        self.plan.fmt_as(t, f)
    }
}

impl ExecutionPlan for LimitedExec {
    fn name(&self) -> &str {
        self.plan.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.plan.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
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
        Ok(Arc::new(Self {
            plan: replaced(&self.plan, children)?,
            limit: self.limit,
            deadline: self.deadline,
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = self.plan.execute(partition, context)?;
        let (limit, deadline) = (self.limit, self.deadline);
        let rows = futures::stream::unfold(Some(batches), move |batches| async move {
            let mut batches = batches?;
            // A timeout alone would never end a stream whose batches are always ready.
            let next = match Instant::now() < deadline {
                true => timeout_at(deadline, batches.next()).await.ok(),
                false => None,
            };
            match next {
                Some(batch) => batch.map(|batch| (batch, Some(batches))),
                // Dropping the stream ends the task.
                None => Some((Err(too_long(limit)), None)),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
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
