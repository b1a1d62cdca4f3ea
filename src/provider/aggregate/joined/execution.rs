//! One execution of [`ArrayJoinAggregateExec`](super::ArrayJoinAggregateExec).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{cast, filter_record_batch, take};
use arrow::datatypes::{SchemaRef, UInt32Type};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count as MetricCount, ExecutionPlanMetricsSet, MetricBuilder, RecordOutput,
    Time,
};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt};

use crate::provider::aggregate::exec::accumulators::{Accumulated, add_rows};
use crate::provider::aggregate::exec::fallback::{self, Batches};
use crate::provider::aggregate::joined::plan::JoinAggregation;
use crate::provider::aggregate::plan::aggregation::Stage;
use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::join::lookup::grouped::BuildGroups;
use crate::provider::join::lookup::joined_runs::{RunJoin, RunReader};
use crate::provider::planning::mask::mask;
use crate::provider::plans::tasks::result_of;

/// The number of rows between two measurements of the accumulators' size. With more groups than
/// this, the number of groups.
const GROWTH: usize = 1 << 16;
/// The maximum number of bytes of all workers' partial states together, if there is more than one
/// worker.
const MAX_BYTES: usize = 1 << 30;
/// The approximate number of bytes of the results of a group, before and after they are gathered.
const BYTES_PER_RESULT: usize = 16;

/// One execution of the operator.
pub(super) struct Execution {
    pub join: Arc<dyn ExecutionPlan>,
    pub program: Arc<JoinAggregation>,
    pub stage: Stage,
    pub fallback: Arc<dyn ExecutionPlan>,
    pub metrics: ExecutionPlanMetricsSet,
    pub context: Arc<TaskContext>,
}

/// The work of one execution, which all workers share.
pub(super) struct Job {
    pub join: Arc<dyn ExecutionPlan>,
    pub program: Arc<JoinAggregation>,
    /// The join, if its matches are found as runs.
    pub runs: Option<RunJoin>,
    /// The number of runs that were reduced to partial states.
    pub joined_runs: MetricCount,
    /// The groups of the build side, if the aggregation is grouped by it.
    pub build: Option<Arc<BuildGroups>>,
    /// The number of groups of the build side.
    pub build_count: usize,
    /// The number of groups.
    pub count: usize,
    /// The next partition of the join to read.
    pub next: AtomicUsize,
    pub context: Arc<TaskContext>,
}

/// The partial state of a worker.
pub(super) struct Worker {
    pub accumulated: Vec<Accumulated>,
    /// For each group, `true` if it has a row.
    pub present: Vec<bool>,
    pub memory: MemoryReservation,
}

impl Execution {
    /// Returns the output rows, aggregated by group number or, if there is not enough memory, or there
    /// are too many groups, by the fallback.
    pub async fn run(self) -> Result<Batches> {
        let baseline = BaselineMetrics::new(&self.metrics, 0);
        let found = self.by_number(&baseline).await;
        fallback::or_engine(
            found,
            &self.fallback,
            None,
            &self.fallback.schema(),
            &self.context,
            &self.metrics,
            baseline,
        )
    }

