//! One execution of [`ArrayAggregateExec`](crate::provider::aggregate::ArrayAggregateExec).

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, RecordOutput};
use futures::StreamExt;

use crate::provider::aggregate::exec::fallback::{self, Batches};
use crate::provider::aggregate::exec::job::Job;
use crate::provider::aggregate::exec::output::AggregateRows;
use crate::provider::aggregate::exec::partial_states::PartialState;
use crate::provider::aggregate::exec::worker;
use crate::provider::aggregate::plan::aggregation::Stage;
use crate::provider::aggregate::plan::program::Program;
use crate::provider::plans::tasks::result_of;
use crate::provider::scan::ArrayScan;
use crate::provider::scan::metrics::ScanMetrics;

/// The maximum number of bytes of all workers' results together, if there is more than one worker.
const MAX_BYTES: usize = 1 << 30;

/// One execution of the operator.
pub(crate) struct Run {
    pub scan: ArrayScan,
    pub program: Arc<Program>,
    pub dynamic_filter: Option<Arc<dyn PhysicalExpr>>,
    pub stage: Stage,
    pub schema: SchemaRef,
    /// The required order of the rows.
    pub ordering: Option<LexOrdering>,
    /// DataFusion's own plan for the same rows.
    pub fallback: Arc<dyn ExecutionPlan>,
    pub metrics: ExecutionPlanMetricsSet,
    pub context: Arc<TaskContext>,
}

impl Run {
    /// Returns the output rows, computed in array space or, if there is not enough memory or the
    /// values of scalar subqueries do not fit the program, by DataFusion's own plan.
    pub async fn run(self) -> Result<Batches> {
        let metrics = ScanMetrics::new(&self.metrics, 0);
        let found = self.in_array_space(&metrics).await;
        fallback::or_engine(
            found,
            &self.fallback,
            self.ordering,
            &self.schema,
            &self.context,
            &self.metrics,
            metrics.baseline,
        )
    }

    async fn in_array_space(&self, metrics: &ScanMetrics) -> Result<Option<Batches>> {
        let Some(parts) = self.scan.blocks().narrowed_selections() else {
            return internal_err!("the scan is not over grids");
        };
        let batch_size = self.context.session_config().batch_size();
        let workers = self.scan.plan().partitions.len();
        let job = Job::try_new(
            &self.program,
            self.dynamic_filter.as_ref(),
            parts,
            self.scan.source().schema(),
            self.scan.plan().options,
            self.scan.shared(&self.context),
            workers,
        )?;
        let Some(job) = job else {
            return Ok(None);
        };
        self.scan.set_plan_metrics(metrics, job.units() > 0);
        let job = Arc::new(job);
        let workers = (workers as u64).min(job.units()).max(1);
        let (memory, for_answer) = self.reserve(&job, workers as usize)?;
        let workers = memory.len();
        let works = memory.into_iter().enumerate().map(|(number, memory)| {
            let metrics = match number {
                0 => metrics.clone(),
                _ => ScanMetrics::new(&self.metrics, number),
            };
            worker::work(Arc::clone(&job), workers, metrics, batch_size, memory)
        });
        // All workers are tasks. If this task did the work of one first, the worker that it spawned last would wait on its thread,
        // because the runtime lets no other thread take that one.
        let mut tasks = works
            .map(SpawnedTask::spawn)
            .collect::<Vec<_>>()
            .into_iter();
        let Some(first) = tasks.next() else {
            return internal_err!("no worker was started");
        };
        let (mut found, memory): (PartialState, _) = result_of(first).await?;
        let reserved = memory.size().min(job.bytes()?);
        for other in tasks {
            let (other, of_other) = result_of(other).await?;
            found.merge(other, job.groups.count(), &memory)?;
            drop(of_other);
            let bytes = job.other_bytes().saturating_add(found.accumulator_bytes());
            memory.try_resize(bytes.max(reserved))?;
        }
        let timer = metrics.baseline.elapsed_compute().timer();
        let (stage, schema) = (self.stage, &self.schema);
        let answer = AggregateRows::new(&job, workers, found, stage, schema, &for_answer).await?;
        drop(timer);
        let rows = answer.rows();
        let starts = (0..rows).step_by(batch_size.max(1));
        let baseline = metrics.baseline.clone();
        let batches = starts.map(move |start| {
            let _reserved = (&memory, &for_answer);
            let batch = answer.batch(start..rows.min(start + batch_size.max(1)))?;
            Ok(batch.record_output(&baseline))
        });
        Ok(Some(futures::stream::iter(batches).boxed()))
    }

    /// Reserves the memory of the workers' results and of the output. There are at most `workers`
    /// workers, fewer if memory is short.
    fn reserve(
        &self,
        job: &Job,
        workers: usize,
    ) -> Result<(Vec<MemoryReservation>, MemoryReservation)> {
        let bytes = job.bytes()?;
        let answer = job.answer_bytes();
        let affordable = (MAX_BYTES / bytes.max(1)).max(1);
        let mut workers = workers.min(affordable);
        loop {
            match self.reserve_for(bytes, workers, answer) {
                Err(_) if workers > 1 => workers /= 2,
                reserved => return reserved,
            }
        }
    }

    fn reserve_for(
        &self,
        bytes: usize,
        workers: usize,
        answer: usize,
    ) -> Result<(Vec<MemoryReservation>, MemoryReservation)> {
        let reserve = |bytes| {
            let consumer = MemoryConsumer::new("ArrayAggregateExec");
            let reservation = consumer.register(self.context.memory_pool());
            reservation.try_grow(bytes).map(|()| reservation)
        };
        let each: Result<Vec<_>> = (0..workers).map(|_| reserve(bytes)).collect();
        // All but one worker's results are released before the output is built.
        let answer = answer.saturating_sub(bytes.saturating_mul(workers - 1));
        Ok((each?, reserve(answer)?))
    }
}
