//! The operator.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet, RecordOutput};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, TryStreamExt};

use crate::provider::aggregate::aggregation::Aggregation;
use crate::provider::aggregate::axis_filters::is_over_axis;
use crate::provider::aggregate::found::Found;
use crate::provider::aggregate::job::Job;
use crate::provider::aggregate::output::{Answer, Stage};
use crate::provider::aggregate::program::{Columns, Output, Program};
use crate::provider::aggregate::worker;
use crate::provider::metrics::ScanMetrics;
use crate::provider::scan::ArrayScan;
use crate::provider::source::GridPart;

/// The most groups of one aggregation; with more it stays the engine's.
pub(super) const MOST_GROUPS: usize = 1 << 26;

/// The most bytes that the results of all workers take together, if there is more than one worker.
const MOST_BYTES: usize = 1 << 30;

/// Computes aggregates of the cells of arrays, grouped by what follows from their positions.
///
/// One partition; as many workers as the scan has partitions take chunks one after another. What they add up in what order
/// depends on their pace, so that sums and averages of floating-point numbers, and what is made of them, may differ in
/// their last digits from run to run: relative to the sum of the numbers' magnitudes by less than 1e-12 for groups of
/// up to a billion cells.
#[derive(Debug)]
pub struct ArrayAggregateExec {
    scan: ArrayScan,
    aggregation: Arc<Aggregation>,
    /// The names of the groups.
    names: Vec<String>,
    stage: Stage,
    /// The aggregates that are computed of the positions along an axis.
    by_axis: Vec<String>,
    /// The aggregates that the engine computes, row by row.
    by_row: Vec<String>,
    /// At most so many groups, if that is known.
    groups: Option<u64>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ArrayAggregateExec {
    /// The operator for an aggregation over the columns of a scan's table.
    pub(super) fn new(
        parts: &[GridPart],
        scan: ArrayScan,
        aggregation: Aggregation,
        names: Vec<String>,
        stage: Stage,
        groups: Option<u64>,
        schema: SchemaRef,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let columns = Columns::of(parts, &scan.plan().options);
        let program = Program::new(&aggregation, &columns, &|conjunct| {
            is_over_axis(conjunct, parts)
        });
        let names_of = |is_one: fn(&Output) -> bool| {
            let outputs = program.outputs.iter().zip(&aggregation.aggregates);
            let some = outputs.filter(|(output, _)| is_one(output));
            some.map(|(_, one)| one.function.name().to_string())
                .collect()
        };
        Self {
            by_axis: names_of(|output| matches!(output, Output::Axis(..))),
            by_row: names_of(|output| *output == Output::Engine),
            scan,
            aggregation: Arc::new(aggregation),
            names,
            stage,
            groups,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for ArrayAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let groups: Vec<_> = self
            .aggregation
            .groups
            .iter()
            .zip(&self.names)
            .map(|(expr, name)| {
                let text = expr.to_string();
                let bare = text.split('@').next().unwrap_or_default();
                if bare == name {
                    text
                } else {
                    format!("{text} as {name}")
                }
            })
            .collect();
        let aggregates: Vec<_> = self
            .aggregation
            .aggregates
            .iter()
            .map(|aggregate| aggregate.function.name())
            .collect();
        let mode = match self.stage {
            Stage::Partial => "Partial",
            Stage::Whole => "Single",
        };
        let mut parts = vec![
            format!("mode={mode}"),
            format!("gby=[{}]", groups.join(", ")),
            format!("aggr=[{}]", aggregates.join(", ")),
        ];
        if !self.by_axis.is_empty() {
            parts.push(format!("by_axis=[{}]", self.by_axis.join(", ")));
        }
        if !self.by_row.is_empty() {
            parts.push(format!("by_row=[{}]", self.by_row.join(", ")));
        }
        if !self.aggregation.conjuncts.is_empty() {
            let conjuncts = self.aggregation.conjuncts.iter();
            let conjuncts: Vec<_> = conjuncts.map(|conjunct| conjunct.to_string()).collect();
            parts.push(format!("predicate={}", conjuncts.join(" AND ")));
        }
        parts.extend(self.scan.description_without_projection());
        match t {
            DisplayFormatType::TreeRender => write!(f, "{}", parts.join("\n")),
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "ArrayAggregateExec: {}", parts.join(", "))
            }
        }
    }
}

