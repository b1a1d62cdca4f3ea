//! Catalogs whose schemas create tables from quoted paths.
//!
//! DataFusion's `DynamicFileCatalog` does the same, but its catalogs cannot drop a schema, and the
//! schemas that it wraps are not accessible.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider, UrlTableFactory,
};
use datafusion::common::Result;
use datafusion::logical_expr::TableType;

use crate::provider::catalog::groups::GroupCatalog;

/// The catalogs of a session. Every schema in them creates tables from quoted paths, and groups of files
/// are schemas.
#[derive(Debug)]
pub(crate) struct UrlCatalogs {
    inner: Arc<dyn CatalogProviderList>,
    factory: Arc<dyn UrlTableFactory>,
}

impl UrlCatalogs {
    pub fn new(inner: Arc<dyn CatalogProviderList>, factory: Arc<dyn UrlTableFactory>) -> Self {
        Self { inner, factory }
    }
}

impl CatalogProviderList for UrlCatalogs {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.inner.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.inner.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let inner = GroupCatalog::over(self.inner.catalog(name)?);
        let factory = Arc::clone(&self.factory);
        Some(Arc::new(UrlCatalog { inner, factory }))
    }
}

#[derive(Debug)]
struct UrlCatalog {
    inner: Arc<dyn CatalogProvider>,
    factory: Arc<dyn UrlTableFactory>,
}

impl CatalogProvider for UrlCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let inner = self.inner.schema(name)?;
        let factory = Arc::clone(&self.factory);
        Some(Arc::new(UrlSchema { inner, factory }))
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.register_schema(name, schema)
    }

    fn deregister_schema(
        &self,
        name: &str,
        cascade: bool,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.deregister_schema(name, cascade)
    }
}

/// A schema that creates tables from names that it does not contain.
#[derive(Debug)]
struct UrlSchema {
    inner: Arc<dyn SchemaProvider>,
    factory: Arc<dyn UrlTableFactory>,
}

/// Unwraps a schema that creates tables from quoted paths.
pub(crate) fn without_urls(mut schema: Arc<dyn SchemaProvider>) -> Arc<dyn SchemaProvider> {
    while let Some(front) = schema.downcast_ref::<UrlSchema>() {
        schema = Arc::clone(&front.inner);
    }
    schema
}

#[async_trait]
impl SchemaProvider for UrlSchema {
    fn owner_name(&self) -> Option<&str> {
        self.inner.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.inner.table(name).await? {
            Some(table) => Ok(Some(table)),
            None => self.factory.try_new(name).await,
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        match self.inner.table_type(name).await? {
            Some(kind) => Ok(Some(kind)),
            None => Ok(self.table(name).await?.map(|table| table.table_type())),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name)
    }
}
