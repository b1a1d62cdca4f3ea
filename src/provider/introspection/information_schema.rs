//! Units and descriptions in `information_schema.columns` and `information_schema.tables`.
//!
//! DataFusion creates these tables itself, independently of the registered catalogs. The only place
//! to add columns is therefore the planner, where a query names one of these tables.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProviderList, Session, TableProvider};
use datafusion::common::{Result, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::sqlparser::ast::{ObjectName, TableFactor};
use futures::{StreamExt, TryStreamExt, stream};

use crate::provider::attributes::annotated_schema;
use crate::provider::introspection::catalogs::{schemas, tables_of};
use crate::provider::introspection::column_attributes;

/// The schema that DataFusion creates.
const INFORMATION_SCHEMA: &str = "information_schema";
/// The columns that are added after DataFusion's own.
const ADDED: [&str; 2] = ["units", "description"];
/// The columns that identify a table.
const TABLE_KEY: [&str; 3] = ["table_catalog", "table_schema", "table_name"];
/// The column that, together with [`TABLE_KEY`], identifies a column.
const COLUMN: &str = "column_name";

/// A relation planner that adds units and descriptions to the tables of `information_schema`.
#[derive(Debug)]
pub(super) struct InformationSchemaPlanner;

impl RelationPlanner for InformationSchemaPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = &relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let Some((reference, table)) = described_table(name, context)? else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let source = provider_as_source(Arc::new(table));
        let plan = LogicalPlanBuilder::scan(reference, source, None)?.build()?;
        let planned = PlannedRelation::new(plan, alias.clone());
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

/// Returns the table with added columns, if `name` is one of the tables to extend. The schema must
/// be spelled out: an unqualified `tables` or `columns` may be an ordinary table.
fn described_table(
    name: &ObjectName,
    context: &dyn RelationPlannerContext,
) -> Result<Option<(TableReference, DescribedTable)>> {
    let reference = context.object_name_to_table_reference(name.clone())?;
    let subject = match reference.table() {
        "tables" => Subject::Tables,
        "columns" => Subject::Columns,
        _ => return Ok(None),
    };
    if reference.schema() != Some(INFORMATION_SCHEMA) {
        return Ok(None);
    }
    let source = context
        .context_provider()
        .get_table_source(reference.clone());
    // If the name cannot be resolved, DataFusion reports the better error.
    let Ok(inner) = source.and_then(|source| source_as_provider(&source)) else {
        return Ok(None);
    };
    let table = DescribedTable::over(inner, subject);
    Ok(table.map(|table| (reference, table)))
}

/// The objects that the rows of a table describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Tables,
    Columns,
}

/// A table of `information_schema` with two added columns.
#[derive(Debug)]
struct DescribedTable {
    inner: Arc<dyn TableProvider>,
    subject: Subject,
    schema: SchemaRef,
}

impl DescribedTable {
    /// Returns `None` if the table lacks the columns that identify its subjects, or already has a
    /// column with one of the added names.
    fn over(inner: Arc<dyn TableProvider>, subject: Subject) -> Option<Self> {
        let schema = inner.schema();
        let mut needed = TABLE_KEY.to_vec();
        if subject == Subject::Columns {
            needed.push(COLUMN);
        }
        let is_text = |name: &&str| {
            let field = schema.field_with_name(name);
            field.is_ok_and(|field| *field.data_type() == DataType::Utf8)
        };
        let has = |name: &str| schema.column_with_name(name).is_some();
        if !needed.iter().all(is_text) || ADDED.iter().any(|name| has(name)) {
            return None;
        }
        let added = ADDED.map(|name| Arc::new(Field::new(name, DataType::Utf8, true)));
        let fields: Vec<_> = schema.fields().iter().cloned().chain(added).collect();
        Some(Self {
            inner,
            subject,
            schema: Arc::new(Schema::new(fields)),
        })
    }
}

#[async_trait]
impl TableProvider for DescribedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        self.inner.table_type()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let own = self.schema.fields().len() - ADDED.len();
        if projection.is_some_and(|columns| columns.iter().all(|column| *column < own)) {
            return self.inner.scan(state, projection, filters, limit).await;
        }
        let rows = DescribedRows {
            inner: self.inner.scan(state, None, &[], None).await?,
            subject: self.subject,
            catalogs: state.catalog_list(),
            schema: Arc::clone(&self.schema),
        };
        let scan = StreamingTableExec::try_new(
            Arc::clone(&self.schema),
            vec![Arc::new(rows)],
            projection,
            [],
            false,
            limit,
        )?;
        Ok(Arc::new(scan))
    }
}

/// The rows of the inner table, with the added columns.
#[derive(Debug)]
struct DescribedRows {
    inner: Arc<dyn ExecutionPlan>,
    subject: Subject,
    catalogs: Arc<dyn CatalogProviderList>,
    schema: SchemaRef,
}

impl PartitionStream for DescribedRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (subject, schema) = (self.subject, Arc::clone(&self.schema));
        let (inner, catalogs) = (Arc::clone(&self.inner), Arc::clone(&self.catalogs));
        let batches = stream::once(async move {
            let tables = TableSchemas::of(catalogs.as_ref()).await?;
            let rows = execute_stream(inner, context)?;
            let rows = rows.map(move |batch| tables.describe(&batch?, subject, &schema));
            Result::<_>::Ok(rows)
        });
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten()))
    }
}

/// The schemas of all tables, keyed by the names of catalog, schema and table.
struct TableSchemas(HashMap<[String; 3], SchemaRef>);

impl TableSchemas {
    async fn of(catalogs: &dyn CatalogProviderList) -> Result<Self> {
        let mut tables = HashMap::new();
        for (name, schema) in schemas(catalogs) {
            for (table, provider) in tables_of(schema.as_ref()).await? {
                let key = [name.catalog.clone(), name.schema.clone(), table];
                tables.insert(key, annotated_schema(provider.as_ref()));
            }
        }
        Ok(Self(tables))
    }

    /// Appends units and descriptions to a batch of the inner table.
    fn describe(
        &self,
        batch: &RecordBatch,
        subject: Subject,
        schema: &SchemaRef,
    ) -> Result<RecordBatch> {
        let texts = |name: &str| {
            batch
                .column_by_name(name)
                .map(|column| column.as_string::<i32>())
        };
        let names = TABLE_KEY.map(texts);
        let columns = texts(COLUMN);
        let field = |row: usize| {
            let [Some(catalog), Some(schema), Some(table)] = names else {
                return None;
            };
            let key = [catalog, schema, table].map(|names| names.value(row).to_string());
            let table = self.0.get(&key)?;
            match subject {
                Subject::Tables => column_attributes::only_values(table),
                Subject::Columns => table.field_with_name(columns?.value(row)).ok(),
            }
        };
        let added =
            [column_attributes::units, column_attributes::description].map(|of| -> ArrayRef {
                let cells = (0..batch.num_rows()).map(|row| field(row).and_then(of));
                Arc::new(StringArray::from_iter(cells))
            });
        let columns = batch.columns().iter().cloned().chain(added).collect();
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    }
}
