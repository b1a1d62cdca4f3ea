//! The query planner that puts attributes on top of finished plans.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Analyze, Explain, Expr, LogicalPlan, Projection};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

/// A query planner that gives results their attributes.
///
/// Removes the projection with the attributes before planning, and puts it on top of the finished
/// plan. Inside the plan, it would obstruct optimizer rules. `EXPLAIN` shows plans without it.
#[derive(Debug)]
pub(crate) struct AttributedResults {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
}

impl AttributedResults {
    pub fn new(inner: Arc<dyn QueryPlanner + Send + Sync>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl QueryPlanner for AttributedResults {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = match plan {
            LogicalPlan::Explain(explain) => bare(&explain.plan)?.map(|inner| {
                LogicalPlan::Explain(Explain {
                    plan: Arc::new(inner),
                    ..explain.clone()
                })
            }),
            LogicalPlan::Analyze(analyze) => bare(&analyze.input)?.map(|inner| {
                LogicalPlan::Analyze(Analyze {
                    input: Arc::new(inner),
                    ..analyze.clone()
                })
            }),
            query => match bare(query)? {
                Some(inner) => {
                    let rows = self.inner.create_physical_plan(&inner, session).await?;
                    return attributed(rows, plan);
                }
                None => None,
            },
        };
        let plan = inner.as_ref().unwrap_or(plan);
        self.inner.create_physical_plan(plan, session).await
    }
}

/// Returns the plan without the projection that sets attributes, or `None` if there is no such
/// projection.
fn bare(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = plan else {
        return Ok(None);
    };
    let has_attributes = |one: &Expr| matches!(one, Expr::Alias(alias) if alias.metadata.is_some());
    if !projection.expr.iter().any(has_attributes) {
        return Ok(None);
    }
    let columns: Vec<_> = projection.expr.iter().map(without_attributes).collect();
    let input = &projection.input;
    let all = input.schema().columns().into_iter().map(Expr::Column);
    if all.eq(columns.iter().cloned()) {
        return Ok(Some(input.as_ref().clone()));
    }
    let bare = Projection::try_new(columns, Arc::clone(input))?;
    Ok(Some(LogicalPlan::Projection(bare)))
}

/// Returns the expression without attributes, and without an alias that equals its own name.
fn without_attributes(expression: &Expr) -> Expr {
    let Expr::Alias(alias) = expression else {
        return expression.clone();
    };
    match alias.expr.as_ref() {
        Expr::Column(column) if column.name == alias.name && column.relation == alias.relation => {
            Expr::Column(column.clone())
        }
        other if alias.relation.is_none() && other.schema_name().to_string() == alias.name => {
            other.clone()
        }
        _ => Expr::Alias(Alias {
            metadata: None,
            ..alias.clone()
        }),
    }
}

/// Wraps an operator so that its columns have the metadata of the columns of `plan`.
fn attributed(rows: Arc<dyn ExecutionPlan>, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = rows.schema();
    let columns = schema.fields().iter().enumerate();
    let columns = columns.map(|(index, field)| ProjectionExpr {
        expr: Arc::new(Column::new(field.name(), index)),
        alias: field.name().clone(),
    });
    let columns: Vec<_> = columns.collect();
    let wanted = plan.schema().as_arrow();
    let attributed = ProjectionExec::try_new_with_schema_metadata(columns, rows, wanted)?;
    Ok(Arc::new(attributed))
}
