//! Safe restarts of build sides of nested-loop joins that do not fit in memory.
//!
//! DataFusion's [`NestedLoopJoinExec`] executes such a build side a second time and spills it.
//! Operators with state in the plan, such as `RepartitionExec`, panic when they are executed twice.
//! Joins that emit rows of the build side themselves (LEFT, FULL, LEFT SEMI, LEFT ANTI, LEFT MARK)
//! emit these rows once per partition of the probe side, which is a wrong result.

use std::fmt::{self, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, internal_err, resources_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, ReplaceChildrenOptions, reset_plan_states,
};
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    replace_children_if_necessary,
};
#[cfg(feature = "proto")]
use {
    datafusion::physical_plan::proto::ExecutionPlanEncodeCtx,
    datafusion_proto::protobuf::PhysicalPlanNode,
};

#[cfg(feature = "proto")]
use crate::provider::codec::Operator;
use crate::provider::rules::operators::ReplaceOperators;

/// The operators of a recursive query, which cannot be executed again on their own.
const RECURSIVE: [&str; 2] = ["RecursiveQueryExec", "WorkTableExec"];

/// Puts a [`BuildSideExec`] between each nested-loop join and its build side.
pub(crate) const RESTART_BUILD_SIDES: ReplaceOperators = ReplaceOperators {
    name: "RestartBuildSides",
    replacement: with_restarts,
};

fn with_restarts(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() else {
        return Ok(None);
    };
    let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    if left.is::<BuildSideExec>() {
        return Ok(None);
    }
    let emits_build_rows = matches!(
        join.join_type(),
        JoinType::Left
            | JoinType::Full
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::LeftMark
    );
    let partitions = right.output_partitioning().partition_count();
    let restarts = !(emits_build_rows && partitions > 1 || is_recursive(&left)?);
    let children = vec![build_side(left, restarts), right];
    replace_children_if_necessary(Arc::clone(plan), children).map(Some)
}

/// Returns a [`BuildSideExec`] over a build side.
pub(crate) fn build_side(input: Arc<dyn ExecutionPlan>, restarts: bool) -> Arc<dyn ExecutionPlan> {
    Arc::new(BuildSideExec {
        input,
        restarts,
        has_started: AtomicBool::new(false),
    })
}

/// Returns `true` if a plan refers to the rows of a recursive query.
pub(crate) fn is_recursive(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|plan| Ok(RECURSIVE.contains(&plan.name())))
}

/// The build side of a nested-loop join. A second execution starts with fresh state, or fails if
/// the result of the join would be wrong.
#[derive(Debug)]
struct BuildSideExec {
    input: Arc<dyn ExecutionPlan>,
    /// `true` if the build side may be executed again.
    restarts: bool,
    /// Set by the first execution. The join starts a second one only if the first result did not
    /// fit in memory.
    has_started: AtomicBool,
}

impl DisplayAs for BuildSideExec {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("BuildSideExec")
    }
}

impl ExecutionPlan for BuildSideExec {
    fn name(&self) -> &'static str {
        "BuildSideExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(build_side(input, self.restarts)),
            _ => internal_err!("BuildSideExec has one child"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if !self.has_started.swap(true, Ordering::Relaxed) {
            return self.input.execute(partition, context);
        }
        if !self.restarts {
            return Err(resources_datafusion_err!(
                "the build side of a nested-loop join does not fit in the memory limit; add an equality \
                 between the two sides to get a hash join, which needs less memory, or raise the memory limit"
            ));
        }
        reset_plan_states(Arc::clone(&self.input))?.execute(partition, context)
    }

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        context: &ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<PhysicalPlanNode>> {
        let restarts = self.restarts;
        let input = context.encode_child(&self.input)?;
        Operator::BuildSide { restarts }
            .encode(vec![input])
            .map(Some)
    }
}
