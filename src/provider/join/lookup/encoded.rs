//! Encodes lookup joins.
//!
//! A join is decoded by applying the rule to DataFusion's plan of the same join. Its output may have
//! been narrowed or extended since, so that the message holds its columns by number.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::proto::ExecutionPlanEncodeCtx;
use datafusion_proto::protobuf::PhysicalPlanNode;
use serde::{Deserialize, Serialize};

use crate::provider::codec::{Operator, carried, carrier};
use crate::provider::join::lookup::operator::{ArrayLookupJoinExec, LookupSpec};
use crate::provider::join::lookup::probe::{JoinOutput, ROW_NUMBER};

/// The message of a lookup join, without expressions.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EncodedJoin {
    /// `true` if the scan of the probe side has a dynamic filter of the join.
    pub is_filtered: bool,
    /// The output columns: `true` for columns of the build side, and the index there.
    columns: Vec<(bool, usize)>,
    /// The columns of the filter beside the keys, in the same form.
    condition: Vec<(bool, usize)>,
    /// The column of the probe side that holds key indices.
    key_index: usize,
    /// `true` if the last output column has the row numbers of the build side.
    has_row_numbers: bool,
}

impl ArrayLookupJoinExec {
    /// Encodes the join. The inputs of the message are the plan that the join replaced, the build side,
    /// the probe side, the dynamic filter, the grouping expressions over the build side, and a plan with
    /// the schema of the output.
    pub(super) fn encode(&self, context: &ExecutionPlanEncodeCtx<'_>) -> Result<PhysicalPlanNode> {
        let spec = self.spec();
        let filter = self.dynamic_filter().into_iter();
        let filter: Vec<_> = filter
            .map(|filter| Arc::clone(filter) as Arc<dyn PhysicalExpr>)
            .collect();
        let filter = carrier(&filter, &spec.filter_schema())?;
        let [build, probe] = self.inputs();
        let groups = carrier(&spec.build_groups, &build.schema())?;
        let schema: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::clone(&spec.schema)));
        let inputs = [&spec.replaced, build, probe, &filter, &groups, &schema];
        let numbers = |columns: &[ColumnIndex]| {
            let columns = columns.iter();
            let columns = columns.filter(|column| column.side != JoinSide::None);
            let numbers = columns.map(|column| (column.side == JoinSide::Left, column.index));
            numbers.collect()
        };
        let condition = spec.output.filter.as_ref();
        let message = EncodedJoin {
            is_filtered: self.dynamic_filter().is_some(),
            columns: numbers(&spec.output.columns),
            condition: condition.map_or(Vec::new(), |filter| numbers(filter.column_indices())),
            key_index: spec.output.key_index,
            has_row_numbers: spec.output.has_row_numbers(),
        };
        Operator::LookupJoin(message).encode(context.encode_children(inputs)?)
    }

    /// Returns the join that a message describes. `self` was made from the plan that the join replaced,
    /// and `inputs` are the other inputs of the message.
    pub(crate) fn decode(
        &self,
        message: &EncodedJoin,
        inputs: [&Arc<dyn ExecutionPlan>; 5],
    ) -> Result<Self> {
        let [build, probe, filter, groups, schema] = inputs;
        let filter = match carried(filter, &self.spec().filter_schema())?.pop() {
            None => None,
            Some(filter) => {
                let filter: Arc<dyn Any + Send + Sync> = filter;
                match filter.downcast::<DynamicFilterPhysicalExpr>() {
                    Ok(filter) => Some(filter),
                    Err(_) => return internal_err!("a lookup join expects a dynamic filter"),
                }
            }
        };
        let columns = |numbers: &[(bool, usize)]| {
            let numbers = numbers.iter();
            let columns = numbers.map(|(is_build, index)| ColumnIndex {
                index: *index,
                side: if *is_build {
                    JoinSide::Left
                } else {
                    JoinSide::Right
                },
            });
            columns.collect::<Vec<_>>()
        };
        let spec = self.spec();
        let condition = spec.output.filter.as_ref().map(|filter| {
            let expression = Arc::clone(filter.expression());
            let schema = Arc::clone(filter.schema());
            JoinFilter::new(expression, columns(&message.condition), schema)
        });
        let mut output = columns(&message.columns);
        output.extend(message.has_row_numbers.then_some(ROW_NUMBER));
        let spec = LookupSpec {
            output: Arc::new(JoinOutput {
                join_type: spec.output.join_type,
                columns: output,
                key_index: message.key_index,
                filter: condition,
            }),
            build_groups: carried(groups, &build.schema())?,
            schema: schema.schema(),
            ..spec.clone()
        };
        let inputs = [Arc::clone(build), Arc::clone(probe)];
        Ok(Self::new(inputs, Arc::new(spec), filter))
    }
}
