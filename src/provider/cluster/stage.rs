//! Divides a part of a plan into tasks: the same operators over different chunks.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion_distributed::{
    DistributedLeafExec, NetworkBoundaryExt, NetworkCoalesceExec, Stage as TaskStage,
};

use crate::provider::aggregate::ArrayAggregateExec;
use crate::provider::aggregate::plan::aggregation::{Aggregation, Stage};
use crate::provider::aggregate::rule;
use crate::provider::cluster::envelope::encoded;
use crate::provider::cluster::rule::replaced;
use crate::provider::rules::single_stage::keeps_values;
use crate::provider::scan::ArrayScan;
use crate::provider::scan::tasks::Division;

/// Divides parts of a plan into tasks, and counts the stages made of them.
#[derive(Debug)]
pub(super) struct Divider {
    workers: usize,
    /// The minimum number of bytes that a task reads.
    task_size: u64,
    /// The maximum number of partitions of a task.
    partitions: usize,
    stages: usize,
}

/// A part of a plan that works on each row, or on the rows of each partition, by itself: operators with
/// one input each, from the top down, over a scan.
struct RowWise {
    operators: Vec<Arc<dyn ExecutionPlan>>,
    leaf: Arc<dyn ExecutionPlan>,
}

/// The leaves of the tasks of a stage, and the operators that every task runs over its leaf.
struct Tasks {
    /// The plan that the leaves divide.
    whole: Arc<dyn ExecutionPlan>,
    leaves: Vec<Arc<dyn ExecutionPlan>>,
    /// The number of chunks that each task reads; `None` if 2^64 or more.
    chunks: Vec<Option<u64>>,
    /// Operators with one input each, from the top down.
    operators: Vec<Arc<dyn ExecutionPlan>>,
}

