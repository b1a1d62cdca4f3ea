//! Plans queries of the package `datafusion` in a session.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Join, JoinType, LogicalPlan, LogicalPlanBuilder, TableScan, Union, lit,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{Expr, SessionContext};

use super::plan::SessionPlan;
use super::table::SessionTable;
use crate::errors::carried;
use crate::runtime::Workers;

/// The optimizer rules that replace operators without rows by an empty relation. Encoded, an empty relation
/// loses its columns, so that the operators above do not find them. The session has the same rules.
pub(super) const RULES_OF_EMPTY_PLANS: [&str; 3] =
    ["eliminate_filter", "eliminate_join", "eliminate_limit"];

/// Plans queries in a session, with its rules, settings and memory budget.
pub struct SessionPlanner {
    context: SessionContext,
    /// The planner of the package.
    fallback: Arc<dyn QueryPlanner + Send + Sync>,
}

impl SessionPlanner {
    pub fn new(context: SessionContext, fallback: Arc<dyn QueryPlanner + Send + Sync>) -> Self {
        Self { context, fallback }
    }
}

impl fmt::Debug for SessionPlanner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SessionPlanner")
            .field("fallback", &self.fallback)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl QueryPlanner for SessionPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (unwrapped, reads_session) = unwrapped(plan.clone())?;
        let workers = Workers::current().map_err(carried)?;
        let context = self.context.clone();
        let planning = workers.run(async move {
            let plan = context.state().create_physical_plan(&unwrapped).await?;
            Ok((context, plan))
        });
        match planning.await {
            Ok((context, plan)) => {
                let schema = plan.schema();
                Ok(Arc::new(SessionPlan::new(plan, schema, context, workers)))
            }
            // Only the package can reach the object stores that were registered with it.
            Err(error) if !reads_session => {
                let planned = self.fallback.create_physical_plan(plan, session).await;
                planned.map_err(|_| error)
            }
            Err(error) => Err(error),
        }
    }
}

/// Replaces each table of a session by the table that it wraps, so that the session recognises the table, and
/// prepares the optimized plan for the rules of the session. Returns `true` with the plan if it has such a table.
fn unwrapped(plan: LogicalPlan) -> Result<(LogicalPlan, bool)> {
    let mut reads_session = false;
    let plan = plan.transform_up_with_subqueries(|plan| {
        let scan = match plan {
            LogicalPlan::TableScan(scan) => scan,
            // The wrapped tables have no attributes of columns in their schemas. DataFusion does not
            // recompute the schema of a union.
            LogicalPlan::Union(union) => {
                let union = Union::try_new_with_loose_types(union.inputs)?;
                return Ok(Transformed::yes(LogicalPlan::Union(union)));
            }
            LogicalPlan::Join(join) => {
                let join = LogicalPlan::Join(optimized_join(join));
                return Ok(Transformed::yes(join.recompute_schema()?));
            }
            other => return Ok(Transformed::yes(other.recompute_schema()?)),
        };
        let provider = source_as_provider(&scan.source);
        let wrapped = provider.as_ref().ok();
        let wrapped = wrapped.and_then(|provider| provider.downcast_ref::<SessionTable>());
        match wrapped {
            None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
            Some(table) => {
                reads_session = true;
                Ok(Transformed::yes(scan_of(table, scan)?))
            }
        }
    })?;
    Ok((plan.data, reads_session))
}

/// Adds the condition `true` to a join that the session would take for `INTERSECT ALL` or `EXCEPT ALL`.
/// In a plan as written, only set operations have semi and anti joins that take NULLs as equal. In an optimized plan, `EXISTS`
/// with `IS NOT DISTINCT FROM` has them, too. The session's rule for set operations leaves joins
/// with a condition alone, and its optimizer removes the condition.
fn optimized_join(join: Join) -> Join {
    let is_ambiguous = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none();
    match is_ambiguous {
        true => Join {
            filter: Some(lit(true)),
            ..join
        },
        false => join,
    }
}

/// Returns a scan of the table that a table of a session wraps. A view becomes its query.
fn scan_of(table: &SessionTable, scan: TableScan) -> Result<LogicalPlan> {
    let source = provider_as_source(Arc::clone(table.inner()));
    let name = scan.table_name;
    if source.get_logical_plan().is_none() {
        let (projection, filters) = (scan.projection, scan.filters);
        return LogicalPlanBuilder::scan_with_filters_fetch(
            name, source, projection, filters, scan.fetch,
        )?
        .build();
    }
    let columns = scan.projected_schema.columns();
    let mut query = LogicalPlanBuilder::scan(name, source, None)?;
    if let Some(filter) = conjunction(scan.filters) {
        query = query.filter(filter)?;
    }
    let query = query.project(columns.into_iter().map(Expr::Column))?;
    query.limit(0, scan.fetch)?.build()
}