impl ExecutionPlan for ArrayAggregateExec {
    fn name(&self) -> &'static str {
        "ArrayAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.aggregation.expressions() {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
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
        if partition != 0 {
            return internal_err!("ArrayAggregateExec has no partition {partition}");
        }
        let run = Run {
            scan: self.scan.clone(),
            aggregation: Arc::clone(&self.aggregation),
            stage: self.stage,
            schema: self.schema(),
            metrics: self.metrics.clone(),
            context,
        };
        let batches = futures::stream::once(run.run());
        let batches = batches.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if self.aggregation.groups.is_empty() {
            statistics.num_rows = Precision::Exact(1);
        } else if let Some(groups) = self.groups.and_then(|groups| usize::try_from(groups).ok()) {
            statistics.num_rows = Precision::Inexact(groups);
        }
        Ok(Arc::new(statistics))
    }
}

/// One execution.
struct Run {
    scan: ArrayScan,
    aggregation: Arc<Aggregation>,
    stage: Stage,
    schema: SchemaRef,
    metrics: ExecutionPlanMetricsSet,
    context: Arc<TaskContext>,
}

impl Run {
    async fn run(self) -> Result<impl Stream<Item = Result<RecordBatch>>> {
        let metrics = ScanMetrics::new(&self.metrics, 0);
        let Some(parts) = self.scan.blocks().grid_parts() else {
            return internal_err!("the scan is not over grids");
        };
        let config = self.context.session_config();
        let workers = self.scan.plan().partitions.len();
        let job = Job::try_new(
            &self.aggregation,
            parts,
            self.scan.source().schema(),
            self.scan.plan().options,
            workers,
            MOST_GROUPS,
        )?;
        self.scan.set_plan_metrics(&metrics, job.units() > 0);
        let job = Arc::new(job);
        // Each worker has results of all groups.
        let bytes = job.bytes().max(1);
        let affordable = (MOST_BYTES / bytes).max(1);
        let workers = (workers as u64)
            .min(job.units())
            .clamp(1, affordable as u64);
        let reserve = || {
            let consumer = MemoryConsumer::new("ArrayAggregateExec");
            consumer.register(self.context.memory_pool())
        };
        let reservation = reserve();
        reservation.try_grow(bytes.saturating_mul(workers as usize))?;
        let batch_size = config.batch_size();
        let work = |metrics| worker::work(Arc::clone(&job), metrics, batch_size, reserve());
        let others = (1..workers).map(|number| {
            let metrics = ScanMetrics::new(&self.metrics, number as usize);
            SpawnedTask::spawn(work(metrics))
        });
        let others: Vec<_> = others.collect();
        let mut found: Found = work(metrics.clone()).await?;
        for other in others {
            let other = other.join().await.map_err(|error| {
                datafusion::error::DataFusionError::ExecutionJoin(Box::new(error))
            })??;
            found.merge(other, job.groups.count())?;
        }
        let timer = metrics.baseline.elapsed_compute().timer();
        let answer = Answer::new(&job, found, self.stage, &self.schema, &reserve()).await?;
        drop(timer);
        let rows = answer.rows();
        let starts = (0..rows).step_by(batch_size.max(1));
        let batches = starts.map(move |start| {
            let batch = answer.batch(start..rows.min(start + batch_size.max(1)))?;
            Ok(batch.record_output(&metrics.baseline))
        });
        Ok(futures::stream::iter(batches))
    }
}
