//! Divides a part of a plan into tasks: the same operators over different chunks.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    DistributedLeafExec, NetworkBoundaryExt, NetworkCoalesceExec, Stage as TaskStage,
    WorkerResolver,
};

use crate::provider::aggregate::plan::aggregation::{Aggregation, Stage};
use crate::provider::aggregate::rule;
use crate::provider::aggregate::{ArrayAggregateExec, ArrayJoinAggregateExec};
use crate::provider::cluster::build_rows::BuildRowsExec;
use crate::provider::cluster::envelope::encoded;
use crate::provider::cluster::planning::broadcast::BroadcastExec;
use crate::provider::cluster::planning::disjoint;
use crate::provider::cluster::planning::divided::Divided;
use crate::provider::cluster::planning::joined::{
    JoinedLeaf, build_sides, over_scan, partial, with_build_sides,
};
use crate::provider::cluster::planning::row_wise::{RowWise, makes_dynamic_filters, over};
use crate::provider::cluster::planning::rule::distributed;
use crate::provider::cluster::planning::subqueries::refers_to_subquery;
use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::rules::single_stage::keeps_values;
use crate::provider::scan::ArrayScan;
use crate::provider::scan::tasks::Division;
use crate::provider::window::ArrayWindowExec;

/// Divides parts of a plan into tasks, and counts the stages made of them.
pub struct Divider {
    resolver: Arc<dyn WorkerResolver>,
    /// The number of workers.
    workers: usize,
    /// The minimum number of bytes that a task reads.
    task_size: u64,
    config: Arc<ConfigOptions>,
    stages: usize,
    /// The values of the subqueries to which the plan may refer. Subqueries run before the plan.
    subqueries: Option<ScalarSubqueryResults>,
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
    pub fn new(
        resolver: Arc<dyn WorkerResolver>,
        task_size: u64,
        config: &ConfigOptions,
    ) -> Result<Self> {
        let workers = resolver.get_urls()?.len();
        Ok(Self {
            resolver,
            workers,
            task_size,
            config: Arc::new(config.clone()),
            stages: 0,
            subqueries: None,
        })
    }

    /// Returns a divider for a part of the plan that runs by itself and may refer to these subqueries.
    pub fn nested(&self, subqueries: Option<ScalarSubqueryResults>) -> Self {
        Self {
            resolver: Arc::clone(&self.resolver),
            config: Arc::clone(&self.config),
            stages: 0,
            subqueries,
            ..*self
        }
    }

    /// Returns the values of the subqueries to which the plan may refer.
    pub fn subqueries(&self) -> Option<&ScalarSubqueryResults> {
        self.subqueries.as_ref()
    }

    /// Returns the workers.
    pub fn resolver(&self) -> &Arc<dyn WorkerResolver> {
        &self.resolver
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
            return match self.disjoint_groups(plan)? {
                Some(divided) => Ok(Some(divided)),
                None => self.two_stages(first, plan),
            };
        }
        if let Some(join) = plan.downcast_ref::<ArrayLookupJoinExec>()
            && !join.keeps_probe_rows()
        {
            return self.with_build_rows(join);
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
                let first = partial.fallback().downcast_ref::<AggregateExec>();
                let tasks = first
                    .map(|first| self.partial_stages(first, None))
                    .transpose()?;
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
        Ok(Some(merged(rows, plan, limit.and_then(SortExec::fetch))))
    }

    /// Divides a whole aggregation into tasks with disjoint groups; `None` if that is not possible.
    fn disjoint_groups(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(whole) = plan.downcast_ref::<ArrayAggregateExec>() else {
            return Ok(None);
        };
        let Some(tasks) = self.tasks(whole.scan()) else {
            return Ok(None);
        };
        let scan = self.for_tasks(whole.scan());
        let Some(leaves) = disjoint::in_tasks(whole, &scan, tasks, &self.config)? else {
            return Ok(None);
        };
        let chunks = leaves.iter().map(|task| task.planned_read().chunks);
        let chunks = chunks.collect();
        let rows = self.stage(Tasks {
            whole: Arc::clone(plan),
            leaves: leaves.into_iter().map(|task| Arc::new(task) as _).collect(),
            chunks,
            operators: Vec::new(),
        })?;
        Ok(rows.map(|rows| merged(rows, plan, None)))
    }

