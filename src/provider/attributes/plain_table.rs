//! A wrapper that hides the attributes in a table's schema.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::{Constraints, Result, Statistics};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::provider::attributes::plain;

/// A table that plans read in place of `inner`, with the same rows and a schema without attributes.
#[derive(Debug)]
pub(super) struct PlainTable {
    inner: Arc<dyn TableProvider>,
    schema: SchemaRef,
}

impl PlainTable {
    pub fn new(inner: Arc<dyn TableProvider>) -> Self {
        Self {
            schema: plain(&inner.schema()),
            inner,
        }
    }

    /// Returns the table with attributes.
    pub fn inner(&self) -> &Arc<dyn TableProvider> {
        &self.inner
    }
}

#[async_trait]
impl TableProvider for PlainTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.inner.constraints()
    }

    fn table_type(&self) -> TableType {
        self.inner.table_type()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.inner.get_column_default(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.inner.scan(state, projection, filters, limit).await?;
        without_attributes(rows)
    }

    async fn scan_with_args<'a>(
        &self,
        state: &dyn Session,
        args: ScanArgs<'a>,
    ) -> Result<ScanResult> {
        let rows = self.inner.scan_with_args(state, args).await?;
        Ok(without_attributes(rows.into_inner())?.into())
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

/// Wraps an operator so that its schema has no attributes.
fn without_attributes(rows: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = rows.schema();
    let columns = schema.fields().iter().enumerate();
    let columns = columns.map(|(index, field)| ProjectionExpr {
        expr: Arc::new(Column::new(field.name(), index)),
        alias: field.name().clone(),
    });
    let columns: Vec<_> = columns.collect();
    let plain = ProjectionExec::try_new_with_schema_metadata(columns, rows, &plain(&schema))?;
    Ok(Arc::new(plain))
}
