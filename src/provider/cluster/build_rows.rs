//! [`BuildRowsExec`]: merges lookup joins that return rows of the build side.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{SchemaRef, UInt32Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use crate::provider::join::lookup::ArrayLookupJoinExec;

/// Merges the rows of a lookup join that runs in tasks. Every task has the whole build side and a part of the probe
/// side, so it does not know which rows of the build side have a match in another task. The last column of its
/// rows is the row number on the build side of rows that it returns at the end, and null for all other rows:
///
/// | join | rows of the build side that a task returns | returned by the operator |
/// | --- | --- | --- |
/// | `LEFT`, `FULL`, left anti | without a match in its part | once, if all tasks return them |
/// | left semi | with a match in its part | once, if any task returns them |
#[derive(Debug)]
pub(super) struct BuildRowsExec {
    input: Arc<dyn ExecutionPlan>,
    join_type: JoinType,
    tasks: usize,
    properties: Arc<PlanProperties>,
}

impl BuildRowsExec {
    /// Creates the operator over the rows of this many tasks, in one partition. `join` is the whole join.
    pub fn new(input: Arc<dyn ExecutionPlan>, join: &ArrayLookupJoinExec, tasks: usize) -> Self {
        let properties = input.properties().as_ref().clone();
        let schema = EquivalenceProperties::new(join.schema());
        Self {
            input,
            join_type: join.join_type(),
            tasks,
            properties: Arc::new(properties.with_eq_properties(schema)),
        }
    }
}

/// Counts the tasks that have returned each row of the build side.
struct TaskCounts {
    /// The number of tasks, by row number.
    tasks: Vec<u32>,
    /// The number of tasks that have to return a row.
    needed: u32,
    memory: MemoryReservation,
}

impl TaskCounts {
    /// Returns the rows of a batch that belong to the result, without their row numbers.
    fn filter(&mut self, mut batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let numbers = batch.remove_column(batch.num_columns() - 1);
        let Some(numbers) = numbers.as_primitive_opt::<UInt32Type>() else {
            return internal_err!("row numbers have the type {}", numbers.data_type());
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
        if numbers.null_count() == numbers.len() {
            return Ok(batch);
        }
        let last = numbers.iter().flatten().max().unwrap_or(0) as usize;
        if last >= self.tasks.len() {
            self.memory
                .try_grow((last + 1 - self.tasks.len()) * size_of::<u32>())?;
            self.tasks.resize(last + 1, 0);
        }
        let kept = numbers.iter().map(|number| {
            number.is_none_or(|number| {
                let tasks = &mut self.tasks[number as usize];
                *tasks += 1;
                *tasks == self.needed
            })
        });
        let kept = BooleanArray::from(kept.collect::<Vec<_>>());
        Ok(filter_record_batch(&batch, &kept)?)
    }
}

impl DisplayAs for BuildRowsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let (kind, tasks) = (self.join_type, self.tasks);
        match t {
            DisplayFormatType::TreeRender => write!(f, "join_type={kind:?}\ntasks={tasks}"),
            _ => write!(f, "BuildRowsExec: join_type={kind:?}, tasks={tasks}"),
        }
    }
}

impl ExecutionPlan for BuildRowsExec {
    fn name(&self) -> &'static str {
        "BuildRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
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
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self {
                input,
                properties: Arc::clone(&self.properties),
                ..*self
            })),
            _ => internal_err!("BuildRowsExec has one child"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("BuildRows").register(context.memory_pool());
        let mut counts = TaskCounts {
            tasks: Vec::new(),
            needed: match self.join_type {
                JoinType::LeftSemi => 1,
                _ => self.tasks as u32,
            },
            memory,
        };
        let schema = self.schema();
        let rows = self.input.execute(partition, context)?;
        let rows = rows.map(move |batch| counts.filter(batch?, &schema));
        let rows = rows.try_filter(|batch| futures::future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
