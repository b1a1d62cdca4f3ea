//! A physical plan of a session as one operator.

use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::runtime::Workers;

/// The number of batches of a partition that wait for their reader.
const WAITING_BATCHES: usize = 2;

/// Runs a physical plan with the settings, the memory budget and the threads of its session, whichever
/// context executes it. Its batches have a schema with the attributes of columns.
pub struct SessionPlan {
    plan: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    context: SessionContext,
    workers: Workers,
}

impl SessionPlan {
    /// Creates an operator whose schema differs from that of the plan at most in metadata.
    pub fn new(
        plan: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        context: SessionContext,
        workers: Workers,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(plan.output_partitioning().partition_count()),
            plan.pipeline_behavior(),
            plan.boundedness(),
        );
        Self {
            plan,
            properties: Arc::new(properties),
            context,
            workers,
        }
    }
}

/// Returns a batch with this schema.
fn annotated(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &rows,
    )?)
}

impl fmt::Debug for SessionPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SessionPlan")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for SessionPlan {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: plan={}", self.name(), self.plan.name())
    }
}

impl ExecutionPlan for SessionPlan {
    fn name(&self) -> &str {
        "TetSqlExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// None: the package would encode each input, and could replace it.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => plan_err!("{} has no inputs, got {}", self.name(), children.len()),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => plan_err!("{} has no inputs, got {}", self.name(), children.len()),
        }
    }

    fn apply_expressions(
        &self,
        _apply: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut stream = RecordBatchReceiverStream::builder(self.schema(), WAITING_BATCHES);
        let (plan, context, sender) =
            (Arc::clone(&self.plan), self.context.task_ctx(), stream.tx());
        let schema = self.schema();
        let run = async move {
            let mut batches = plan.execute(partition, context)?;
            while let Some(batch) = batches.next().await {
                let batch = batch.and_then(|batch| annotated(batch, &schema));
                // The reader is gone.
                if sender.send(batch).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        stream.spawn_on(run, &self.workers.handle()?);
        Ok(stream.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.plan.metrics()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let arguments = StatisticsArgs::new().with_partition(partition);
        StatisticsContext::new().compute(self.plan.as_ref(), &arguments)
    }
}
