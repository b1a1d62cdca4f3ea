//! ROLLUP, CUBE and GROUPING SETS over arrays.

use std::fmt::{self, Formatter};
use std::pin::Pin;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateMode, PhysicalGroupBy, evaluate_group_by,
};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

#[cfg(feature = "proto")]
use {
    crate::provider::codec::Operator, datafusion::physical_plan::proto::ExecutionPlanEncodeCtx,
    datafusion_proto::protobuf::PhysicalPlanNode,
};

use crate::provider::aggregate::exec::fallback::or_engine;
use crate::provider::aggregate::plan::aggregation::Stage;
use crate::provider::aggregate::rule::operator;
use crate::provider::plans::display::{visit_all, write_operator};

/// The minimum number of cells per group of all grouping expressions together. With fewer, it does not
/// pay to aggregate these groups first.
const MIN_CELLS_PER_GROUP: u64 = 8;

/// Computes the partial states of ROLLUP, CUBE and GROUPING SETS. The array is aggregated once, by all
/// grouping expressions together, and each of these groups belongs to one group of each grouping set:
///
/// ```text
/// GROUP BY ROLLUP (month, lat)
///
/// month lat  state       month lat  grouping id  state
/// 1     10   A           1     10   0            A
/// 1     20   B       ->  1     20   0            B
///                        1     NULL 1            A, B
///                        NULL  NULL 3            A, B
/// ```
///
/// DataFusion merges the states. If the array has no rows, DataFusion's own plan runs instead, whose
/// grand total has a row.
#[derive(Debug)]
pub struct ArrayGroupingSetsExec {
    /// The partial states of the groups of all grouping expressions together.
    states: Arc<dyn ExecutionPlan>,
    /// The grouping sets over the columns of `states`.
    group_by: PhysicalGroupBy,
    /// DataFusion's own plan for the same rows. It is an alternative, not an input.
    replaced: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Returns the operator that replaces the partial stage of an aggregation over grouping sets; `None` if
/// the stage stays.
pub(crate) fn grouping_sets(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<ArrayGroupingSetsExec>> {
    let Some(node) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let group_by = node.group_expr();
    if *node.mode() != AggregateMode::Partial || group_by.is_single() {
        return Ok(None);
    }
    let together = AggregateExec::try_new(
        AggregateMode::Partial,
        PhysicalGroupBy::new_single(group_by.expr().to_vec()),
        node.aggr_expr().to_vec(),
        node.filter_expr().to_vec(),
        Arc::clone(node.input()),
        node.input_schema(),
    )?;
    let Some(states) = operator(&(Arc::new(together) as _), Stage::Partial)? else {
        return Ok(None);
    };
    let cells = states.scan().blocks().rows().at_most();
    let pays_off = states
        .groups()
        .zip(cells)
        .is_some_and(|(groups, cells)| groups.saturating_mul(MIN_CELLS_PER_GROUP) <= cells);
    Ok(pays_off.then(|| ArrayGroupingSetsExec::new(Arc::new(states), group_by, plan)))
}

impl ArrayGroupingSetsExec {
    /// `states` and `replaced` have the same states, after columns for the expressions of `group_by`.
    fn new(
        states: Arc<dyn ExecutionPlan>,
        group_by: &PhysicalGroupBy,
        replaced: &Arc<dyn ExecutionPlan>,
    ) -> Self {
        let expressions = group_by.expr().iter().enumerate();
        let columns = expressions.map(|(index, (_, name))| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, index));
            (column, name.clone())
        });
        let group_by = PhysicalGroupBy::new(
            columns.collect(),
            group_by.null_expr().to_vec(),
            group_by.groups().to_vec(),
            true,
        );
        let properties = PlanProperties::new(
            EquivalenceProperties::new(replaced.schema()),
            Partitioning::UnknownPartitioning(1),
            states.pipeline_behavior(),
            states.boundedness(),
        );
        Self {
            states,
            group_by,
            replaced: Arc::clone(replaced),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// Returns the states of a batch once for each grouping set, with the keys of the set.
fn states_of_sets(
    batch: &RecordBatch,
    group_by: &PhysicalGroupBy,
    replaced: &Arc<dyn ExecutionPlan>,
) -> Result<Vec<RecordBatch>> {
    let states = &batch.columns()[group_by.expr().len()..];
    let sets = evaluate_group_by(group_by, batch)?.into_iter();
    let batches = sets.map(|keys| {
        let columns: Vec<ArrayRef> = keys.into_iter().chain(states.iter().cloned()).collect();
        Ok(RecordBatch::try_new(replaced.schema(), columns)?)
    });
    batches.collect()
}

impl DisplayAs for ArrayGroupingSetsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let names = |group: &Vec<bool>| {
            let expressions = self.group_by.expr().iter().zip(group);
            let names = expressions.filter(|(_, is_null)| !**is_null);
            let names: Vec<_> = names.map(|((_, name), _)| name.as_str()).collect();
            format!("({})", names.join(", "))
        };
        let sets: Vec<_> = self.group_by.groups().iter().map(names).collect();
        let parts = [format!("sets=[{}]", sets.join(", "))];
        write_operator(self.name(), &parts, t, f)
    }
}

impl ExecutionPlan for ArrayGroupingSetsExec {
    fn name(&self) -> &'static str {
        "ArrayGroupingSetsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.states]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        visit_all(self.group_by.expr().iter().map(|(expr, _)| expr), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(states), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("ArrayGroupingSetsExec has one input");
        };
        let states = match states.output_partitioning().partition_count() {
            1 => states,
            _ => Arc::new(CoalescePartitionsExec::new(states)),
        };
        Ok(Arc::new(Self::new(states, &self.group_by, &self.replaced)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("ArrayGroupingSetsExec has no partition {partition}");
        }
        let states = self.states.execute(0, Arc::clone(&context))?;
        let (group_by, replaced) = (self.group_by.clone(), Arc::clone(&self.replaced));
        let metrics = self.metrics.clone();
        let baseline = BaselineMetrics::new(&metrics, 0);
        let rows = async move {
            let has_rows = |batch: &RecordBatch| futures::future::ready(batch.num_rows() > 0);
            let mut states = states.try_filter(has_rows).boxed().peekable();
            if Pin::new(&mut states).peek().await.is_none() {
                let schema = replaced.schema();
                return or_engine(
                    Ok(None),
                    &replaced,
                    None,
                    &schema,
                    &context,
                    &metrics,
                    baseline,
                );
            }
            let sets = states.map(move |batch: Result<RecordBatch>| {
                let _timer = baseline.elapsed_compute().timer();
                let sets = states_of_sets(&batch?, &group_by, &replaced)?;
                let sets = sets.into_iter().map(|set| set.record_output(&baseline));
                let sets: Vec<Result<RecordBatch>> = sets.map(Ok).collect();
                Ok::<_, DataFusionError>(futures::stream::iter(sets))
            });
            Ok(sets.try_flatten().boxed())
        };
        let rows = futures::stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        context: &ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<PhysicalPlanNode>> {
        let inputs = context.encode_children([&self.replaced])?;
        Operator::GroupingSets.encode(inputs).map(Some)
    }
}