    /// Divides a lookup join that returns rows of the build side at the end. Each task returns those that belong to
    /// its part of the probe side, with their row numbers.
    fn with_build_rows(
        &mut self,
        join: &ArrayLookupJoinExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        // Each task would read the rows of an array in another order, and number them differently.
        if join.has_keyed_build() {
            return Ok(None);
        }
        let [_, probe] = join.inputs();
        let numbered: Arc<dyn ExecutionPlan> = Arc::new(join.with_row_numbers());
        let part = RowWise::of(probe, false).map(|part| part.below(&numbered));
        let tasks = part.map(|part| self.scans(&part, Division::Blocks));
        let Some(tasks) = tasks.transpose()?.flatten() else {
            return Ok(None);
        };
        let count = tasks.leaves.len();
        let rows = self.stage(tasks)?;
        Ok(rows.map(|rows| {
            let rows = Arc::new(CoalescePartitionsExec::new(rows));
            Arc::new(BuildRowsExec::new(rows, join, count)) as _
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
        let tasks =
            self.partial_stages(first, whole.is::<ArrayJoinAggregateExec>().then_some(whole))?;
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

    /// Returns the partial stage of an aggregation, over the chunks of each task. `joined` is the operator
    /// that replaced an aggregation over a lookup join, if any. The build sides are taken from `joined`:
    /// DataFusion's later rules, which repartition and sort inputs, have run on them, but not on the build
    /// sides below `first`.
    fn partial_stages(
        &self,
        first: &AggregateExec,
        joined: Option<&Arc<dyn ExecutionPlan>>,
    ) -> Result<Option<Tasks>> {
        let Some(mut part) = RowWise::of(first.input(), true) else {
            return Ok(None);
        };
        if let Some(joined) = joined {
            part.operators = with_build_sides(&part.operators, build_sides(joined))?;
        }
        let Some(mut scans) = self.scans(&part, Division::Products)? else {
            return Ok(None);
        };
        let in_array_space = |scan: &Arc<dyn ExecutionPlan>| {
            let plan = partial(first, over(&scans.operators, Arc::clone(scan))?)?;
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
        if let Some(tasks) = self.over_join(first, &scans)? {
            return Ok(Some(tasks));
        }
        let input = over(&scans.operators, Arc::clone(&scans.whole))?;
        scans.operators.insert(0, partial(first, input)?);
        Ok(Some(scans))
    }

    /// Returns the partial stage of an aggregation over a lookup join, by group numbers; `None` if a task
    /// cannot compute it.
    fn over_join(&self, first: &AggregateExec, scans: &Tasks) -> Result<Option<Tasks>> {
        let numbered = |scan| over_scan(first, &scans.operators, scan, &self.config);
        let Some(whole) = numbered(&scans.whole)? else {
            return Ok(None);
        };
        let names = |part: &RowWise| {
            let all = part.operators.iter().chain([&part.leaf]);
            all.map(|node| node.name().to_string()).collect::<Vec<_>>()
        };
        let mut leaves: Vec<Arc<dyn ExecutionPlan>> = Vec::with_capacity(scans.leaves.len());
        for scan in &scans.leaves {
            let task = numbered(scan)?;
            // All tasks run the same operators.
            let is_same = |task: &RowWise| {
                names(task) == names(&whole) && task.leaf.schema() == whole.leaf.schema()
            };
            let Some(task) = task.filter(is_same) else {
                return Ok(None);
            };
            leaves.push(Arc::new(JoinedLeaf::new(task.leaf, Arc::clone(scan))));
        }
        Ok(Some(Tasks {
            whole: whole.leaf,
            leaves,
            chunks: scans.chunks.clone(),
            operators: whole.operators,
        }))
    }

    /// Divides the scan of a part of a plan.
    fn scans(&self, part: &RowWise, division: Division) -> Result<Option<Tasks>> {
        if let Some(windows) = part.leaf.downcast_ref::<ArrayWindowExec>() {
            return self.windows(part, windows);
        }
        let Some((source, scan)) = ArrayScan::of(part.leaf.as_ref()) else {
            return Ok(None);
        };
        let Some(tasks) = self.tasks(scan) else {
            return Ok(None);
        };
        let learns = part.operators.iter().any(makes_dynamic_filters);
        let scan = match learns {
            true => scan.clone(),
            false => self.for_tasks(scan),
        };
        let partitions = self.config.execution.target_partitions;
        let Some(scans) = scan.in_tasks(tasks, partitions, division)? else {
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

    /// Returns a scan as tasks read it: without its dynamic filter, which the operators of this process cannot
    /// update on a worker. With subqueries the filter stays, because their values are part of a task.
    fn for_tasks(&self, scan: &ArrayScan) -> ArrayScan {
        match self.subqueries.is_some() {
            true => scan.clone(),
            false => scan.without_dynamic_filter(),
        }
    }

    /// Returns the number of tasks that read a scan; `None` if there is too little to read.
    fn tasks(&self, scan: &ArrayScan) -> Option<usize> {
        let most = self.workers.max(1) as u64;
        let tasks = scan.weight().unwrap_or(u64::MAX) / self.task_size.max(1);
        let tasks = tasks.min(most) as usize;
        (tasks >= self.workers.min(2)).then_some(tasks)
    }

    /// Divides windows along an axis across the series.
    fn windows(&self, part: &RowWise, windows: &ArrayWindowExec) -> Result<Option<Tasks>> {
        let tasks = self.tasks(windows.scan());
        let divided = tasks.map(|tasks| windows.in_tasks(tasks, &self.config));
        let Some(divided) = divided.transpose()?.flatten() else {
            return Ok(None);
        };
        let chunks = divided.iter().map(|windows| windows.planned_read().chunks);
        let chunks = chunks.collect();
        let leaves = divided.into_iter();
        Ok(Some(Tasks {
            whole: Arc::clone(&part.leaf),
            leaves: leaves.map(|windows| Arc::new(windows) as _).collect(),
            chunks,
            operators: part.operators.clone(),
        }))
    }

    /// Returns the rows of all tasks; `None` if the tasks cannot be sent to another process.
    fn stage(&mut self, mut tasks: Tasks) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(first) = tasks.leaves.first() else {
            return Ok(None);
        };
        for operator in &mut tasks.operators {
            *operator = match self.for_all_tasks(operator, first)? {
                Some(operator) => operator,
                None => return Ok(None),
            };
        }
        let task = over(&tasks.operators, Arc::clone(first))?;
        if refers_to_subquery(&task)? && self.subqueries.is_none() || encoded(&task, None).is_err()
        {
            return Ok(None);
        }
        self.stages += 1;
        let count = tasks.leaves.len();
        let whole = Arc::new(Divided::new(tasks.whole, tasks.chunks));
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

    /// Returns an operator that every task can run. A lookup join gets the rows of its build side, which the
    /// coordinator collects, unless these are the scan of an array that is not larger than the scan of a
    /// task. `None` if the array is larger.
    fn for_all_tasks(
        &self,
        operator: &Arc<dyn ExecutionPlan>,
        leaf: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(join) = operator.downcast_ref::<ArrayLookupJoinExec>() else {
            return Ok(Some(Arc::clone(operator)));
        };
        let [build, _] = join.inputs();
        if !join.has_keyed_build() {
            let build = distributed(Arc::clone(build), self.nested(self.subqueries.clone()))?;
            let join = join.over_build(Arc::new(BroadcastExec::new(build)))?;
            return Ok(Some(Arc::new(join)));
        }
        let weight = |leaf: &Arc<dyn ExecutionPlan>| JoinedLeaf::scan_of(leaf)?.weight();
        let of_build = RowWise::of(build, true).and_then(|build| weight(&build.leaf));
        let most = weight(leaf).unwrap_or(0).max(self.task_size);
        Ok(of_build
            .filter(|weight| *weight <= most)
            .map(|_| Arc::clone(operator)))
    }
}

/// Merges all partitions into one, in the order of `plan` if it has one. Only rows with an order may be limited.
fn merged(
    rows: Arc<dyn ExecutionPlan>,
    plan: &Arc<dyn ExecutionPlan>,
    limit: Option<usize>,
) -> Arc<dyn ExecutionPlan> {
    match plan.output_ordering().cloned() {
        Some(ordering) => {
            let merged = SortPreservingMergeExec::new(ordering, rows);
            Arc::new(merged.with_fetch(limit))
        }
        None => Arc::new(CoalescePartitionsExec::new(rows)),
    }
}

/// Returns the operator if it sorts all rows and keeps the first.
fn whole_limit(plan: &Arc<dyn ExecutionPlan>) -> Option<&SortExec> {
    let sort = plan.downcast_ref::<SortExec>()?;
    let is_single = sort.input().output_partitioning().partition_count() == 1;
    (sort.fetch().is_some() && is_single).then_some(sort)
}

/// Returns the node of a whole aggregation whose input is rows; `None` if the plan is anything else, or
/// has two stages that are divided one by one.
fn whole_aggregation(plan: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    let replaced = if let Some(aggregate) = plan.downcast_ref::<ArrayAggregateExec>() {
        Some((aggregate.stage(), aggregate.fallback()))
    } else {
        let aggregate = plan.downcast_ref::<ArrayJoinAggregateExec>();
        aggregate.map(|aggregate| (aggregate.stage(), aggregate.datafusion_plan()))
    };
    if let Some((stage, fallback)) = replaced {
        let fallback = fallback.downcast_ref::<AggregateExec>();
        return fallback
            .filter(|_| stage == Stage::Whole)
            .and_then(|fallback| rule::first_stage(fallback, Stage::Whole));
    }
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    let single = [AggregateMode::Single, AggregateMode::SinglePartitioned];
    single.contains(aggregate.mode()).then_some(aggregate)
}
