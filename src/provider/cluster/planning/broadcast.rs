//! [`BroadcastExec`]: the build side of a lookup join that runs in tasks.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;

/// The maximum number of bytes of the rows that every task receives.
const MAX_BYTES: usize = 64 << 20;

/// The build side of a lookup join whose probe side is divided among tasks.
///
/// [`ClusterExec`](crate::provider::cluster::execution::ClusterExec) runs the input once, in the
/// coordinator, and every task receives its rows, as a table in memory:
///
/// ```text
/// planned                          encoded for each task
/// ArrayLookupJoinExec              ArrayLookupJoinExec
///   BroadcastExec                    DataSourceExec: the rows
///     AggregateExec: ...
///   DataSourceExec: tet=t2m, ...     DataSourceExec: tet=t2m, ... (the chunks of the task)
/// ```
pub struct BroadcastExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    rows: Option<Arc<Rows>>,
}

/// The collected rows of a build side.
struct Rows {
    batches: Vec<RecordBatch>,
    /// Keeps the memory reserved.
    _memory: MemoryReservation,
}

impl Debug for BroadcastExec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastExec")
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

impl BroadcastExec {
    /// Creates the operator for a build side that has not run.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let input: Arc<dyn ExecutionPlan> = match input.output_partitioning().partition_count() {
            1 => input,
            _ => Arc::new(CoalescePartitionsExec::new(input)),
        };
        Self {
            input,
            properties: Arc::new(properties),
            rows: None,
        }
    }

    /// Returns the operator with the rows of its input; `None` if there are too many to send.
    async fn collect(&self, context: &Arc<TaskContext>) -> Result<Option<Self>> {
        let memory = MemoryConsumer::new("ClusterBroadcast").register(context.memory_pool());
        let mut stream = self.input.execute(0, Arc::clone(context))?;
        let (mut batches, mut bytes) = (Vec::new(), 0);
        while let Some(batch) = stream.next().await.transpose()? {
            let size = batch.get_array_memory_size();
            bytes += size;
            if bytes > MAX_BYTES {
                return Ok(None);
            }
            memory.try_grow(size)?;
            // The schemas of batches may differ in metadata from the schema of the plan.
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = batch.columns().to_vec();
            batches.push(RecordBatch::try_new_with_options(
                self.schema(),
                columns,
                &options,
            )?);
        }
        let rows = Rows {
            batches,
            _memory: memory,
        };
        Ok(Some(Self {
            input: Arc::clone(&self.input),
            properties: Arc::clone(&self.properties),
            rows: Some(Arc::new(rows)),
        }))
    }

    /// Returns the rows as a table in memory; without rows if the input has not run.
    fn table(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let batches = self.rows.as_ref().map(|rows| rows.batches.clone());
        let rows =
            MemorySourceConfig::try_new(&[batches.unwrap_or_default()], self.schema(), None)?;
        Ok(DataSourceExec::from_data_source(rows))
    }
}

/// Runs the build sides that tasks need. Returns the plan with their rows; `None` if there are too many to
/// send.
pub async fn with_rows(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let mut found = Vec::new();
    plan.apply(|node| {
        Ok(match node.is::<BroadcastExec>() {
            true => {
                found.push(Arc::clone(node));
                TreeNodeRecursion::Jump
            }
            false => TreeNodeRecursion::Continue,
        })
    })?;
    let mut collected: Vec<Arc<dyn ExecutionPlan>> = Vec::with_capacity(found.len());
    for node in &found {
        let Some(broadcast) = node.downcast_ref::<BroadcastExec>() else {
            return internal_err!("{} is not a build side", node.name());
        };
        match broadcast.collect(context).await? {
            Some(broadcast) => collected.push(Arc::new(broadcast)),
            None => return Ok(None),
        }
    }
    let mut collected = collected.into_iter();
    replaced_by(plan, |_| match collected.next() {
        Some(rows) => Ok(rows),
        None => internal_err!("a plan has changed while its build sides ran"),
    })
    .map(Some)
}

/// Returns the plan of a task with tables in memory in place of the build sides.
pub fn with_tables(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    replaced_by(plan, BroadcastExec::table)
}

/// Replaces all build sides of a plan, from left to right.
fn replaced_by(
    plan: &Arc<dyn ExecutionPlan>,
    mut replacement: impl FnMut(&BroadcastExec) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = Arc::clone(plan).transform_down(|node| {
        Ok(match node.downcast_ref::<BroadcastExec>() {
            Some(broadcast) => {
                Transformed::new(replacement(broadcast)?, true, TreeNodeRecursion::Jump)
            }
            None => Transformed::no(node),
        })
    })?;
    Ok(replaced.data)
}

impl DisplayAs for BroadcastExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let rows = self.rows.as_ref().map(|rows| {
            let rows = rows.batches.iter().map(RecordBatch::num_rows);
            rows.sum::<usize>()
        });
        match (t, rows) {
            (DisplayFormatType::TreeRender, None) => Ok(()),
            (DisplayFormatType::TreeRender, Some(rows)) => write!(f, "rows={rows}"),
            (_, None) => f.write_str("BroadcastExec"),
            (_, Some(rows)) => write!(f, "BroadcastExec: rows={rows}"),
        }
    }
}

impl ExecutionPlan for BroadcastExec {
    fn name(&self) -> &'static str {
        "BroadcastExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// Returns the input until it has run. Tasks have no input in its place, and the coordinator assigns the
    /// metrics of a task to operators by their order.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        match self.rows {
            Some(_) => Vec::new(),
            None => vec![&self.input],
        }
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (&self.rows, children.pop(), children.is_empty()) {
            (Some(_), None, true) => Ok(self),
            (None, Some(input), true) => Ok(Arc::new(Self::new(input))),
            _ => internal_err!("BroadcastExec has one child until its rows are collected"),
        }
    }

    fn execute(
        &self,
        _partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        internal_err!("BroadcastExec does not run in the coordinator")
    }
}
