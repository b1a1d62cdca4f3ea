//! Safe restarts of build sides of nested-loop joins that do not fit in memory.
//!
//! DataFusion's [`NestedLoopJoinExec`] executes such a build side a second time and spills it.
//! Operators with state in the plan, such as `RepartitionExec`, panic when they are executed twice.
//! Joins that emit rows of the build side themselves (LEFT, FULL, LEFT SEMI, LEFT ANTI, LEFT MARK)
//! emit these rows once per partition of the probe side, which is a wrong result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{JoinType, Result, resources_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

#[cfg(feature = "proto")]
use crate::provider::codec::Operator;
use crate::provider::rules::operators::ReplaceOperators;
use crate::provider::rules::pass_through::{PassThrough, PassThroughExec};

/// The operators of a recursive query, which cannot be executed again on their own.
const RECURSIVE: [&str; 2] = ["RecursiveQueryExec", "WorkTableExec"];

/// Puts a [`BuildSide`] between each nested-loop join and its build side.
pub(crate) const RESTART_BUILD_SIDES: ReplaceOperators = ReplaceOperators {
    name: "RestartBuildSides",
    replacement: with_restarts,
};

fn with_restarts(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() else {
        return Ok(None);
    };
    let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    if left.is::<PassThroughExec<BuildSide>>() {
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

/// Returns the build side of a nested-loop join as a [`BuildSide`].
pub(crate) fn build_side(input: Arc<dyn ExecutionPlan>, restarts: bool) -> Arc<dyn ExecutionPlan> {
    let has_started = AtomicBool::new(false);
    let side = BuildSide {
        restarts,
        has_started,
    };
    PassThroughExec::over(input, side)
}

/// Returns `true` if a plan refers to the rows of a recursive query.
pub(crate) fn is_recursive(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|plan| Ok(RECURSIVE.contains(&plan.name())))
}

/// The build side of a nested-loop join. A second execution starts with fresh state, or fails if
/// the result of the join would be wrong.
#[derive(Debug)]
struct BuildSide {
    /// `true` if the build side may be executed again.
    restarts: bool,
    /// Set by the first execution. The join starts a second one only if the first result did not
    /// fit in memory.
    has_started: AtomicBool,
}

impl PassThrough for BuildSide {
    const NAME: &'static str = "BuildSideExec";

    fn fresh(&self) -> Self {
        Self {
            restarts: self.restarts,
            has_started: AtomicBool::new(false),
        }
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if !self.has_started.swap(true, Ordering::Relaxed) {
            return input.execute(partition, context);
        }
        if !self.restarts {
            return Err(resources_datafusion_err!(
                "the build side of a nested-loop join does not fit in the memory limit; add an equality \
                 between the two sides to get a hash join, which needs less memory, or raise the memory limit"
            ));
        }
        reset_plan_states(Arc::clone(input))?.execute(partition, context)
    }

    #[cfg(feature = "proto")]
    fn encoded(&self) -> Operator {
        let restarts = self.restarts;
        Operator::BuildSide { restarts }
    }
}
