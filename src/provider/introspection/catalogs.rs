//! The schemas and tables of a session, in the order of their names.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::catalog::{CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::Result;

use crate::format::array::ArrayFile;
use crate::provider::catalog::schema::TetSchema;
use crate::provider::catalog::table::ArrayTable;
use crate::provider::catalog::url_catalogs::without_urls;
use crate::provider::source::BlockSource;

/// A schema of the session, with the tables of it that are arrays.
#[derive(Debug)]
pub(super) struct ListedSchema {
    /// Its name, and that of its catalog.
    pub name: SchemaName,
    /// The file that it is, and what was odd on opening it.
    pub file: Option<(Arc<dyn ArrayFile>, Vec<String>)>,
    /// The arrays: those of a file in the file's order, behind what SQL added to them.
    pub tables: Vec<ListedTable>,
}

/// How a schema is called.
#[derive(Debug, Clone)]
pub(super) struct SchemaName {
    pub catalog: String,
    pub schema: String,
}

/// An array that is a table of the session.
#[derive(Debug, Clone)]
pub(super) struct ListedTable {
    pub name: String,
    pub source: Arc<dyn BlockSource>,
}

/// All schemas of a session with arrays, sorted.
pub(super) async fn list(catalogs: &dyn CatalogProviderList) -> Result<Vec<ListedSchema>> {
    let mut listed = Vec::new();
    for (name, schema) in schemas(catalogs) {
        let mut tables = Vec::new();
        for (table, provider) in tables_of(schema.as_ref()).await? {
            if let Some(array) = provider.downcast_ref::<ArrayTable>() {
                tables.push(ListedTable {
                    name: table,
                    source: Arc::clone(array.source()),
                });
            }
        }
        let file = schema
            .downcast_ref::<TetSchema>()
            .map(|schema| (Arc::clone(schema.file()), schema.warnings().to_vec()));
        if file.is_some() || !tables.is_empty() {
            listed.push(ListedSchema { name, file, tables });
        }
    }
    Ok(listed)
}

/// The schemas of all catalogs, sorted by their names.
pub(super) fn schemas(
    catalogs: &dyn CatalogProviderList,
) -> Vec<(SchemaName, Arc<dyn SchemaProvider>)> {
    let mut schemas = Vec::new();
    for catalog_name in sorted(catalogs.catalog_names()) {
        let Some(catalog) = catalogs.catalog(&catalog_name) else {
            continue;
        };
        for schema in sorted(catalog.schema_names()) {
            if let Some(provider) = catalog.schema(&schema) {
                let catalog = catalog_name.clone();
                schemas.push((SchemaName { catalog, schema }, without_urls(provider)));
            }
        }
    }
    schemas
}

/// The tables of a schema: of a file in its own order, else sorted by their names.
pub(super) async fn tables_of(
    schema: &dyn SchemaProvider,
) -> Result<Vec<(String, Arc<dyn TableProvider>)>> {
    let mut names = schema.table_names();
    if !schema.is::<TetSchema>() {
        names.sort();
    }
    let mut tables = Vec::with_capacity(names.len());
    for name in names {
        // It may have been dropped meanwhile.
        if let Some(table) = schema.table(&name).await? {
            tables.push((name, table));
        }
    }
    Ok(tables)
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}
