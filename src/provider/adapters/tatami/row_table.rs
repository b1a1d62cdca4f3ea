//! The tables of table functions whose rows are computed while they are read.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::provider::introspection::scan::{RowScan, RowSource};

/// The table of a [`RowSource`].
#[derive(Debug)]
pub(super) struct RowTable {
    rows: Arc<dyn RowSource>,
    schema: SchemaRef,
}

impl RowTable {
    /// Creates a table with these columns.
    pub fn new(rows: Arc<dyn RowSource>, schema: Schema) -> Self {
        Self {
            rows,
            schema: Arc::new(schema),
        }
    }
}

#[async_trait]
impl TableProvider for RowTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = Arc::clone(&self.rows);
        let scan = RowScan::try_new(rows, &self.schema, projection, limit)?;
        Ok(scan.into_exec())
    }
}
