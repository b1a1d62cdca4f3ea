//! Lists the tables of a session.

use arrow::array::{ArrayRef, RecordBatch, Scalar, StringArray, UInt64Array};
use arrow::compute::ilike;
use datafusion::arrow::error::ArrowError;
use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listed {
    /// The schema, qualified by its catalog unless that is the default catalog.
    pub schema: String,
    /// The name of the table.
    pub table: String,
    /// The full reference to the table.
    pub reference: TableReference,
}

/// Returns all tables except those of `information_schema`, in order.
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

/// Returns the tables that match a pattern, ignoring case: `temp*`, `%temp%`, or with a schema,
/// `demo.t*`. Without a pattern, returns all tables.
pub fn matching(tables: Vec<Listed>, pattern: Option<&str>) -> Result<Vec<Listed>, ArrowError> {
    let Some(pattern) = pattern else {
        return Ok(tables);
    };
    let names = tables.iter().map(|listed| listed.table.as_str());
    let mut found = like(names, pattern)?;
    // A table name may contain a dot, so the whole pattern is first matched against table names.
    if let Some((schema, table)) = pattern.rsplit_once('.') {
        let schemas = tables.iter().map(|listed| listed.schema.as_str());
        let names = tables.iter().map(|listed| listed.table.as_str());
        let both = like(schemas, schema)?.into_iter().zip(like(names, table)?);
        let both = both.map(|(schema, table)| schema && table);
        found = found
            .into_iter()
            .zip(both)
            .map(|(one, other)| one || other)
            .collect();
    }
    let some = tables.into_iter().zip(found);
    Ok(some
        .filter_map(|(listed, is_found)| is_found.then_some(listed))
        .collect())
}

/// Returns the schemas whose names match a pattern, with the number of tables in each.
pub fn schemas(context: &SessionContext, pattern: Option<&str>) -> Result<RecordBatch, ArrowError> {
    let default = context
        .copied_config()
        .options()
        .catalog
        .default_catalog
        .clone();
    let catalog = context.catalog(&default);
    let names = catalog.iter().flat_map(|catalog| catalog.schema_names());
    let listed = list(context);
    let mut counts: BTreeMap<String, u64> = names.map(|name| (name, 0)).collect();
    for table in listed {
        *counts.entry(table.schema).or_default() += 1;
    }
    let wanted = like(counts.keys().map(String::as_str), pattern.unwrap_or("*"))?;
    let mut wanted = wanted.into_iter();
    counts.retain(|name, _| wanted.next().unwrap_or(false) && name != "information_schema");
    let names = StringArray::from_iter_values(counts.keys());
    let counts = UInt64Array::from_iter_values(counts.values().copied());
    RecordBatch::try_from_iter([
        ("schema", Arc::new(names) as ArrayRef),
        ("tables", Arc::new(counts) as ArrayRef),
    ])
}

/// Returns, for each name, `true` if it matches a pattern of LIKE or psql.
fn like<'a>(names: impl Iterator<Item = &'a str>, pattern: &str) -> Result<Vec<bool>, ArrowError> {
    let names = StringArray::from_iter_values(names);
    let pattern = like_pattern(pattern);
    let found = ilike(&names, &Scalar::new(StringArray::from(vec![pattern])))?;
    Ok((0..found.len()).map(|row| found.value(row)).collect())
}

/// Converts a pattern of psql to one of LIKE, and drops the quotes of names. A pattern of LIKE
/// stays as it is.
pub fn like_pattern(pattern: &str) -> String {
    pattern.replace('*', "%").replace('?', "_").replace('"', "")
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
        for (pattern, count) in [
            ("V%", 1),
            ("?", 2),
            ("a.*", 1),
            ("p*.B", 1),
            ("\"public\".\"b\"", 1),
            ("b.v", 0),
        ] {
            let found = matching(list(&context), Some(pattern)).unwrap();
            assert_eq!(found.len(), count, "{pattern}");
        }
    }
}
