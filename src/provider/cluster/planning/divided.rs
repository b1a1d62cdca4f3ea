//! [`Divided`]: a plan that is divided into tasks, for EXPLAIN.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// A plan that is divided into tasks, as EXPLAIN shows it. Never runs.
pub struct Divided {
    plan: Arc<dyn ExecutionPlan>,
    /// The number of chunks that each task reads; `None` if 2^64 or more.
    chunks: Vec<Option<u64>>,
}

impl Divided {
    pub fn new(plan: Arc<dyn ExecutionPlan>, chunks: Vec<Option<u64>>) -> Self {
        Self { plan, chunks }
    }
}

impl Debug for Divided {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Divided")
            .field("plan", &self.plan)
            .field("chunks", &self.chunks)
            .finish()
    }
}

impl DisplayAs for Divided {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let chunks = self.chunks.iter();
        let chunks = chunks.map(|chunks| chunks.map_or("2^64 or more".into(), |n| n.to_string()));
        let chunks: Vec<String> = chunks.collect();
        write!(f, "chunks_per_task=[{}]: ", chunks.join(", "))?;
        self.plan.fmt_as(t, f)
    }
}

impl ExecutionPlan for Divided {
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
        Vec::new()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.plan.apply_expressions(visit)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.plan.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.plan.metrics()
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema())))
    }
}
