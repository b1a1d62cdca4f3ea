//! Aggregates over lookup joins whose partial stage runs in tasks.
//!
//! A worker plans the operator itself, from DataFusion's plan of the same stage over the scan of its task:
//!
//! ```text
//! planned                                    encoded for each task
//! ArrayJoinAggregateExec: mode=Partial       AggregateExec: mode=Partial
//!   ArrayLookupJoinExec (group numbers)        ArrayLookupJoinExec
//!     BroadcastExec                              DataSourceExec: the rows of the build side
//!     JoinedLeaf (the operator's own scan)       DataSourceExec: tet=t2m, ... (the chunks of the task)
//! ```

use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::provider::aggregate::ArrayJoinAggregateExec;
use crate::provider::aggregate::plan::aggregation::Stage;
use crate::provider::aggregate::rule;
use crate::provider::cluster::planning::row_wise::{RowWise, over};
use crate::provider::cluster::planning::rule::replaced;
use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::scan::ArrayScan;

/// The leaf of a task below an [`ArrayJoinAggregateExec`]. EXPLAIN shows `leaf`; the task is encoded with
/// `scan`. It never runs.
#[derive(Debug)]
pub struct JoinedLeaf {
    /// The leaf below the operator: a scan with group numbers, or partial states.
    leaf: Arc<dyn ExecutionPlan>,
    /// The scan below DataFusion's plan of the same stage.
    scan: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

/// Returns the partial stage of the aggregation `first` over other rows.
pub fn partial(
    first: &AggregateExec,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(Arc::new(AggregateExec::try_new(
        AggregateMode::Partial,
        first.group_expr().clone(),
        first.aggr_expr().to_vec(),
        first.filter_expr().to_vec(),
        input,
        first.input_schema(),
    )?))
}

/// Returns the operator for the partial stage of the aggregation `first` over a lookup join, divided into
/// its leaf and the operators above; `None` if the join cannot be aggregated by group numbers.
/// `operators` are those between the aggregation and `scan`.
pub fn over_scan(
    first: &AggregateExec,
    operators: &[Arc<dyn ExecutionPlan>],
    scan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<RowWise>> {
    let plan = partial(first, over(operators, Arc::clone(scan))?)?;
    let Some(operator) = rule::over_join(&plan, Stage::Partial, config)? else {
        return Ok(None);
    };
    let operator: Arc<dyn ExecutionPlan> = Arc::new(operator);
    Ok(RowWise::of(&operator, true))
}

/// Returns the build sides of the lookup joins below an operator, from the top down.
pub fn build_sides(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    let mut builds = Vec::new();
    let mut next = Some(plan);
    while let Some(node) = next {
        next = match node.downcast_ref::<ArrayLookupJoinExec>() {
            Some(join) => {
                let [build, probe] = join.inputs();
                builds.push(Arc::clone(build));
                Some(probe)
            }
            None => node.children().first().copied(),
        };
    }
    builds
}

/// Replaces the build sides of the lookup joins among some operators, which are listed from the top down.
pub fn with_build_sides(
    operators: &[Arc<dyn ExecutionPlan>],
    builds: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let mut builds = builds.into_iter();
    let operators = operators.iter().map(|operator| {
        let Some(join) = operator.downcast_ref::<ArrayLookupJoinExec>() else {
            return Ok(Arc::clone(operator));
        };
        let Some(build) = builds.next() else {
            return internal_err!("a lookup join of a task has no build side");
        };
        if join.has_keyed_build() {
            return replaced(operator, vec![build, Arc::clone(&join.inputs()[1])]);
        }
        Ok(Arc::new(join.over_build(build)?) as _)
    });
    operators.collect()
}

impl JoinedLeaf {
    pub fn new(leaf: Arc<dyn ExecutionPlan>, scan: Arc<dyn ExecutionPlan>) -> Self {
        // The operator above has one partition, whatever those of the leaf.
        let properties = leaf.properties().as_ref().clone();
        let properties = properties.with_partitioning(Partitioning::UnknownPartitioning(1));
        Self {
            leaf,
            scan,
            properties: Arc::new(properties),
        }
    }

    /// Returns the scan of a task, given its leaf; `None` if the leaf is no scan of an array.
    pub fn scan_of(leaf: &Arc<dyn ExecutionPlan>) -> Option<&ArrayScan> {
        let scan = match leaf.downcast_ref::<Self>() {
            Some(joined) => &joined.scan,
            None => leaf,
        };
        ArrayScan::of(scan.as_ref()).map(|(_, scan)| scan)
    }
}

/// Returns the plan of a task whose partial aggregations over lookup joins are encoded with the scan and the
/// build sides of the task.
pub fn with_scans_of_task(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let with_scans = plan.transform_down(|node| {
        let Some(operator) = node.downcast_ref::<ArrayJoinAggregateExec>() else {
            return Ok(Transformed::no(node));
        };
        if operator.stage() != Stage::Partial {
            return Ok(Transformed::no(node));
        }
        let mut scan = None;
        node.apply(|below| {
            if let Some(leaf) = below.downcast_ref::<JoinedLeaf>() {
                scan = Some(Arc::clone(&leaf.scan));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let first = operator.datafusion_plan().downcast_ref::<AggregateExec>();
        let below = first.and_then(|first| RowWise::of(first.input(), true));
        let (Some(first), Some(below), Some(scan)) = (first, below, scan) else {
            return internal_err!("a task aggregates a join without a scan");
        };
        let operators = with_build_sides(&below.operators, build_sides(&node))?;
        let stage = partial(first, over(&operators, scan)?)?;
        let of_task: Arc<dyn ExecutionPlan> = Arc::new(operator.with_datafusion_plan(stage));
        Ok(Transformed::new(of_task, true, TreeNodeRecursion::Jump))
    })?;
    Ok(with_scans.data)
}

impl DisplayAs for JoinedLeaf {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        self.leaf.fmt_as(kind, f)
    }
}

impl ExecutionPlan for JoinedLeaf {
    fn name(&self) -> &'static str {
        "JoinedLeaf"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.leaf.apply_expressions(visit)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        _partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        internal_err!("the leaf of a task does not run in the coordinator")
    }
}
