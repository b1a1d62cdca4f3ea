//! The order and the constants of groups of ROLLUP, CUBE and GROUPING SETS.
//!
//! A grouping set that leaves an expression out has NULL in its place. DataFusion 55 takes a grouping
//! expression that is constant or sorted in the input, such as `z` in `WHERE z = 1 GROUP BY CUBE (y, z)`, as
//! constant or sorted in the output, too. The stages above then return groups before all of their rows have
//! arrived, or leave out a sort. Therefore an operator that hides the properties of the groups is put above the aggregation.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

#[cfg(feature = "proto")]
use crate::provider::codec::Operator;
use crate::provider::rules::operators::ReplaceOperators;
use crate::provider::rules::pass_through::{PassThrough, PassThroughExec};

/// Hides the properties of groups of grouping sets.
pub(crate) const GROUPING_SETS: ReplaceOperators = ReplaceOperators {
    name: "GroupingSets",
    replacement: with_hidden_properties,
};

fn with_hidden_properties(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let is_needed = aggregate.mode().input_mode() == AggregateInputMode::Raw
        && !aggregate.group_expr().is_single();
    Ok(is_needed.then(|| groups_of_sets(Arc::clone(plan))))
}

/// Returns an operator with the rows of an aggregation over grouping sets, which declares no order, no
/// equivalence and no constant of any column.
pub(in crate::provider) fn groups_of_sets(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    PassThroughExec::over(input, GroupsOfSets)
}

#[derive(Debug)]
struct GroupsOfSets;

impl PassThrough for GroupsOfSets {
    const NAME: &'static str = "GroupingSetsExec";

    fn fresh(&self) -> Self {
        Self
    }

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        let properties = input.properties().as_ref().clone();
        let nothing = EquivalenceProperties::new(input.schema());
        Arc::new(properties.with_eq_properties(nothing))
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        input.execute(partition, context)
    }

    #[cfg(feature = "proto")]
    fn encoded(&self) -> Operator {
        Operator::GroupsOfSets
    }
}
