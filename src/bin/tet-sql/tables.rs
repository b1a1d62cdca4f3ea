//! The tables of a session.

use arrow::array::{ArrayRef, RecordBatch, Scalar, StringArray};
use arrow::compute::ilike;
use datafusion::arrow::error::ArrowError;
use datafusion::common::TableReference;
use datafusion::common::utils::quote_identifier;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// A table of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// The schema, behind its catalog unless that is the default one.
    pub schema: String,
    /// The table's name.
    pub table: String,
    /// What the session finds it by.
    pub reference: TableReference,
}

/// All tables but those that describe the others.
pub fn list(context: &SessionContext) -> Vec<Listed> {
    let default = context
        .copied_config()
        .options()
        .catalog
        .default_catalog
        .clone();
    let mut tables = Vec::new();
    for catalog_name in context.catalog_names() {
        let Some(catalog) = context.catalog(&catalog_name) else {
            continue;
        };
        for schema_name in catalog.schema_names() {
            if schema_name == "information_schema" {
                continue;
            }
            let Some(schema) = catalog.schema(&schema_name) else {
                continue;
            };
            let shown = if catalog_name == default {
                schema_name.clone()
            } else {
                format!("{catalog_name}.{schema_name}")
            };
            for table in schema.table_names() {
                tables.push(Listed {
                    schema: shown.clone(),
                    reference: TableReference::full(
                        catalog_name.as_str(),
                        schema_name.as_str(),
                        table.as_str(),
                    ),
                    table,
                });
            }
        }
    }
    tables.sort();
    tables
}

/// The tables as a result, with names as SQL needs them; those only whose names match a pattern of LIKE, whatever their case.
pub fn batch(context: &SessionContext, pattern: Option<&str>) -> Result<RecordBatch, ArrowError> {
    let mut tables = list(context);
    if let Some(pattern) = pattern {
        // As in psql.
        let pattern = pattern.replace('*', "%").replace('?', "_");
        let names = tables.iter().map(|listed| listed.table.as_str());
        let names = StringArray::from_iter_values(names);
        let matching = ilike(
            &names,
            &Scalar::new(StringArray::from(vec![pattern.as_str()])),
        )?;
        let mut matching = matching.values().iter();
        tables.retain(|_| matching.next().unwrap_or(false));
    }
    let quoted = |name: &str| quote_identifier(name).into_owned();
    let schemas = tables.iter().map(|listed| quoted(&listed.schema));
    let names = tables.iter().map(|listed| quoted(&listed.table));
    let schemas = StringArray::from_iter_values(schemas);
    let names = StringArray::from_iter_values(names);
    RecordBatch::try_from_iter([
        ("schema", Arc::new(schemas) as ArrayRef),
        ("table", Arc::new(names) as ArrayRef),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::SessionConfig;

    #[tokio::test]
    async fn tables_of_all_schemas_are_listed() {
        let config = SessionConfig::new().with_information_schema(true);
        let context = SessionContext::new_with_config(config);
        for sql in [
            "CREATE TABLE b (x INT)",
            "CREATE SCHEMA a",
            "CREATE VIEW a.v AS SELECT 1",
        ] {
            context.sql(sql).await.unwrap();
        }
        let names: Vec<String> = list(&context)
            .iter()
            .map(|listed| format!("{}.{}", listed.schema, listed.table))
            .collect();
        assert_eq!(names, ["a.v", "public.b"]);
        assert_eq!(batch(&context, None).unwrap().num_rows(), 2);
        assert_eq!(batch(&context, Some("V%")).unwrap().num_rows(), 1);
    }
}
