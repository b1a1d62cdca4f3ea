//! The operator.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr, conjunction_opt,
};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::TryStreamExt;

use crate::provider::aggregate::exec::output::Stage;
use crate::provider::aggregate::exec::run::Run;
use crate::provider::aggregate::plan::aggregation::Aggregation;
use crate::provider::aggregate::plan::axis_filters::is_over_axis;
use crate::provider::aggregate::plan::columns::Columns;
use crate::provider::aggregate::plan::program::{Output, Program};
use crate::provider::planning::pruning::is_dynamic;
use crate::provider::plans::below::with_columns;
use crate::provider::plans::planned_reads::{ComputedFrom, PlannedRead};
use crate::provider::scan::ArrayScan;
use crate::provider::source::GridPart;

/// The most groups of one aggregation; with more it stays the engine's.
pub(crate) const MOST_GROUPS: usize = 1 << 26;

/// Computes aggregates of the cells of arrays, grouped by what follows from their positions.
///
/// One partition; as many workers as the scan has partitions take chunks one after another. What they add up in what order
/// depends on their pace, so that sums and averages of floating-point numbers, and what is made of them, may differ in
/// their last digits from run to run: relative to the sum of the numbers' magnitudes by at most 2^-53 for every addition to
/// the total of a group, of which there is one for eight cells or more, or for a chunk with fewer; as a rule by far less.
///
/// The results of all groups are kept in memory. Where that is refused, the engine's own plan runs instead, which can
/// spill; the metric `left_to_engine` says so.
#[derive(Debug, Clone)]
pub struct ArrayAggregateExec {
    scan: ArrayScan,
    aggregation: Arc<Aggregation>,
    stage: Stage,
    /// The aggregates that are computed of the positions along an axis.
    by_axis: Vec<String>,
    /// The aggregates that the engine computes, row by row.
    by_row: Vec<String>,
    /// At most so many groups, if that is known.
    groups: Option<u64>,
    /// What becomes known of the cells that are needed, while the query runs, over the table's columns. It need not be
    /// heeded.
    dynamic_filter: Option<Arc<dyn PhysicalExpr>>,
    /// What the engine would do. It is no child: it takes this operator's place rather than feeding it.
    engine: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ArrayAggregateExec {
    /// The operator for an aggregation over the columns of a scan's table, in place of `engine`, the rows of all of whose
    /// partitions it gives in the order that is `ordering`.
    pub(crate) fn new(
        parts: &[GridPart],
        scan: ArrayScan,
        aggregation: Aggregation,
        stage: Stage,
        groups: Option<u64>,
        ordering: Vec<PhysicalSortExpr>,
        engine: Arc<dyn ExecutionPlan>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(engine.schema(), [ordering]),
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
            stage,
            groups,
            dynamic_filter: None,
            engine,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same for the cells that a filter leaves, which speaks of the table's columns and becomes known while the query
    /// runs.
    pub(crate) fn with_dynamic_filter(self, dynamic_filter: Option<Arc<dyn PhysicalExpr>>) -> Self {
        Self {
            dynamic_filter,
            ..self
        }
    }

    /// The operator with more filters over its output that rule out chunks while it runs; `None` if none of these does.
    /// The rows that the operator gives still have to be filtered: a group that a filter drops may lack cells.
    ///
    /// # Errors
    /// If a filter speaks of a column that is not there.
    pub fn with_filters(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Result<Option<Self>> {
        let mut all: Vec<_> = self.dynamic_filter.iter().cloned().collect();
        let known = all.len();
        for filter in filters {
            if is_dynamic(filter) {
                all.extend(self.over_table(filter)?);
            }
        }
        if all.len() == known {
            return Ok(None);
        }
        Ok(Some(self.clone().with_dynamic_filter(conjunction_opt(all))))
    }

    /// The chunks that are going to be read, and the source of each aggregate.
    pub(in crate::provider) fn planned_read(&self) -> PlannedRead {
        let read = self.scan.planned_read();
        let aggregates = self.aggregation.aggregates.iter().map(|aggregate| {
            let name = aggregate.function.name().to_string();
            let from = match name {
                ref name if self.by_axis.contains(name) => ComputedFrom::Axis,
                ref name if self.by_row.contains(name) => ComputedFrom::Rows,
                _ => ComputedFrom::Cells,
            };
            (aggregate.function.fun().name().to_string(), from)
        });
        let plan = self.scan.plan();
        let has_statistics = |column: &usize| {
            let blocks = self.scan.blocks();
            blocks.has_statistics(*column, &plan.options)
        };
        // Zone maps have no sums.
        let are_extremes = |aggregates: &[(String, ComputedFrom)]| {
            let mut names = aggregates.iter().map(|(name, _)| name.as_str());
            names.all(|name| matches!(name, "min" | "max" | "count"))
        };
        let aggregates: Vec<_> = aggregates.collect();
        PlannedRead {
            may_read_less: read.may_read_less
                || self.dynamic_filter.is_some()
                || (are_extremes(&aggregates) && plan.columns.iter().any(has_statistics)),
            aggregates,
            ..read
        }
    }

    /// A filter over the groups' columns in terms of the table's; `None` if it asks for more than that.
    fn over_table(&self, filter: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let groups = &self.aggregation.groups;
        let mut columns = collect_columns(filter).into_iter();
        // Without groups there is one row, whatever the cells.
        if groups.is_empty() || columns.any(|column| column.index() >= groups.len()) {
            return Ok(None);
        }
        with_columns(filter, &|number| groups.get(number).map(Arc::clone)).map(Some)
    }
}

impl DisplayAs for ArrayAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let groups: Vec<_> = self
            .aggregation
            .groups
            .iter()
            .zip(self.schema().fields())
            .map(|(expr, field)| {
                let name = field.name();
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
        if let Some(filter) = &self.dynamic_filter {
            parts.push(format!("dynamic_filter={filter}"));
        }
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
        let expressions = self.aggregation.expressions();
        for expr in expressions.chain(&self.dynamic_filter) {
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
            dynamic_filter: self.dynamic_filter.clone(),
            stage: self.stage,
            schema: self.schema(),
            ordering: self.properties.output_ordering().cloned(),
            engine: Arc::clone(&self.engine),
            metrics: self.metrics.clone(),
            context,
        };
        let batches = futures::stream::once(run.run()).try_flatten();
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
