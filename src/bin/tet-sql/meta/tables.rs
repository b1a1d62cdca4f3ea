//! The tables of a session.

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

/// The tables that a pattern matches, whatever their case: `temp*`, `%temp%`, or with a schema, `demo.t*`. Without one, all.
pub fn matching(tables: Vec<Listed>, pattern: Option<&str>) -> Result<Vec<Listed>, ArrowError> {
    let Some(pattern) = pattern else {
        return Ok(tables);
    };
    let names = tables.iter().map(|listed| listed.table.as_str());
    let mut found = like(names, pattern)?;
    // A table may have a point in its name, so that a pattern without schemas comes first.
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

/// The schemas whose names match a pattern, and how many tables each has.
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

/// Returns for each name whether it matches a pattern of LIKE or psql.
fn like<'a>(names: impl Iterator<Item = &'a str>, pattern: &str) -> Result<Vec<bool>, ArrowError> {
    let names = StringArray::from_iter_values(names);
    let pattern = like_pattern(pattern);
    let found = ilike(&names, &Scalar::new(StringArray::from(vec![pattern])))?;
    Ok((0..found.len()).map(|row| found.value(row)).collect())
}

/// A pattern of LIKE for one that may be of psql's kind. Quotes of names are left out.
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