impl Divider {
    pub fn new(workers: usize, task_size: u64, partitions: usize) -> Self {
        Self {
            workers,
            task_size,
            partitions,
            stages: 0,
        }
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the number of stages so far.
    pub fn stages(&self) -> usize {
        self.stages
    }

    /// Returns a plan with the rows of `plan` whose tasks run on workers; `None` if the plan cannot be
    /// divided, or reads too little. `is_merged` is `true` if the parent merges all partitions.
    pub fn divide(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        is_merged: bool,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(first) = whole_aggregation(plan) {
            return self.two_stages(first, plan);
        }
        // A limit on sorted rows holds for the rows of all tasks together.
        let limit = whole_limit(plan);
        let part = match limit {
            Some(sort) => RowWise::of(sort.input(), false).map(|part| part.below(plan)),
            None => RowWise::of(plan, false),
        };
        let Some(part) = part else {
            return Ok(None);
        };
        let tasks = match part.leaf.downcast_ref::<ArrayAggregateExec>() {
            None => self.scans(&part, Division::Blocks)?,
            Some(partial) => {
                let first = partial.engine().downcast_ref::<AggregateExec>();
                let tasks = first.map(|first| self.partial_stages(first)).transpose()?;
                tasks.flatten().map(|mut tasks| {
                    tasks.operators.splice(0..0, part.operators);
                    tasks
                })
            }
        };
        let rows = tasks.map(|tasks| self.stage(tasks)).transpose()?;
        let Some(rows) = rows.flatten() else {
            return Ok(None);
        };
        let is_single = plan.output_partitioning().partition_count() == 1;
        if limit.is_none() && (is_merged || !is_single) {
            return Ok(Some(rows));
        }
        Ok(Some(match plan.output_ordering().cloned() {
            Some(ordering) => {
                let merged = SortPreservingMergeExec::new(ordering, rows);
                Arc::new(merged.with_fetch(limit.and_then(SortExec::fetch)))
            }
            None => Arc::new(CoalescePartitionsExec::new(rows)),
        }))
    }

    /// Divides the partial stage of an aggregation, and merges the partial states in this process. The
    /// result has the columns, the order and the partitions of `whole`.
    fn two_stages(
        &mut self,
        first: &AggregateExec,
        whole: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if keeps_values(first) || Aggregation::of(first).is_none() {
            return Ok(None);
        }
        let tasks = self.partial_stages(first)?;
        let states = tasks.map(|tasks| self.stage(tasks)).transpose()?;
        let Some(states) = states.flatten() else {
            return Ok(None);
        };
        let merged = AggregateExec::try_new(
            AggregateMode::Final,
            first.group_expr().as_final(),
            first.aggr_expr().to_vec(),
            vec![None; first.aggr_expr().len()],
            Arc::new(CoalescePartitionsExec::new(states)),
            first.input_schema(),
        )?;
        let mut merged: Arc<dyn ExecutionPlan> = Arc::new(merged);
        if let Some(ordering) = whole.output_ordering()
            && !merged
                .equivalence_properties()
                .ordering_satisfy(ordering.iter().cloned())?
        {
            merged = Arc::new(SortExec::new(ordering.clone(), merged));
        }
        // The parent may rely on how the rows are distributed over partitions.
        Ok(Some(match whole.output_partitioning() {
            Partitioning::UnknownPartitioning(_) => merged,
            spread if spread.partition_count() == 1 => merged,
            spread => Arc::new(RepartitionExec::try_new(merged, spread.clone())?),
        }))
    }

    /// Returns the partial stage of an aggregation, over the chunks of each task.
    fn partial_stages(&self, first: &AggregateExec) -> Result<Option<Tasks>> {
        let Some(part) = RowWise::of(first.input(), true) else {
            return Ok(None);
        };
        let Some(mut scans) = self.scans(&part, Division::Products)? else {
            return Ok(None);
        };
        let partial = |input: Arc<dyn ExecutionPlan>| -> Result<Arc<dyn ExecutionPlan>> {
            let partial = AggregateExec::try_new(
                AggregateMode::Partial,
                first.group_expr().clone(),
                first.aggr_expr().to_vec(),
                first.filter_expr().to_vec(),
                input,
                first.input_schema(),
            )?;
            Ok(Arc::new(partial))
        };
        let in_array_space = |scan: &Arc<dyn ExecutionPlan>| {
            let plan = partial(over(&scans.operators, Arc::clone(scan))?)?;
            let operator = rule::operator(&plan, Stage::Partial)?;
            Ok(operator.map(|operator| -> Arc<dyn ExecutionPlan> { Arc::new(operator) }))
        };
        let whole = in_array_space(&scans.whole)?;
        let leaves = scans.leaves.iter().map(in_array_space);
        let leaves = leaves.collect::<Result<Option<Vec<_>>>>()?;
        // All tasks compute their states in the same way.
        if let (Some(whole), Some(leaves)) = (whole, leaves) {
            return Ok(Some(Tasks {
                whole,
                leaves,
                chunks: scans.chunks,
                operators: Vec::new(),
            }));
        }
        let input = over(&scans.operators, Arc::clone(&scans.whole))?;
        scans.operators.insert(0, partial(input)?);
        Ok(Some(scans))
    }

    /// Divides the scan of a part of a plan.
    fn scans(&self, part: &RowWise, division: Division) -> Result<Option<Tasks>> {
        let Some(source) = part.leaf.downcast_ref::<DataSourceExec>() else {
            return Ok(None);
        };
        let Some(scan) = source.data_source().downcast_ref::<ArrayScan>() else {
            return Ok(None);
        };
        let most = self.workers.max(1) as u64;
        let tasks = scan.weight().unwrap_or(u64::MAX) / self.task_size.max(1);
        let tasks = tasks.min(most) as usize;
        if tasks < self.workers.min(2) {
            return Ok(None);
        }
        // The dynamic filters of operators in this process never learn anything in a worker.
        let scan = match part.operators.iter().any(makes_dynamic_filters) {
            true => scan.clone(),
            false => scan.without_dynamic_filter(),
        };
        let Some(scans) = scan.in_tasks(tasks, self.partitions, division)? else {
            return Ok(None);
        };
        let chunks = scans.iter().map(|scan| scan.planned_read().chunks);
        let chunks = chunks.collect();
        let with_scan = |scan: ArrayScan| -> Arc<dyn ExecutionPlan> {
            Arc::new(source.clone().with_data_source(Arc::new(scan)))
        };
        Ok(Some(Tasks {
            whole: with_scan(scan),
            leaves: scans.into_iter().map(with_scan).collect(),
            chunks,
            operators: part.operators.clone(),
        }))
    }

    /// Returns the rows of all tasks; `None` if the tasks cannot be sent to another process.
    fn stage(&mut self, tasks: Tasks) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(first) = tasks.leaves.first() else {
            return Ok(None);
        };
        if !can_be_sent(&over(&tasks.operators, Arc::clone(first))?)? {
            return Ok(None);
        }
        self.stages += 1;
        let count = tasks.leaves.len();
        let whole = Arc::new(Divided {
            plan: tasks.whole,
            chunks: tasks.chunks,
        });
        let leaf = DistributedLeafExec::try_new(whole, tasks.leaves)?;
        let task = over(&tasks.operators, Arc::new(leaf))?;
        let rows: Arc<dyn ExecutionPlan> = Arc::new(NetworkCoalesceExec::try_new(task, count, 1)?);
        // EXPLAIN shows the number.
        let numbered = rows.as_network_boundary().and_then(|boundary| {
            let TaskStage::Local(mut stage) = boundary.input_stage().clone() else {
                return None;
            };
            stage.num = self.stages;
            Some(boundary.with_input_stage(TaskStage::Local(stage)))
        });
        Ok(Some(match numbered {
            Some(numbered) => numbered?,
            None => rows,
        }))
    }
}

