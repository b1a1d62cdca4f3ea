//! A catalog that finds schemas regardless of case.

use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider};
use datafusion::common::Result;

/// Finds a schema by its exact name, or else by the only name that matches if case is ignored. SQL
/// folds unquoted names to lower case, but file names may have capitals.
#[derive(Debug, Default)]
pub struct Catalog(MemoryCatalogProvider);

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        self.0.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if let Some(schema) = self.0.schema(name) {
            return Some(schema);
        }
        let lower = name.to_lowercase();
        let names = self.0.schema_names();
        let mut matching = names.iter().filter(|name| name.to_lowercase() == lower);
        match (matching.next(), matching.next()) {
            (Some(only), None) => self.0.schema(only),
            _ => None,
        }
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.0.register_schema(name, schema)
    }

    fn deregister_schema(
        &self,
        name: &str,
        cascade: bool,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.0.deregister_schema(name, cascade)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::catalog::MemorySchemaProvider;

    use super::*;

    #[test]
    fn case_matters_only_between_names_that_differ_in_nothing_else() {
        let catalog = Catalog::default();
        let register = |name| {
            let schema = Arc::new(MemorySchemaProvider::new());
            catalog.register_schema(name, schema).unwrap();
        };
        register("ERA");
        assert!(catalog.schema("ERA").is_some());
        assert!(catalog.schema("era").is_some());
        register("Era");
        assert!(catalog.schema("era").is_none());
        assert!(catalog.schema("Era").is_some());
    }
}
