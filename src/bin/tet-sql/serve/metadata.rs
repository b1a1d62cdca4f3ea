//! What there is: catalogs, schemas, tables and their columns.

use crate::meta::tables;
use crate::serve::status::of_flight;
use crate::serve::wire::table_schema;
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables,
};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::TableReference;
use datafusion::logical_expr::TableType;
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use tet_sql::annotated_schema;
use tonic::Status;

const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";

/// The catalogs.
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

/// The schemas that fit.
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

/// The tables that fit, with their columns if they are asked for. A table that cannot be opened is left out.
pub async fn tables(
    context: SessionContext,
    command: CommandGetTables,
) -> Result<RecordBatch, Status> {
    let mut builder = command.into_builder();
    for listed in tables::list(&context) {
        let TableReference::Full {
            catalog,
            schema,
            table,
        } = &listed.reference
        else {
            continue;
        };
        let Ok(provider) = context.table_provider(listed.reference.clone()).await else {
            continue;
        };
        let kind = match provider.table_type() {
            TableType::View => VIEW,
            TableType::Base | TableType::Temporary => TABLE,
        };
        let columns = table_schema(&annotated_schema(provider.as_ref()));
        let appended = builder.append(catalog, schema, table, kind, &columns);
        appended.map_err(of_flight)?;
    }
    builder.build().map_err(of_flight)
}

/// The kinds of tables.
pub fn table_types(command: CommandGetTableTypes) -> Result<RecordBatch, Status> {
    let mut builder = command.into_builder();
    for kind in [TABLE, VIEW] {
        builder.append(kind);
    }
    builder.build().map_err(of_flight)
}

/// The schema of an answer about primary keys. There are none: arrays have coordinates, which may repeat.
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

/// The schema of an answer about foreign keys, of which there are none.
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
