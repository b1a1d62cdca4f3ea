//! Catalogs whose schemas make tables of quoted paths.
//!
//! The engine's own `DynamicFileCatalog` does the same, but its catalogs cannot drop a schema.

use std::sync::Arc;

use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, DynamicFileSchemaProvider, SchemaProvider,
    UrlTableFactory,
};
use datafusion::common::Result;

/// The catalogs of a session, with tables made of quoted paths in every schema.
#[derive(Debug)]
pub(super) struct UrlCatalogs {
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
        let inner = self.inner.catalog(name)?;
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
        Some(Arc::new(DynamicFileSchemaProvider::new(inner, factory)))
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
