//! Encodes the plan of a task as a whole.
//!
//! `datafusion-distributed` encodes plans with its own codec, combined with those of the session. Operators
//! of this crate encode themselves, and functions that hold data of a plan need [`ArrayPlanCodec`]; neither
//! passes through a combined codec. So the whole plan travels as the message of a single operator:
//!
//! ```text
//! coordinator   Envelope(plan)  --  ArrayPlanCodec  -->  number of partitions, bytes
//! worker        bytes  --  ArrayPlanCodec with roots  -->  plan with as many partitions
//! ```

use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err, not_impl_err, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::{
    DeduplicatingProtoConverter, PhysicalExtensionCodec, PhysicalProtoConverterExtension,
};

use crate::provider::cluster::planning::broadcast::with_tables;
use crate::provider::cluster::planning::joined::with_scans_of_task;
use crate::provider::cluster::planning::subqueries::{with_known_values, with_values};
use crate::provider::codec::{ArrayPlanCodec, Roots, check_operators};

/// Encodes a plan, as workers decode it. `subqueries` are the values of the subqueries to which the plan
/// refers.
pub(super) fn encoded(
    plan: &Arc<dyn ExecutionPlan>,
    subqueries: Option<&ScalarSubqueryResults>,
) -> Result<Vec<u8>> {
    let (codec, converter) = (ArrayPlanCodec::new(), DeduplicatingProtoConverter {});
    let mut plan = with_scans_of_task(with_tables(plan)?)?;
    if let Some(subqueries) = subqueries {
        plan = with_values(plan, subqueries)?;
    }
    let partitions = plan.output_partitioning().partition_count() as u64;
    let bytes = physical_plan_to_bytes_with_proto_converter(plan, &codec, &converter)?;
    Ok([&partitions.to_le_bytes(), &bytes[..]].concat())
}

/// A plan on its way to a worker. Never runs.
#[derive(Debug)]
pub(super) struct Envelope {
    pub plan: Arc<dyn ExecutionPlan>,
    /// The values of the subqueries to which the plan refers.
    pub subqueries: Option<ScalarSubqueryResults>,
}

impl DisplayAs for Envelope {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Envelope")
    }
}

impl ExecutionPlan for Envelope {
    fn name(&self) -> &'static str {
        "Envelope"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
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
        internal_err!("a plan on its way to a worker does not run")
    }
}

/// Encodes and decodes an [`Envelope`].
#[derive(Debug, Default)]
pub(super) struct EnvelopeCodec {
    roots: Option<Arc<Roots>>,
}

impl EnvelopeCodec {
    /// Creates the codec of a worker, which opens files under these roots only.
    pub fn within(roots: Arc<Roots>) -> Self {
        Self { roots: Some(roots) }
    }
}

impl PhysicalExtensionCodec for EnvelopeCodec {
    fn try_decode(
        &self,
        message: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(roots) = &self.roots else {
            return not_impl_err!("a coordinator decodes no tasks");
        };
        let Some((partitions, message)) = message.split_first_chunk() else {
            return plan_err!("the plan of a task is truncated");
        };
        let codec = ArrayPlanCodec::new().with_roots(Arc::clone(roots));
        let converter = DeduplicatingProtoConverter {};
        let plan =
            physical_plan_from_bytes_with_proto_converter(message, context, &codec, &converter)?;
        let plan = with_known_values(plan)?;
        check_operators(&plan)?;
        // The coordinator would silently miss the rows of further partitions.
        let found = plan.output_partitioning().partition_count() as u64;
        let partitions = u64::from_le_bytes(*partitions);
        if found != partitions {
            return internal_err!("a task of {partitions} partitions was decoded with {found}");
        }
        Ok(plan)
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        message: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match node.downcast_ref::<Envelope>() {
            Some(Envelope { plan, subqueries }) => {
                *message = encoded(plan, subqueries.as_ref())?;
                Ok(())
            }
            None => not_impl_err!("{} cannot be encoded", node.name()),
        }
    }
}