/// Returns the operators, from the top down, over a leaf.
fn over(
    operators: &[Arc<dyn ExecutionPlan>],
    leaf: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    operators.iter().rev().try_fold(leaf, |input, operator| {
        match operator.downcast_ref::<SortExec>() {
            // Sorts the rows of each partition, which are merged in this process.
            Some(sort) => {
                let sort = sort.clone().with_preserve_partitioning(true);
                replaced(&(Arc::new(sort) as _), vec![input])
            }
            None => replaced(operator, vec![input]),
        }
    })
}

impl RowWise {
    /// Returns the part with another operator on top.
    fn below(mut self, operator: &Arc<dyn ExecutionPlan>) -> Self {
        self.operators.insert(0, Arc::clone(operator));
        self
    }

    /// Returns the operators of a plan and its scan; `None` if an operator needs rows of several
    /// partitions. With `skips_exchanges`, operators that only move rows between partitions are left
    /// out.
    fn of(plan: &Arc<dyn ExecutionPlan>, skips_exchanges: bool) -> Option<Self> {
        let mut operators = Vec::new();
        let mut node = plan;
        loop {
            let is_partial = node
                .downcast_ref::<ArrayAggregateExec>()
                .is_some_and(|aggregate| aggregate.stage() == Stage::Partial);
            if is_partial || node.is::<DataSourceExec>() {
                let leaf = Arc::clone(node);
                return Some(Self { operators, leaf });
            }
            let is_exchange = match node.downcast_ref::<CoalescePartitionsExec>() {
                Some(coalesce) => coalesce.fetch().is_none(),
                None => node.is::<RepartitionExec>(),
            };
            // Below an exchange, a limit would hold for fewer rows.
            if skips_exchanges && node.fetch().is_some() {
                return None;
            }
            if !(skips_exchanges && is_exchange) {
                if !is_row_wise(node) {
                    return None;
                }
                operators.push(Arc::clone(node));
            }
            let [input] = node.children()[..] else {
                return None;
            };
            node = input;
        }
    }
}

