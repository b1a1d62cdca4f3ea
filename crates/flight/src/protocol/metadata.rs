//! Lists catalogs, schemas, tables and their columns.

use crate::dialect::Session;
use crate::protocol::wire::table_schema;
use crate::status::of_flight;
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables,
};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::TableReference;
use datafusion::logical_expr::TableType;
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use tonic::Status;

const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";

/// Lists the catalogs.
pub fn catalogs(
    context: &SessionContext,
    command: CommandGetCatalogs,
) -> Result<RecordBatch, Status> {
    let mut builder = command.into_builder();
    for catalog in context.catalog_names() {
        builder.append(catalog);
    }
    builder.build().map_err(of_flight)
}

/// Lists the schemas that match the filters of the command.
pub fn schemas(
    context: &SessionContext,
    command: CommandGetDbSchemas,
) -> Result<RecordBatch, Status> {
    let mut builder = command.into_builder();
    for name in context.catalog_names() {
        let schemas = context.catalog(&name).map(|catalog| catalog.schema_names());
        for schema in schemas.unwrap_or_default() {
            builder.append(&name, schema);
        }
    }
    builder.build().map_err(of_flight)
}

/// Lists the tables that match the filters of the command, with their columns if requested. A table
/// without a usable provider is skipped.
pub async fn tables(session: Session, command: CommandGetTables) -> Result<RecordBatch, Status> {
    let Session { context, dialect } = session;
    let mut builder = command.into_builder();
    for (catalog, schema, table) in names(&context) {
        let reference = TableReference::full(catalog.as_str(), schema.as_str(), table.as_str());
        let Ok(provider) = context.table_provider(reference).await else {
            continue;
        };
        let kind = match provider.table_type() {
            TableType::View => VIEW,
            TableType::Base | TableType::Temporary => TABLE,
        };
        let columns = table_schema(&dialect.table_schema(provider.as_ref()));
        let appended = builder.append(catalog, schema, table, kind, &columns);
        appended.map_err(of_flight)?;
    }
    builder.build().map_err(of_flight)
}

/// Returns the sorted catalog, schema and name of each table outside `information_schema`.
fn names(context: &SessionContext) -> Vec<(String, String, String)> {
    let mut names = Vec::new();
    for catalog in context.catalog_names() {
        let Some(provider) = context.catalog(&catalog) else {
            continue;
        };
        for schema in provider.schema_names() {
            if schema == "information_schema" {
                continue;
            }
            let tables = provider.schema(&schema).map(|schema| schema.table_names());
            let tables = tables.unwrap_or_default().into_iter();
            names.extend(tables.map(|table| (catalog.clone(), schema.clone(), table)));
        }
    }
    names.sort();
    names
}

/// Lists the types of tables.
pub fn table_types(command: CommandGetTableTypes) -> Result<RecordBatch, Status> {
    let mut builder = command.into_builder();
    for kind in [TABLE, VIEW] {
        builder.append(kind);
    }
    builder.build().map_err(of_flight)
}

/// Returns the schema of the list of primary keys. The list is empty, because the coordinates of an
/// array may repeat.
pub fn primary_keys() -> SchemaRef {
    schema(&[
        ("catalog_name", DataType::Utf8, true),
        ("db_schema_name", DataType::Utf8, true),
        ("table_name", DataType::Utf8, false),
        ("column_name", DataType::Utf8, false),
        ("key_name", DataType::Utf8, true),
        ("key_sequence", DataType::Int32, false),
    ])
}

/// Returns the schema of the list of foreign keys, which is empty.
pub fn foreign_keys() -> SchemaRef {
    schema(&[
        ("pk_catalog_name", DataType::Utf8, true),
        ("pk_db_schema_name", DataType::Utf8, true),
        ("pk_table_name", DataType::Utf8, false),
        ("pk_column_name", DataType::Utf8, false),
        ("fk_catalog_name", DataType::Utf8, true),
        ("fk_db_schema_name", DataType::Utf8, true),
        ("fk_table_name", DataType::Utf8, false),
        ("fk_column_name", DataType::Utf8, false),
        ("key_sequence", DataType::Int32, false),
        ("fk_key_name", DataType::Utf8, true),
        ("pk_key_name", DataType::Utf8, true),
        ("update_rule", DataType::UInt8, false),
        ("delete_rule", DataType::UInt8, false),
    ])
}

fn schema(fields: &[(&str, DataType, bool)]) -> SchemaRef {
    let fields = fields.iter();
    let fields =
        fields.map(|(name, data_type, nullable)| Field::new(*name, data_type.clone(), *nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
