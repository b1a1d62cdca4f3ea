//! The physical operator of aggregates over lookup joins.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::TryStreamExt;

#[cfg(feature = "proto")]
use {
    crate::provider::codec::Operator, datafusion::physical_plan::proto::ExecutionPlanEncodeCtx,
    datafusion_proto::protobuf::PhysicalPlanNode,
};

use crate::provider::aggregate::joined::execution::Execution;
use crate::provider::aggregate::joined::plan::JoinAggregation;
use crate::provider::aggregate::plan::aggregation::Stage;
use crate::provider::plans::display::{visit_all, write_operator};

/// Computes aggregates of the rows of a lookup join, grouped by expressions over dimensions of the
/// array and over columns of the build side. No group is hashed.
///
/// EXPLAIN shows the aggregation above the join, whose output has group numbers in place of the
/// grouping columns:
///
/// ```text
/// ArrayJoinAggregateExec: gby=[time@0, name@2], aggr=[avg(t.value)]
///   ArrayLookupJoinExec: ..., projection=[probe.value, probe.group_number, build.group_number]
/// ```
///
/// If aggregates and predicates use only the array, an `ArrayAggregateExec` below the join computes the
/// partial states of all cells with the same keys (eager aggregation), and this operator merges them
/// (`mode=Final`).
///
/// The output is a single partition. The results of all groups are kept in memory. If the memory pool
/// refuses, or if there are too many groups, another plan runs, which the metric `left_to_engine`
/// counts: the same operator over cells if this one merges partial states, otherwise DataFusion's own
/// plan.
#[derive(Debug)]
pub struct ArrayJoinAggregateExec {
    join: Arc<dyn ExecutionPlan>,
    program: Arc<JoinAggregation>,
    stage: Stage,
    /// DataFusion's own plan for the same rows, or the operator that joins cells in place of partial
    /// states. It is an alternative to this operator, not an input, so it is not a child.
    fallback: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ArrayJoinAggregateExec {
    /// Creates the operator that replaces the plan `fallback`, which is this stage of an aggregation.
    pub(super) fn new(
        stage: Stage,
        join: Arc<dyn ExecutionPlan>,
        program: Arc<JoinAggregation>,
        fallback: Arc<dyn ExecutionPlan>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(fallback.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            join,
            program,
            stage,
            fallback,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns the operator over another plan of the same join.
    pub(crate) fn over(&self, join: Arc<dyn ExecutionPlan>) -> Self {
        let (program, fallback) = (Arc::clone(&self.program), Arc::clone(&self.fallback));
        Self::new(self.stage, join, program, fallback)
    }

    /// Returns the stage of DataFusion's aggregation that the operator replaces.
    #[cfg(feature = "cluster")]
    pub(in crate::provider) fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns the operator with `fallback` in place of DataFusion's own plan.
    #[cfg(feature = "cluster")]
    pub(in crate::provider) fn with_datafusion_plan(
        &self,
        fallback: Arc<dyn ExecutionPlan>,
    ) -> Self {
        let (join, program) = (Arc::clone(&self.join), Arc::clone(&self.program));
        Self::new(self.stage, join, program, fallback)
    }

    /// Returns DataFusion's own plan for the same rows, also if the fallback joins cells.
    #[cfg(any(feature = "cluster", feature = "proto"))]
    pub(in crate::provider) fn datafusion_plan(&self) -> &Arc<dyn ExecutionPlan> {
        match self.fallback.downcast_ref::<Self>() {
            Some(of_cells) => &of_cells.fallback,
            None => &self.fallback,
        }
    }

    /// Returns `true` if the operator merges partial states that were computed before the join.
    pub fn merges_states(&self) -> bool {
        self.program.states.is_some()
    }

    /// Returns the names of the aggregate functions.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        let aggregates = self.program.aggregates.iter();
        aggregates.map(|aggregate| aggregate.function.fun().name())
    }
}

impl DisplayAs for ArrayJoinAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let groups = self.program.expressions.iter();
        let groups: Vec<_> = groups.map(|expr| expr.to_string()).collect();
        let aggregates = self.program.aggregates.iter();
        let aggregates: Vec<_> = aggregates.map(|one| one.function.name()).collect();
        let mut parts = vec![
            format!("gby=[{}]", groups.join(", ")),
            format!("aggr=[{}]", aggregates.join(", ")),
        ];
        let mode = match (self.stage, self.merges_states()) {
            (Stage::Partial, true) => Some("PartialReduce"),
            (Stage::Partial, false) => Some("Partial"),
            (Stage::Whole, true) => Some("Final"),
            (Stage::Whole, false) => None,
        };
        if let Some(mode) = mode {
            parts.insert(0, format!("mode={mode}"));
        }
        if let Some(predicate) = &self.program.predicate {
            parts.push(format!("predicate={predicate}"));
        }
        write_operator(self.name(), &parts, t, f)
    }
}

impl ExecutionPlan for ArrayJoinAggregateExec {
    fn name(&self) -> &'static str {
        "ArrayJoinAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.join]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let program = &self.program;
        // The partial states are columns of the join.
        if self.merges_states() {
            return Ok(TreeNodeRecursion::Continue);
        }
        let aggregates = program.aggregates.iter();
        let expressions = aggregates.flat_map(|one| one.arguments.iter().chain(&one.filter));
        visit_all(expressions.chain(&program.predicate), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([join]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("ArrayJoinAggregateExec has one child");
        };
        Ok(Arc::new(self.over(join)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("ArrayJoinAggregateExec has no partition {partition}");
        }
        let execution = Execution {
            join: Arc::clone(&self.join),
            program: Arc::clone(&self.program),
            stage: self.stage,
            fallback: Arc::clone(&self.fallback),
            metrics: self.metrics.clone(),
            context,
        };
        let batches = futures::stream::once(execution.run()).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        context: &ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<PhysicalPlanNode>> {
        // A partial stage is planned again when it is decoded, so its join is not encoded.
        let inputs = match self.stage {
            Stage::Partial => vec![self.datafusion_plan()],
            Stage::Whole => vec![self.datafusion_plan(), &self.join],
        };
        let stage = self.stage;
        let inputs = context.encode_children(inputs)?;
        Operator::JoinAggregate { stage }.encode(inputs).map(Some)
    }
}
