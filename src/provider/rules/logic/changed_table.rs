//! [`ChangedTable`]: the table of a DELETE or UPDATE.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::ExecutionPlan;

/// The change that a statement makes to the rows of a table. The expressions are those of the analyzed plan, with unqualified columns.
#[derive(Debug)]
pub(super) struct Change {
    /// The names and the new values of the columns that UPDATE changes.
    pub assignments: Vec<(String, Expr)>,
    /// The predicate of WHERE.
    pub predicate: Option<Expr>,
}

/// A table that ignores the filters and assignments that DataFusion finds in an optimized plan, and applies its own.
#[derive(Debug)]
pub(super) struct ChangedTable {
    table: Arc<dyn TableProvider>,
    change: Change,
}

impl ChangedTable {
    pub fn new(table: Arc<dyn TableProvider>, change: Change) -> Self {
        Self { table, change }
    }

    /// Returns a simplifier for expressions of the table. Without it, functions such as `now()` cannot be evaluated.
    fn simplifier(&self, state: &dyn Session) -> Result<ExprSimplifier> {
        let schema = DFSchema::try_from(self.table.schema())?;
        let known = SimplifyContext::builder()
            .with_schema(Arc::new(schema))
            .with_config_options(Arc::clone(state.config().options()))
            .with_query_execution_start_time(state.execution_props().query_execution_start_time)
            .build();
        Ok(ExprSimplifier::new(known))
    }

    /// Returns the predicate as filters. They are empty only if the statement has no WHERE.
    fn filters(&self, simplifier: &ExprSimplifier) -> Result<Vec<Expr>> {
        let Some(predicate) = self.change.predicate.clone() else {
            return Ok(Vec::new());
        };
        // A predicate that is always true stays as one filter.
        Ok(split_conjunction_owned(simplifier.simplify(predicate)?))
    }
}

#[async_trait]
impl TableProvider for ChangedTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.table.scan(state, projection, filters, limit).await
    }

    async fn delete_from(
        &self,
        state: &dyn Session,
        _filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filters = self.filters(&self.simplifier(state)?)?;
        self.table.delete_from(state, filters).await
    }

    async fn update(
        &self,
        state: &dyn Session,
        _assignments: Vec<(String, Expr)>,
        _filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let simplifier = self.simplifier(state)?;
        let filters = self.filters(&simplifier)?;
        let assignments = self.change.assignments.iter();
        let assignments = assignments
            .map(|(column, value)| Ok((column.clone(), simplifier.simplify(value.clone())?)))
            .collect::<Result<_>>()?;
        self.table.update(state, assignments, filters).await
    }
}
