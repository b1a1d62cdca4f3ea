//! The operator.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

#[cfg(feature = "proto")]
use {
    crate::provider::codec::Operator, datafusion::common::plan_datafusion_err,
    datafusion::physical_plan::proto::ExecutionPlanEncodeCtx,
    datafusion_proto::protobuf::PhysicalPlanNode,
};

use crate::provider::plans::display::{visit_all, write_operator};
use crate::provider::plans::planned_reads::PlannedRead;
use crate::provider::scan::ArrayScan;
use crate::provider::scan::metrics::ScanMetrics;
use crate::provider::source::{SharedChunks, Windows};
use crate::provider::window::exec::stream;
use crate::provider::window::plan::spec::{OutputColumn, RankFunction, WindowSpec};

/// Computes window functions along one axis of an array, for many series at a time. Nothing is sorted
/// or hashed.
///
/// EXPLAIN shows the order, the functions with their frames, and the chunks that will be read:
///
/// ```text
/// ArrayWindowExec: order=[time@0 ASC NULLS LAST], windows=[avg(value@3) ROWS BETWEEN 23 PRECEDING AND CURRENT ROW],
///     tiles=6, tet=t2m, slice=[time: all, lat: all, lon: all], chunks=24 of 24, projection=[lat, avg(t2m.value) ...]
/// ```
///
/// The rows have no order. The memory that a partition needs is that of the frames of one tile, whatever
/// the length of the axis. It is reserved in the memory pool; if the pool refuses, tiles are cut in half.
#[derive(Debug)]
pub struct ArrayWindowExec {
    /// The scan of the array, whose blocks the operator reads in its own order.
    scan: ArrayScan,
    spec: Arc<WindowSpec>,
    /// DataFusion's plan of the same windows, from which the codec recreates the operator.
    replaced: Arc<dyn ExecutionPlan>,
    /// The output columns, as indices of the columns of `replaced`, ascending.
    columns: Vec<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ArrayWindowExec {
    pub(in crate::provider::window) fn new(
        scan: ArrayScan,
        spec: Arc<WindowSpec>,
        replaced: Arc<dyn ExecutionPlan>,
        columns: Vec<usize>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&spec.schema)),
            Partitioning::UnknownPartitioning(spec.tiles.partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            scan,
            spec,
            replaced,
            columns,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns the scan that the operator runs.
    pub(in crate::provider) fn scan(&self) -> &ArrayScan {
        &self.scan
    }

    /// Returns the windows that the operator reads, without those that it reads again.
    pub(in crate::provider) fn windows(&self) -> Windows {
        self.spec.tiles.windows(self.spec.grid.chunk_grid())
    }

    /// Returns the operator with chunks that it shares with other operators of the plan.
    pub(in crate::provider) fn with_shared(&self, shared: &Arc<SharedChunks>) -> Self {
        Self::new(
            self.scan.with_shared(shared),
            Arc::clone(&self.spec),
            Arc::clone(&self.replaced),
            self.columns.clone(),
        )
    }

    /// Returns DataFusion's plan of the same windows.
    pub(in crate::provider::window) fn replaced(&self) -> &Arc<dyn ExecutionPlan> {
        &self.replaced
    }

    /// Returns the output columns, as indices of the columns of the replaced plan.
    pub(in crate::provider::window) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Returns `true` if a column ranks the cells of a partition by their values.
    pub(in crate::provider::window) fn ranks_cells(&self) -> bool {
        self.spec.ranks().next().is_some()
    }

    /// Returns the operator that outputs only the rows in which `column` is at most `max_rank`. Returns `None` if the column is not
    /// a `row_number()` or `rank()` of cells.
    pub(in crate::provider::window) fn with_max_rank(
        &self,
        column: usize,
        max_rank: u32,
    ) -> Option<Self> {
        let mut spec = self.spec.as_ref().clone();
        let OutputColumn::Rank(rank) = spec.outputs.get_mut(column)? else {
            return None;
        };
        if !matches!(rank.function, RankFunction::RowNumber | RankFunction::Rank) {
            return None;
        }
        rank.max_rank = Some(rank.max_rank.map_or(max_rank, |known| known.min(max_rank)));
        Some(Self::new(
            self.scan.clone(),
            Arc::new(spec),
            Arc::clone(&self.replaced),
            self.columns.clone(),
        ))
    }

    /// Returns the columns with a maximum rank, and this rank.
    #[cfg(feature = "proto")]
    pub(in crate::provider::window) fn max_ranks(&self) -> impl Iterator<Item = (usize, u32)> {
        let outputs = self.spec.outputs.iter().enumerate();
        outputs.filter_map(|(column, output)| Some((column, output.rank()?.max_rank?)))
    }

    /// Returns the operator with these columns bounded by their maximum ranks.
    ///
    /// # Errors
    /// Fails if a column is not a `row_number()` or `rank()` of cells.
    #[cfg(feature = "proto")]
    pub(in crate::provider) fn with_max_ranks(
        self,
        mut max_ranks: impl Iterator<Item = (usize, u32)>,
    ) -> Result<Self> {
        max_ranks.try_fold(self, |operator, (column, max_rank)| {
            let bounded = operator.with_max_rank(column, max_rank);
            bounded.ok_or_else(|| {
                plan_datafusion_err!(
                    "output column {column} of a window has a maximum rank, expected a row_number() or rank() of cells"
                )
            })
        })
    }

    /// Returns the axis that the windows are ordered by.
    #[cfg(feature = "cluster")]
    pub(in crate::provider::window) fn axis(&self) -> usize {
        self.spec.axis
    }

    /// Returns the number of partitions.
    #[cfg(feature = "cluster")]
    pub(in crate::provider::window) fn partitions(&self) -> usize {
        self.spec.tiles.partitions
    }

    /// Returns the operator with this number of partitions.
    #[cfg(feature = "proto")]
    pub(in crate::provider) fn with_partitions(&self, partitions: usize) -> Self {
        let mut spec = self.spec.as_ref().clone();
        spec.tiles.partitions = partitions.max(1);
        Self::new(
            self.scan.clone(),
            Arc::new(spec),
            Arc::clone(&self.replaced),
            self.columns.clone(),
        )
    }

    /// Returns the chunks that will be read.
    pub(in crate::provider) fn planned_read(&self) -> PlannedRead {
        self.scan.planned_read()
    }
}

impl DisplayAs for ArrayWindowExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let spec = &self.spec;
        let names: Vec<_> = spec
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let mut parts = vec![
            format!("order=[{}]", spec.order),
            format!("windows=[{}]", spec.descriptions.join(", ")),
        ];
        if let Some(tiles) = spec.tiles.count() {
            parts.push(format!("tiles={tiles}"));
        }
        if let Some(max_rank) = spec.ranks().filter_map(|rank| rank.max_rank).min() {
            parts.push(format!("first_ranks={max_rank}"));
        }
        if spec.totals_first {
            parts.push("passes=2".to_string());
        }
        parts.extend(self.scan.description_without_projection());
        parts.push(format!("projection=[{}]", names.join(", ")));
        write_operator(self.name(), &parts, t, f)
    }
}