/// Returns `true` if an operator works on each row, or on the rows of each partition, by itself.
fn is_row_wise(node: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        return filter.fetch().is_none();
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return *aggregate.mode() == AggregateMode::Partial;
    }
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        let is_single = sort.input().output_partitioning().partition_count() == 1;
        return match sort.fetch() {
            // The limit of each partition is followed by one for all.
            Some(_) => sort.preserve_partitioning() && !is_single,
            None => sort.preserve_partitioning() || is_single,
        };
    }
    if let Some(limit) = node.downcast_ref::<LocalLimitExec>() {
        return limit.input().output_partitioning().partition_count() > 1;
    }
    if let Some(exchange) = node.downcast_ref::<RepartitionExec>() {
        return matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_));
    }
    node.is::<CooperativeExec>()
        || node.is::<ProjectionExec>()
        || node.is::<UnnestExec>()
        || node.name() == "ListSlicesExec"
}

/// Returns the operator if it sorts all rows and keeps the first.
fn whole_limit(plan: &Arc<dyn ExecutionPlan>) -> Option<&SortExec> {
    let sort = plan.downcast_ref::<SortExec>()?;
    let is_single = sort.input().output_partitioning().partition_count() == 1;
    (sort.fetch().is_some() && is_single).then_some(sort)
}

/// Returns `true` if an operator may tell the scan below what it needs while both run.
fn makes_dynamic_filters(node: &Arc<dyn ExecutionPlan>) -> bool {
    let sort = node.downcast_ref::<SortExec>();
    sort.is_some_and(|sort| sort.fetch().is_some()) || node.is::<AggregateExec>()
}

/// Returns the node of a whole aggregation whose input is rows; `None` if the plan is anything else, or
/// has two stages that are divided one by one.
fn whole_aggregation(plan: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    if let Some(aggregate) = plan.downcast_ref::<ArrayAggregateExec>() {
        let engine = aggregate.engine().downcast_ref::<AggregateExec>();
        let is_whole = aggregate.stage() == Stage::Whole;
        return engine
            .filter(|_| is_whole)
            .and_then(|engine| rule::first_stage(engine, Stage::Whole));
    }
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    let single = [AggregateMode::Single, AggregateMode::SinglePartitioned];
    single.contains(aggregate.mode()).then_some(aggregate)
}

/// Returns `true` if a task can be encoded, and refers to nothing outside of itself.
fn can_be_sent(task: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let refers_to_subquery = task.exists(|node| {
        let mut refers = false;
        node.apply_expressions(&mut |expr: &Arc<dyn PhysicalExpr>| {
            refers |= expr.exists(|expr| Ok(expr.is::<ScalarSubqueryExpr>()))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(refers)
    })?;
    if refers_to_subquery {
        return Ok(false);
    }
    Ok(encoded(task).is_ok())
}

/// A plan that is divided into tasks, as EXPLAIN shows it. Never runs.
struct Divided {
    plan: Arc<dyn ExecutionPlan>,
    /// The number of chunks that each task reads; `None` if 2^64 or more.
    chunks: Vec<Option<u64>>,
}

impl Debug for Divided {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Divided")
            .field("plan", &self.plan)
            .field("chunks", &self.chunks)
            .finish()
    }
}

impl DisplayAs for Divided {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let chunks = self.chunks.iter();
        let chunks = chunks.map(|chunks| chunks.map_or("2^64 or more".into(), |n| n.to_string()));
        let chunks: Vec<String> = chunks.collect();
        write!(f, "chunks_per_task=[{}]: ", chunks.join(", "))?;
        self.plan.fmt_as(t, f)
    }
}

impl ExecutionPlan for Divided {
    fn name(&self) -> &str {
        self.plan.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.plan.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.plan.apply_expressions(visit)
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
        self.plan.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.plan.metrics()
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema())))
    }
}
