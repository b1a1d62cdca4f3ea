//! Runs DataFusion's own plan if the results of all groups do not fit into memory.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, RecordOutput,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};

use crate::provider::rules::batch_slices::SLICE_BATCHES;
use crate::provider::rules::limits::SPILL_LONG_LIMITS;
use crate::provider::rules::nested_loops::RESTART_BUILD_SIDES;
use crate::provider::rules::single_stage::SINGLE_STAGE;

/// The output of an aggregation.
pub(crate) type Batches = BoxStream<'static, Result<RecordBatch>>;

/// Returns the rows that were `found` in array space, or those of DataFusion's own plan `fallback` if
/// there is not enough memory or array space cannot compute them. The metric `left_to_engine` counts
/// this.
pub(crate) fn or_engine(
    found: Result<Option<Batches>>,
    fallback: &Arc<dyn ExecutionPlan>,
    ordering: Option<LexOrdering>,
    schema: &SchemaRef,
    context: &Arc<TaskContext>,
    metrics: &ExecutionPlanMetricsSet,
    baseline: BaselineMetrics,
) -> Result<Batches> {
    match found {
        Ok(Some(batches)) => return Ok(batches),
        Ok(None) => {}
        Err(error) if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => {}
        Err(error) => return Err(error),
    }
    let left = MetricBuilder::new(metrics).counter("left_to_engine", 0);
    left.add(1);
    let rows = execute(fallback, ordering, schema, context)?;
    let rows = rows.map_ok(move |batch| batch.record_output(&baseline));
    Ok(rows.boxed())
}

/// Runs the plan that the operator replaced, and sorts the rows by `ordering`. The plan was
/// captured before DataFusion enforced what its nodes require of their inputs, such as hash
/// partitioning, so the requirements are enforced here.
fn execute(
    fallback: &Arc<dyn ExecutionPlan>,
    ordering: Option<LexOrdering>,
    schema: &SchemaRef,
    context: &Arc<TaskContext>,
) -> Result<impl Stream<Item = Result<RecordBatch>> + Send + use<>> {
    let mut plan = reset_plan_states(Arc::clone(fallback))?;
    if let Some(ordering) = ordering {
        plan = Arc::new(SortExec::new(ordering, plan));
    }
    let config = context.session_config().options();
    plan = SINGLE_STAGE.optimize(plan, config)?;
    plan = EnsureRequirements::new().optimize(plan, config)?;
    plan = SPILL_LONG_LIMITS.optimize(plan, config)?;
    plan = RESTART_BUILD_SIDES.optimize(plan, config)?;
    plan = SLICE_BATCHES.optimize(plan, config)?;
    if plan.output_partitioning().partition_count() > 1 {
        plan = Arc::new(CoalescePartitionsExec::new(plan));
    }
    let schema = Arc::clone(schema);
    let batches = plan.execute(0, Arc::clone(context))?;
    Ok(batches.and_then(move |batch| {
        // The fields may be named after another input of a union.
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let (_, columns, _) = batch.into_parts();
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options);
        futures::future::ready(batch.map_err(Into::into))
    }))
}