impl ExecutionPlan for ArrayWindowExec {
    fn name(&self) -> &'static str {
        "ArrayWindowExec"
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
        visit_all(self.spec.planes.iter().map(|plane| &plane.expr), f)
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
        let metrics = ScanMetrics::new(&self.metrics, partition);
        if partition == 0 {
            let reads_values = !self.spec.attributes().is_empty();
            self.scan.set_plan_metrics(&metrics, reads_values);
        }
        let shared = self.scan.shared(&context);
        stream::rows(Arc::clone(&self.spec), partition, &context, shared, metrics)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let rows = self.spec.selection.count();
        let is_bounded = self.spec.ranks().any(|rank| rank.max_rank.is_some());
        if let Some(rows) = rows.and_then(|rows| usize::try_from(rows).ok()) {
            statistics.num_rows = match args.partition() {
                None if is_bounded => Precision::Inexact(rows),
                None => Precision::Exact(rows),
                Some(_) => Precision::Inexact(rows / self.spec.tiles.partitions),
            };
        }
        Ok(Arc::new(statistics))
    }

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        context: &ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<PhysicalPlanNode>> {
        let inputs = context.encode_children([&self.replaced])?;
        let message = Operator::Window {
            columns: self.columns.clone(),
            partitions: self.spec.tiles.partitions,
            max_ranks: self.max_ranks().collect(),
        };
        message.encode(inputs).map(Some)
    }
}
