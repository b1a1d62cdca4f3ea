//! DELETE and UPDATE of tables in memory.
//!
//! DataFusion 55 changes the rows while it plans the statement, so that EXPLAIN would change them, too.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{filter_record_batch, not, prep_null_mask_filter};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::memory::PartitionData;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

/// The rows of a table in memory that a statement changes.
#[derive(Debug)]
pub(super) struct MemoryChange {
    schema: SchemaRef,
    partitions: Vec<PartitionData>,
    memory: Arc<MemoryReservation>,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    /// The new value of each column that UPDATE changes, or `None` for DELETE.
    values: Option<Vec<Option<Arc<dyn PhysicalExpr>>>>,
}

impl MemoryChange {
    /// Plans the change of the rows for which all filters are true.
    ///
    /// # Errors
    /// Fails if an expression cannot be evaluated.
    pub fn new(
        table: &MemTable,
        memory: Arc<MemoryReservation>,
        state: &dyn Session,
        filters: Vec<Expr>,
        assignments: Option<Vec<(String, Expr)>>,
    ) -> Result<Self> {
        let schema = table.schema();
        let names = DFSchema::try_from(Arc::clone(&schema))?;
        let context = PhysicalPlanningContext::default();
        let plan = |expression: &Expr| {
            create_physical_expr(expression, &names, state.execution_props(), &context)
        };
        let predicate = conjunction(filters).as_ref().map(plan).transpose()?;
        let values = assignments.map(|assignments| {
            let mut values = vec![None; schema.fields().len()];
            for (name, value) in &assignments {
                values[schema.index_of(name)?] = Some(plan(value)?);
            }
            Ok::<_, DataFusionError>(values)
        });
        let values = values.transpose()?;
        Ok(Self {
            schema,
            partitions: table.batches.clone(),
            memory,
            predicate,
            values,
        })
    }

    /// Returns an operator that changes the rows, and returns their number.
    pub fn into_plan(self) -> Arc<dyn ExecutionPlan> {
        let input = Arc::new(EmptyExec::new(Arc::clone(&self.schema)));
        Arc::new(DataSinkExec::new(input, Arc::new(self), None))
    }

    /// Returns the rows of a batch that the statement changes, without nulls.
    fn changed(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let Some(predicate) = &self.predicate else {
            return Ok(BooleanArray::from(vec![true; batch.num_rows()]));
        };
        let changed = predicate.evaluate(batch)?.into_array(batch.num_rows())?;
        let changed = as_boolean_array(&changed)?;
        Ok(match changed.null_count() {
            0 => changed.clone(),
            _ => prep_null_mask_filter(changed),
        })
    }

    /// Returns a batch after the statement.
    fn apply(&self, batch: &RecordBatch, changed: &BooleanArray) -> Result<RecordBatch> {
        let Some(values) = &self.values else {
            return Ok(filter_record_batch(batch, &not(changed)?)?);
        };
        let columns = batch.columns().iter().zip(values).map(|(column, value)| {
            let Some(value) = value else {
                return Ok(Arc::clone(column));
            };
            // Other rows may have no value, as in `SET x = 1 / y WHERE y <> 0`.
            let value = value.evaluate_selection(batch, changed)?;
            let value = value.into_array(batch.num_rows())?;
            Ok(zip(changed, &value, column)?)
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl DisplayAs for MemoryChange {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let operation = match self.values {
            Some(_) => "update",
            None => "delete",
        };
        write!(f, "MemoryTable ({operation}")?;
        if let Some(predicate) = &self.predicate {
            write!(f, ", predicate={predicate}")?;
        }
        write!(f, ")")
    }
}

#[async_trait]
impl DataSink for MemoryChange {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Changes all rows, or none if there is an error.
    async fn write_all(
        &self,
        _rows: SendableRecordBatchStream,
        _context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let mut partitions = Vec::with_capacity(self.partitions.len());
        for partition in &self.partitions {
            partitions.push(partition.write().await);
        }
        let mut count = 0;
        let mut counter = RecordBatchMemoryCounter::new();
        let mut results = Vec::with_capacity(partitions.len());
        for partition in &partitions {
            let mut result = Vec::with_capacity(partition.len());
            for batch in partition.iter() {
                let changed = self.changed(batch)?;
                let rows = changed.true_count();
                let batch = match rows {
                    0 => batch.clone(),
                    _ => self.apply(batch, &changed)?,
                };
                count += rows as u64;
                tokio::task::yield_now().await;
                if batch.num_rows() > 0 {
                    counter.count_batch(&batch);
                    result.push(batch);
                }
            }
            results.push(result);
        }
        for (partition, result) in partitions.iter_mut().zip(results) {
            **partition = result;
        }
        self.memory.resize(counter.memory_usage());
        Ok(count)
    }
}
