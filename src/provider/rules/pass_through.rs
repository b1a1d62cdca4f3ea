//! Operators that pass on the rows of their input.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
#[cfg(feature = "proto")]
use {
    datafusion::physical_plan::proto::ExecutionPlanEncodeCtx,
    datafusion_proto::protobuf::PhysicalPlanNode,
};

#[cfg(feature = "proto")]
use crate::provider::codec::Operator;

/// The action of a [`PassThroughExec`] on the rows that it passes on.
pub(in crate::provider) trait PassThrough:
    Debug + Send + Sync + 'static
{
    /// The name of the operator in EXPLAIN.
    const NAME: &'static str;

    /// Returns a copy without the state of executions.
    fn fresh(&self) -> Self;

    /// Returns the properties of the operator, by default those of its input. It may declare less, but not
    /// more.
    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::clone(input.properties())
    }

    /// Executes a partition of the input. The rows keep their columns, order and partitions.
    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;

    /// Returns the operator without its input, for encoding.
    #[cfg(feature = "proto")]
    fn encoded(&self) -> Operator;
}

/// An operator that passes on the rows of its input.
#[derive(Debug)]
pub(in crate::provider) struct PassThroughExec<P> {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    action: P,
}

impl<P: PassThrough> PassThroughExec<P> {
    /// Returns the operator over an input.
    pub fn over(input: Arc<dyn ExecutionPlan>, action: P) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self {
            properties: action.properties(&input),
            input,
            action,
        })
    }
}

impl<P: PassThrough> DisplayAs for PassThroughExec<P> {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(P::NAME)
    }
}

impl<P: PassThrough> ExecutionPlan for PassThroughExec<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
            (Some(input), true) => Ok(Self::over(input, self.action.fresh())),
            _ => internal_err!("{} has one child", P::NAME),
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
        self.action.execute(&self.input, partition, context)
    }

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        context: &ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<PhysicalPlanNode>> {
        let input = context.encode_child(&self.input)?;
        self.action.encoded().encode(vec![input]).map(Some)
    }
}
