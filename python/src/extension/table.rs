//! Tables of a session for contexts of the package `datafusion`.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, Statistics, plan_err, project_schema};
use datafusion::logical_expr::{CreateExternalTable, Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use tet_sql::annotated_schema;

use super::plan::SessionPlan;
use crate::errors::carried;
use crate::runtime::Workers;

/// A table that is scanned with the settings, the memory budget and the threads of its session.
pub struct SessionTable {
    inner: Arc<dyn TableProvider>,
    schema: SchemaRef,
    context: SessionContext,
}

impl SessionTable {
    pub fn new(inner: Arc<dyn TableProvider>, context: SessionContext) -> Self {
        // With the attributes of columns, which the rules of the session attach to results only.
        let schema = annotated_schema(inner.as_ref());
        Self {
            inner,
            schema,
            context,
        }
    }

    /// Returns the table of the session.
    pub fn inner(&self) -> &Arc<dyn TableProvider> {
        &self.inner
    }
}

impl fmt::Debug for SessionTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SessionTable")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for SessionTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        self.inner.table_type()
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let workers = Workers::current().map_err(carried)?;
        let (inner, context) = (Arc::clone(&self.inner), self.context.clone());
        let (columns, filters) = (projection.cloned(), filters.to_vec());
        let planning = workers.run(async move {
            let state = context.state();
            let plan = inner.scan(&state, columns.as_ref(), &filters, limit);
            Ok((plan.await?, context))
        });
        let (plan, context) = planning.await?;
        let schema = project_schema(&self.schema, projection)?;
        Ok(Arc::new(SessionPlan::new(plan, schema, context, workers)))
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        self.inner.supports_filters_pushdown(filters)
    }

    fn statistics(&self) -> Option<Statistics> {
        self.inner.statistics()
    }
}

/// Creates tables of `CREATE EXTERNAL TABLE ... STORED AS` in a session.
pub struct SessionTableFactory {
    context: SessionContext,
}

impl SessionTableFactory {
    pub fn new(context: SessionContext) -> Self {
        Self { context }
    }
}

impl fmt::Debug for SessionTableFactory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SessionTableFactory")
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProviderFactory for SessionTableFactory {
    async fn create(
        &self,
        _session: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let state = self.context.state();
        let format = command.file_type.to_uppercase();
        let Some(factory) = state.table_factories().get(&format).map(Arc::clone) else {
            return plan_err!("{}: tet_sql has no format {format}", command.name);
        };
        let command = command.clone();
        let workers = Workers::current().map_err(carried)?;
        let created = workers.run(async move { factory.create(&state, &command).await });
        let table = SessionTable::new(created.await?, self.context.clone());
        Ok(Arc::new(table))
    }
}
