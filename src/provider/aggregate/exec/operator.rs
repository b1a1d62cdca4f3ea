//! The physical operator of aggregates in array space.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, conjunction_opt,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::TryStreamExt;

#[cfg(feature = "proto")]
use {
    crate::provider::attributes::plain,
    crate::provider::codec::{Operator, carrier},
    arrow::datatypes::SchemaRef,
    datafusion::physical_plan::proto::ExecutionPlanEncodeCtx,
    datafusion_proto::protobuf::PhysicalPlanNode,
};

use crate::provider::aggregate::exec::run::Run;
use crate::provider::aggregate::plan::aggregation::{Aggregation, Stage};
use crate::provider::aggregate::plan::group_columns::most_groups;
use crate::provider::aggregate::plan::order::ordering;
use crate::provider::aggregate::plan::program::{Output, Program};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::dynamic::is_dynamic;
use crate::provider::plans::below::replace_columns;
use crate::provider::plans::display::{visit_all, write_operator};
use crate::provider::plans::planned_reads::{ComputedFrom, PlannedRead};
use crate::provider::scan::ArrayScan;
use crate::provider::source::{BlockList, SharedChunks};

/// Computes aggregates of array cells, grouped by expressions over one or two dimensions.
///
/// EXPLAIN shows the aggregation and the chunks that will be read:
///
/// ```text
/// ArrayAggregateExec: mode=Single, gby=[lat@1], aggr=[avg(t.value)], tet=t2m,
///     slice=[time: 62 of 731, lat: all, lon: all], chunks=2 of 6
/// ```
///
/// The output is a single partition. As many workers as the scan has partitions take chunks from a
/// shared queue. The order of additions depends on their timing, so floating-point sums and
/// averages may differ in the last digits between runs. The difference is at most 2^-53 of the sum
/// of the magnitudes per addition to the total of a group, and usually far smaller. One such
/// addition covers at least eight cells, or a whole chunk that has fewer.
///
/// The results of all groups are kept in memory. If the memory pool refuses, DataFusion's own plan
/// runs instead, which can spill; the metric `left_to_engine` counts this.
///
/// All executions share the `Program`, which holds no state of an execution.
#[derive(Debug, Clone)]
pub struct ArrayAggregateExec {
    scan: ArrayScan,
    program: Arc<Program>,
    stage: Stage,
    /// An upper bound on the number of groups, if known.
    groups: Option<u64>,
    /// The dynamic filter over the table's columns. Applying it is optional.
    dynamic_filter: Option<Arc<dyn PhysicalExpr>>,
    /// DataFusion's own plan for the same rows. It is an alternative to this operator, not an
    /// input, so it is not a child.
    fallback: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ArrayAggregateExec {
    /// Creates the operator for an aggregation over the columns of a scan's table. It replaces all
    /// partitions of the plan `fallback`. `None` if the table is not made of grids, or a grouping
    /// expression refers to anything but one or two dimensions or the file column.
    ///
    /// The arguments determine the operator: everything else is derived from them.
    pub(crate) fn try_new(
        stage: Stage,
        aggregation: Aggregation,
        scan: ArrayScan,
        fallback: Arc<dyn ExecutionPlan>,
        dynamic_filter: Option<Arc<dyn PhysicalExpr>>,
    ) -> Option<Self> {
        let parts = scan.blocks().narrowed_selections();
        let parts = &parts.filter(|parts| !parts.is_empty())?;
        let fields = scan.source().schema().fields().len();
        let program = Program::try_new(aggregation, parts, fields, &scan.plan().options)?;
        // A partial stage declares an ordering only if the replaced plan did: if some partial
        // states are sorted, DataFusion sorts the others as well.
        let ordering = if stage == Stage::Whole || fallback.output_ordering().is_some() {
            ordering(parts, &program, &fallback.schema())
        } else {
            Vec::new()
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(fallback.schema(), [ordering]),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Some(Self {
            groups: most_groups(&program.group_columns, program.group_pair.as_deref(), parts),
            scan,
            program: Arc::new(program),
            stage,
            dynamic_filter,
            fallback,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Returns the scan that the operator runs.
    pub(in crate::provider) fn scan(&self) -> &ArrayScan {
        &self.scan
    }

    /// Returns the operator with chunks that it shares with other operators of the plan.
    pub(in crate::provider) fn with_shared(&self, shared: &Arc<SharedChunks>) -> Self {
        Self {
            scan: self.scan.with_shared(shared),
            ..self.clone()
        }
    }

    /// Returns DataFusion's own plan for the same rows.
    #[cfg(feature = "cluster")]
    pub(in crate::provider) fn fallback(&self) -> &Arc<dyn ExecutionPlan> {
        &self.fallback
    }

    /// Returns the stage of DataFusion's aggregation that the operator replaces.
    #[cfg(feature = "cluster")]
    pub(in crate::provider) fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns the program.
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Returns an upper bound on the number of groups, if known.
    pub(crate) fn groups(&self) -> Option<u64> {
        self.groups
    }

    /// Returns the operator with additional dynamic filters over its output, which prune chunks
    /// while the operator runs; `None` if none of the filters can.
    ///
    /// The output rows still have to be filtered: a group that a filter rejects may be computed
    /// from only some of its cells.
    ///
    /// # Errors
    /// Fails if a filter refers to a column that does not exist.
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
        Ok(Some(Self {
            dynamic_filter: conjunction_opt(all),
            ..self.clone()
        }))
    }

    /// Returns the columns of the table, without attributes.
    #[cfg(feature = "proto")]
    pub(crate) fn table_schema(&self) -> SchemaRef {
        plain(self.scan.source().schema())
    }

    /// Returns the operator with this dynamic filter over the table's columns in place of its own.
    #[cfg(feature = "proto")]
    pub(crate) fn with_dynamic_filter(self, dynamic_filter: Option<Arc<dyn PhysicalExpr>>) -> Self {
        Self {
            dynamic_filter,
            ..self
        }
    }

    /// Returns the chunks that will be read, and how each aggregate is computed.
    pub(in crate::provider) fn planned_read(&self) -> PlannedRead {
        let read = self.scan.planned_read();
        let aggregates = self.program.computed().map(|(aggregate, output)| {
            let from = match output {
                Output::Axis(..) => ComputedFrom::Axis,
                Output::RowByRow => ComputedFrom::Rows,
                _ => ComputedFrom::Cells,
            };
            (aggregate.function.fun().name().to_string(), from)
        });
        let plan = self.scan.plan();
        let aggregates: Vec<_> = aggregates.collect();
        let blocks = self.scan.blocks().list();
        let has_statistics = |column: &usize| {
            let is_known = blocks.availability(*column, &plan.options).is_known;
            is_known
                && aggregates.iter().all(|(name, _)| match name.as_str() {
                    "min" | "max" | "count" => true,
                    "sum" | "avg" => has_sums(blocks.as_ref(), *column, &plan.options),
                    _ => false,
                })
        };
        PlannedRead {
            may_read_less: read.may_read_less
                || self.dynamic_filter.is_some()
                || plan.columns.iter().any(has_statistics),
            aggregates,
            ..read
        }
    }

    /// Rewrites a filter over the grouping columns in terms of the table's columns; `None` if the
    /// filter refers to other columns.
    fn over_table(&self, filter: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let groups = &self.program.aggregation.groups;
        let mut columns = collect_columns(filter).into_iter();
        // Without grouping expressions there is one output row, whatever the cells.
        if groups.is_empty() || columns.any(|column| column.index() >= groups.len()) {
            return Ok(None);
        }
        replace_columns(filter, &|number| groups.get(number).map(Arc::clone)).map(Some)
    }
}

/// Returns `true` if the statistics of a column include sums, judging by the first block.
fn has_sums(blocks: &dyn BlockList, column: usize, options: &ReadOptions) -> bool {
    if blocks.count() == Some(0) {
        return false;
    }
    let known = blocks.statistics(&[column], &[0], options);
    known.is_ok_and(|known| {
        known
            .columns
            .iter()
            .flatten()
            .any(|bounds| bounds.sums.is_some())
    })
}

impl DisplayAs for ArrayAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let aggregation = &self.program.aggregation;
        let groups: Vec<_> = aggregation
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
        // Lists the names of the aggregates with such an output.
        let names = |is_one: fn(Output) -> bool| {
            let some = self
                .program
                .computed()
                .filter(|(_, output)| is_one(*output));
            let names: Vec<_> = some.map(|(one, _)| one.function.name()).collect();
            names.join(", ")
        };
        let mode = match self.stage {
            Stage::Partial => "Partial",
            Stage::Whole => "Single",
        };
        let mut parts = vec![
            format!("mode={mode}"),
            format!("gby=[{}]", groups.join(", ")),
            format!("aggr=[{}]", names(|_| true)),
        ];
        let by_axis = names(|output| matches!(output, Output::Axis(..)));
        let by_row = names(|output| output == Output::RowByRow);
        for (key, names) in [("by_axis", by_axis), ("by_row", by_row)] {
            if !names.is_empty() {
                parts.push(format!("{key}=[{names}]"));
            }
        }
        if !aggregation.conjuncts.is_empty() {
            let conjuncts = aggregation.conjuncts.iter();
            let conjuncts: Vec<_> = conjuncts.map(|conjunct| conjunct.to_string()).collect();
            parts.push(format!("predicate={}", conjuncts.join(" AND ")));
        }
        parts.extend(self.scan.description_without_projection());
        if let Some(filter) = &self.dynamic_filter {
            parts.push(format!("dynamic_filter={filter}"));
        }
        write_operator(self.name(), &parts, t, f)
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
        let expressions = self.program.aggregation.expressions();
        visit_all(expressions.chain(&self.dynamic_filter), f)
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
            program: Arc::clone(&self.program),
            dynamic_filter: self.dynamic_filter.clone(),
            stage: self.stage,
            schema: self.schema(),
            ordering: self.properties.output_ordering().cloned(),
            fallback: Arc::clone(&self.fallback),
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
        if !self.program.is_grouped() {
            statistics.num_rows = Precision::Exact(1);
        } else if let Some(groups) = self.groups.and_then(|groups| usize::try_from(groups).ok()) {
            statistics.num_rows = Precision::Inexact(groups);
        }
        Ok(Arc::new(statistics))
    }

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        context: &ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<PhysicalPlanNode>> {
        let dynamic_filter = carrier(&self.dynamic_filter, &self.table_schema())?;
        let inputs = context.encode_children([&self.fallback, &dynamic_filter])?;
        let stage = self.stage;
        Operator::Aggregate { stage }.encode(inputs).map(Some)
    }
}