    async fn by_number(&self, baseline: &BaselineMetrics) -> Result<Option<Batches>> {
        // Another rule may have put a node on top of the join.
        let Some(join) = self.join.downcast_ref::<ArrayLookupJoinExec>() else {
            return Ok(None);
        };
        if let Some(states) = &self.program.states {
            let memory = MemoryConsumer::new("ArrayJoinAggregateExec");
            let memory = memory.register(self.context.memory_pool());
            // If the partial states do not fit, cells are joined, before anything is read. The operator below
            // the join makes its own reservation.
            memory.try_grow(states.bytes)?;
        }
        // The first reader of the join decides how its matches are kept.
        let runs = match self.program.folds.is_some() {
            true => join.run_join(&self.context).await?,
            false => None,
        };
        let build = join.build_groups(&self.context).await?;
        if build.is_none() && self.program.is_grouped_by_build {
            return Ok(None);
        }
        let build_count = build.as_ref().map_or(1, |groups| groups.count);
        let count = self.program.probe_groups().checked_mul(build_count);
        let Some(count) = count.filter(|count| self.program.has_room_for(*count)) else {
            return Ok(None);
        };
        let partitions = self.join.output_partitioning().partition_count();
        let job = Arc::new(Job {
            join: Arc::clone(&self.join),
            program: Arc::clone(&self.program),
            runs,
            joined_runs: MetricBuilder::new(&self.metrics).global_counter("joined_runs"),
            build,
            build_count,
            count,
            next: AtomicUsize::new(0),
            context: Arc::clone(&self.context),
        });
        let mut workers = Vec::with_capacity(partitions);
        let bytes = job.bytes_per_worker()?;
        for _ in 0..partitions.min(MAX_BYTES / bytes.max(1)).max(1) {
            match Worker::try_new(&job) {
                Ok(worker) => workers.push(worker),
                // Fewer workers read the partitions one after another.
                Err(_) if !workers.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        let works = workers.into_iter().map(|worker| {
            let elapsed = baseline.elapsed_compute().clone();
            SpawnedTask::spawn(worker.work(Arc::clone(&job), elapsed))
        });
        let works: Vec<_> = works.collect();
        let mut merged: Option<Worker> = None;
        for work in works {
            let worker = result_of(work).await?;
            match &mut merged {
                Some(merged) => merged.merge(worker, job.count)?,
                None => merged = Some(worker),
            }
        }
        let Some(mut merged) = merged else {
            return internal_err!("no worker was started");
        };
        let batch_size = self.context.session_config().batch_size().max(1);
        let answer = merged.answer(&job, self.stage)?;
        let schema = self.fallback.schema();
        let rows = answer.rows;
        let baseline = baseline.clone();
        let starts = (0..rows).step_by(batch_size);
        let batches = starts.map(move |start| {
            let length = batch_size.min(rows - start);
            let batch = answer.batch(&job, start, length, &schema)?;
            let _reserved = &merged.memory;
            Ok(batch.record_output(&baseline))
        });
        Ok(Some(futures::stream::iter(batches).boxed()))
    }
}

impl Job {
    /// Returns the approximate number of bytes of a worker's partial state.
    fn bytes_per_worker(&self) -> Result<usize> {
        let is_grouped = self.program.is_grouped();
        let mut bytes = self.count;
        for aggregate in &self.program.aggregates {
            bytes += Accumulated::initial_bytes(&aggregate.function, is_grouped, self.count)?;
        }
        Ok(bytes)
    }
}

impl Worker {
    fn try_new(job: &Job) -> Result<Self> {
        let program = &job.program;
        let memory = MemoryConsumer::new("ArrayJoinAggregateExec");
        let memory = memory.register(job.context.memory_pool());
        let is_grouped = program.is_grouped();
        memory.try_grow(job.bytes_per_worker()?)?;
        let joined = job.join.schema();
        let schema = program
            .states
            .as_ref()
            .map_or(&joined, |states| &states.table);
        let aggregates = program.aggregates.iter();
        let accumulated = aggregates
            .map(|aggregate| Accumulated::for_rows(aggregate, is_grouped, schema, job.count));
        Ok(Self {
            accumulated: accumulated.collect::<Result<_>>()?,
            present: vec![false; job.count],
            memory,
        })
    }

    /// Aggregates partitions of the join until none is left.
    async fn work(mut self, job: Arc<Job>, elapsed: Time) -> Result<Self> {
        let partitions = job.join.output_partitioning().partition_count();
        let often = GROWTH.max(job.count);
        let mut groups = Vec::new();
        let mut reader = RunReader::default();
        let mut rows = 0;
        loop {
            let partition = job.next.fetch_add(1, Ordering::Relaxed);
            if partition >= partitions {
                self.account_for()?;
                return Ok(self);
            }
            let context = Arc::clone(&job.context);
            let mut batches = match &job.runs {
                Some(runs) => runs.probe(partition, context)?,
                None => job.join.execute(partition, context)?,
            };
            while let Some(batch) = batches.try_next().await? {
                let timer = elapsed.timer();
                rows += match &job.runs {
                    Some(runs) => {
                        let joined =
                            self.add_batch(&job, runs, &batch, &mut reader, &mut groups)?;
                        runs.record(partition, joined);
                        joined
                    }
                    None => {
                        let joined = batch.num_rows();
                        self.add(&job, batch, &mut groups)?;
                        joined
                    }
                };
                if rows >= often {
                    rows = 0;
                    self.account_for()?;
                }
                drop(timer);
            }
        }
    }

    /// Adds a batch of joined rows. `groups` is overwritten.
    pub fn add(
        &mut self,
        job: &Job,
        mut batch: RecordBatch,
        groups: &mut Vec<usize>,
    ) -> Result<()> {
        let program = &job.program;
        if let Some(predicate) = &program.predicate {
            batch = filter_record_batch(&batch, &mask(predicate, &batch)?)?;
        }
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        groups.clear();
        let mut numbers = batch.columns().iter().rev();
        let of_build = match program.is_grouped_by_build {
            true => numbers.next(),
            false => None,
        };
        let of_probe = match program.probe.is_some() {
            true => numbers.next(),
            false => None,
        };
        match of_probe {
            Some(of_probe) => {
                let numbers = of_probe.as_primitive::<UInt32Type>().values().iter();
                groups.extend(numbers.map(|number| *number as usize * job.build_count));
            }
            None => groups.resize(rows, 0),
        }
        if let Some(of_build) = of_build {
            let of_build = of_build.as_primitive::<UInt32Type>();
            let unmatched = job.build.as_ref().map_or(0, |groups| groups.unmatched);
            let places = groups.iter_mut().zip(of_build.values()).enumerate();
            for (row, (group, number)) in places {
                let has_match = of_build.nulls().is_none_or(|nulls| nulls.is_valid(row));
                *group += match has_match {
                    true => *number as usize,
                    false => unmatched,
                };
            }
        }
        for group in groups.iter() {
            self.present[*group] = true;
        }
        let Some(states) = &program.states else {
            let aggregates = program.aggregates.iter();
            return add_rows(aggregates, &mut self.accumulated, &batch, groups, job.count);
        };
        for (accumulated, columns) in self.accumulated.iter_mut().zip(&states.columns) {
            accumulated.merge(&batch.columns()[columns.clone()], groups, job.count)?;
        }
        Ok(())
    }

    fn merge(&mut self, other: Self, count: usize) -> Result<()> {
        for (one, other) in self.present.iter_mut().zip(&other.present) {
            *one |= other;
        }
        for (one, other) in self.accumulated.iter_mut().zip(other.accumulated) {
            if let Some(mut other) = one.absorb(other) {
                // The partial state and a copy of it exist at the same time.
                self.memory.try_grow(other.size().saturating_mul(2))?;
                one.merge_all(&other.state()?, count)?;
            }
        }
        drop(other.memory);
        self.account_for()
    }

    /// Adjusts the reservation to the current size of the accumulators.
    fn account_for(&mut self) -> Result<()> {
        let sizes = self.accumulated.iter().map(Accumulated::size);
        let bytes = sizes.sum::<usize>().saturating_add(self.present.len());
        self.memory.try_resize(bytes)
    }

    /// Returns the final values or the partial states of the groups that have rows.
    fn answer(&mut self, job: &Job, stage: Stage) -> Result<Answer> {
        let is_grouped = job.program.is_grouped();
        let has_all = !is_grouped || self.present.iter().all(|is_present| *is_present);
        let present = (!has_all).then(|| {
            let groups = self.present.iter().enumerate();
            let groups = groups.filter(|(_, is_present)| **is_present);
            UInt32Array::from_iter_values(groups.map(|(group, _)| group as u32))
        });
        let mut values = Vec::with_capacity(self.accumulated.len());
        let bytes = (self.accumulated.len() * BYTES_PER_RESULT).saturating_mul(job.count);
        self.memory.try_grow(bytes)?;
        for accumulated in &mut self.accumulated {
            let all = match stage {
                Stage::Partial => accumulated.state()?,
                Stage::Whole => vec![accumulated.evaluate()?],
            };
            for all in all {
                values.push(match &present {
                    Some(present) => take(&all, present, None)?,
                    None => all,
                });
            }
        }
        let rows = present.as_ref().map_or(job.count, UInt32Array::len);
        let answer = Answer {
            present,
            values,
            rows,
        };
        let arrays = answer.values.iter();
        let bytes = arrays.map(|values| values.get_array_memory_size());
        self.memory.try_resize(bytes.sum::<usize>() + 4 * rows)?;
        self.accumulated.clear();
        self.present.clear();
        Ok(answer)
    }
}

/// The results of all groups that have rows: final values or partial states.
struct Answer {
    /// The groups that have rows; `None` for all.
    present: Option<UInt32Array>,
    /// The results of the aggregates.
    values: Vec<ArrayRef>,
    rows: usize,
}

impl Answer {
    /// Builds a batch of output rows.
    fn batch(
        &self,
        job: &Job,
        start: usize,
        length: usize,
        schema: &SchemaRef,
    ) -> Result<RecordBatch> {
        let program = &job.program;
        let group = |row: usize| match &self.present {
            Some(present) => present.value(row) as usize,
            None => row,
        };
        let groups = (start..start + length).map(group);
        let mut of_probe = Vec::new();
        if let Some(keys) = &program.probe {
            let numbers = groups.clone().map(|group| (group / job.build_count) as u32);
            of_probe = keys.values(&numbers.collect::<Vec<_>>())?;
        }
        let mut of_build = Vec::new();
        if let Some(build) = &job.build {
            let numbers = groups.map(|group| (group % job.build_count) as u32);
            let numbers = UInt32Array::from_iter_values(numbers);
            let values = build.values.iter();
            let values = values.map(|values| Ok(take(values, &numbers, None)?));
            of_build = values.collect::<Result<Vec<_>>>()?;
        }
        let keys = program.groups.iter().map(|(side, number)| match side {
            JoinSide::Left => Arc::clone(&of_build[*number]),
            _ => Arc::clone(&of_probe[*number]),
        });
        let values = self.values.iter();
        let columns = keys.chain(values.map(|values| values.slice(start, length)));
        let columns = columns.zip(schema.fields()).map(|(column, field)| {
            match column.data_type() == field.data_type() {
                true => Ok(column),
                // The data types differ in encoding only.
                false => Ok(cast(&column, field.data_type())?),
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(length));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let schema = Arc::clone(schema);
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }
}
