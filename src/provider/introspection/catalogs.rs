//! Lists the schemas and tables of a session in a stable order.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::catalog::{CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::Result;

use crate::provider::catalog::schema::ArraySchema;
use crate::provider::catalog::table::ArrayTable;
use crate::provider::catalog::url_catalogs::without_urls;
use crate::provider::source::BlockSource;
use crate::provider::source::container::Container;

/// A schema of the session, with its arrays.
#[derive(Debug)]
pub(super) struct ListedSchema {
    /// The names of the schema and its catalog.
    pub name: SchemaName,
    /// The container behind the schema; `None` for a schema that is not a file.
    pub container: Option<Arc<dyn Container>>,
    /// The absolute path of the container, if it is in the file system.
    pub path: Option<PathBuf>,
    /// The arrays. For a file, tables that SQL added come first, then the arrays in file order.
    pub tables: Vec<ListedTable>,
}

/// The name of a schema within its catalog.
#[derive(Debug, Clone)]
pub(super) struct SchemaName {
    pub catalog: String,
    pub schema: String,
}

/// A table of the session that is an array.
#[derive(Debug, Clone)]
pub(super) struct ListedTable {
    pub name: String,
    pub source: Arc<dyn BlockSource>,
}

/// Lists the schemas that are files or contain arrays, sorted by name.
pub(super) async fn list(catalogs: &dyn CatalogProviderList) -> Result<Vec<ListedSchema>> {
    let mut listed = Vec::new();
    for (name, schema) in schemas(catalogs) {
        let mut tables = Vec::new();
        for (table, provider) in tables_of(schema.as_ref()).await? {
            if let Some(array) = provider.downcast_ref::<ArrayTable>() {
                tables.push(ListedTable {
                    name: table,
                    source: array.source(),
                });
            }
        }
        let schema = schema.downcast_ref::<ArraySchema>();
        let container = schema.map(|schema| Arc::clone(schema.container()));
        let path = schema.and_then(ArraySchema::absolute_path);
        if container.is_some() || !tables.is_empty() {
            listed.push(ListedSchema {
                name,
                container,
                path: path.map(Path::to_path_buf),
                tables,
            });
        }
    }
    Ok(listed)
}

/// Lists the schemas of all catalogs, sorted by name.
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

/// Lists the tables of a schema: in the order of [`ArraySchema`] for files, else sorted by name.
pub(super) async fn tables_of(
    schema: &dyn SchemaProvider,
) -> Result<Vec<(String, Arc<dyn TableProvider>)>> {
    let mut names = schema.table_names();
    if !schema.is::<ArraySchema>() {
        names.sort();
    }
    let mut tables = Vec::with_capacity(names.len());
    for name in names {
        // Another statement may have dropped the table since its name was listed.
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
