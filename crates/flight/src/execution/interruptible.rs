//! Makes the joins of a plan stop soon after they are cancelled.
//!
//! A task can be stopped only where it yields. A join yields only when it reads its inputs, and
//! between two reads it may compare billions of pairs of rows.

use crate::execution::cancellation::Cancellation;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use std::fmt::{self, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Operators that may return many batches for one input batch.
const MULTIPLYING: [&str; 6] = [
    "CrossJoinExec",
    "HashJoinExec",
    "NestedLoopJoinExec",
    "PiecewiseMergeJoinExec",
    "SortMergeJoinExec",
    "UnnestExec",
];

/// Wraps the operators of a plan so that the plan fails soon after it is cancelled, even inside of
/// a join.
pub fn interruptible(
    plan: Arc<dyn ExecutionPlan>,
    cancellation: &Cancellation,
) -> Result<Arc<dyn ExecutionPlan>> {
    let guarded = plan.transform_up(|plan| {
        if !MULTIPLYING.contains(&plan.name()) {
            return Ok(Transformed::no(plan));
        }
        let input = match plan.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => with_guarded_filter(join, cancellation)?,
            None => plan,
        };
        let cancellation = cancellation.clone();
        let guarded = InterruptibleExec {
            input,
            cancellation,
        };
        Ok(Transformed::yes(Arc::new(guarded) as _))
    });
    Ok(guarded?.data)
}

/// Returns the join with a filter that checks for cancellation. The join evaluates its filter on
/// one batch of pairs at a time.
fn with_guarded_filter(
    join: &NestedLoopJoinExec,
    cancellation: &Cancellation,
) -> Result<Arc<dyn ExecutionPlan>> {
    let filter = join.filter().map(|filter| {
        let guarded = InterruptibleExpr {
            inner: Arc::clone(filter.expression()),
            cancellation: cancellation.clone(),
        };
        JoinFilter::new(
            Arc::new(guarded),
            filter.column_indices().to_vec(),
            Arc::clone(filter.schema()),
        )
    });
    let projection = join.projection().as_ref().map(|indices| indices.to_vec());
    Ok(Arc::new(NestedLoopJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        filter,
        join.join_type(),
        projection,
    )?))
}

fn check(cancellation: &Cancellation) -> Result<()> {
    match cancellation.is_cancelled() {
        true => Err(DataFusionError::Execution(
            "the query was cancelled".to_owned(),
        )),
        false => Ok(()),
    }
}

/// An operator that fails instead of returning its next batch once it is cancelled.
#[derive(Debug)]
struct InterruptibleExec {
    input: Arc<dyn ExecutionPlan>,
    cancellation: Cancellation,
}

impl DisplayAs for InterruptibleExec {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("InterruptibleExec")
    }
}

impl ExecutionPlan for InterruptibleExec {
    fn name(&self) -> &str {
        "InterruptibleExec"
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
            (Some(input), true) => Ok(Arc::new(Self {
                input,
                cancellation: self.cancellation.clone(),
            })),
            _ => internal_err!("InterruptibleExec has one child"),
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
        let cancellation = self.cancellation.clone();
        let stream = self.input.execute(partition, context)?;
        let schema = stream.schema();
        let stream = stream.map(move |batch| {
            check(&cancellation)?;
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }
}

/// An expression that fails once it is cancelled.
#[derive(Debug, Clone)]
struct InterruptibleExpr {
    inner: Arc<dyn PhysicalExpr>,
    cancellation: Cancellation,
}

impl Display for InterruptibleExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PartialEq for InterruptibleExpr {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for InterruptibleExpr {}

impl Hash for InterruptibleExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for InterruptibleExpr {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.inner.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        check(&self.cancellation)?;
        self.inner.evaluate(batch)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(inner), true) => Ok(Arc::new(Self {
                inner,
                cancellation: self.cancellation.clone(),
            })),
            _ => internal_err!("a guarded expression has one child"),
        }
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::physical_plan::execution_plan::reset_plan_states;
    use datafusion::physical_plan::{collect, displayable, execute_stream};
    use datafusion::prelude::SessionContext;

    const JOINS: [&str; 3] = [
        "SELECT count(*) FROM range(1000) a, range(1000) b WHERE a.value > b.value",
        "SELECT count(*) FROM range(1000) a, range(1000) b",
        "SELECT a.value FROM range(1000) a LEFT JOIN range(1000) b ON a.value < b.value AND b.value % 2 = 0",
    ];

    #[tokio::test]
    async fn a_plan_gives_the_same_and_stops_when_it_is_cancelled() {
        let context = SessionContext::new();
        for sql in JOINS {
            let frame = context.sql(sql).await.unwrap();
            let expected = frame.clone().collect().await.unwrap();
            let plan = frame.create_physical_plan().await.unwrap();
            let cancellation = Cancellation::default();
            let plan = interruptible(plan, &cancellation).unwrap();
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            assert!(shown.contains("InterruptibleExec"), "{shown}");
            let batches = collect(Arc::clone(&plan), context.task_ctx()).await;
            let rows =
                |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            let batches = batches.unwrap();
            assert_eq!(rows(&batches), rows(&expected));
            if rows(&expected) == 1 {
                assert_eq!(batches[0].column(0), expected[0].column(0));
            }
            cancellation.cancel();
            let again = reset_plan_states(plan).unwrap();
            let mut stream = execute_stream(again, context.task_ctx()).unwrap();
            let end = loop {
                match stream.next().await {
                    Some(Ok(_)) => {}
                    other => break other,
                }
            };
            assert!(end.unwrap().unwrap_err().to_string().contains("cancelled"));
        }
    }
}
