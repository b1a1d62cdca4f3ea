//! The groups of files as schemas.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, plan_err};

use crate::provider::catalog::schema::ArraySchema;

/// A catalog in which the groups of files are schemas: the group `ocean` of the file `air` is
/// `"air/ocean"`, and `ocean` as well unless another schema has this name.
///
/// ```text
/// air."ocean/salt"  =  "air/ocean".salt  =  ocean.salt
/// ```
///
/// The schemas of groups are not listed, because their tables are listed in the schemas of files.
#[derive(Debug)]
pub(crate) struct GroupCatalog(Arc<dyn CatalogProvider>);

impl GroupCatalog {
    /// Adds the groups of its files to a catalog.
    pub fn over(catalog: Arc<dyn CatalogProvider>) -> Arc<dyn CatalogProvider> {
        Arc::new(Self(catalog))
    }

    /// Returns the group of a file by its qualified name, `air/ocean`.
    fn qualified(&self, name: &str) -> Option<Group> {
        name.match_indices('/').find_map(|(slash, _)| {
            let file = self.0.schema(&name[..slash])?;
            Group::of(&name[..slash], file, &name[slash + 1..])
        })
    }

    /// Returns the groups of all files that have this name, without that of the file.
    fn named(&self, name: &str) -> Vec<Group> {
        let mut files = self.0.schema_names();
        files.sort();
        let groups = files
            .iter()
            .filter_map(|file| Group::of(file, self.0.schema(file)?, name));
        groups.collect()
    }
}

impl CatalogProvider for GroupCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.0.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if let Some(schema) = self.0.schema(name) {
            return Some(schema);
        }
        let groups = match self.qualified(name) {
            Some(group) => vec![group],
            None => self.named(name),
        };
        match groups.is_empty() {
            true => None,
            false => Some(Arc::new(GroupSchema(groups))),
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

/// A group of a file.
#[derive(Debug)]
struct Group {
    /// The schema of the file, and its name.
    file: Arc<dyn SchemaProvider>,
    file_name: String,
    /// The path of the group, with a slash at the end: `ocean/`.
    path: String,
}

impl Group {
    /// Returns the group with this path, if the schema is a file that has the group.
    fn of(file_name: &str, file: Arc<dyn SchemaProvider>, path: &str) -> Option<Self> {
        let path = file.downcast_ref::<ArraySchema>()?.group(path)?;
        Some(Self {
            file,
            file_name: file_name.to_string(),
            path,
        })
    }
}

/// The groups that a name stands for, of which there is one, unless several files have such a group.
#[derive(Debug)]
struct GroupSchema(Vec<Group>);

#[async_trait]
impl SchemaProvider for GroupSchema {
    fn table_names(&self) -> Vec<String> {
        let [Group { file, path, .. }] = self.0.as_slice() else {
            return Vec::new();
        };
        let names = file.table_names().into_iter();
        let names = names.filter_map(|name| name.strip_prefix(path).map(str::to_string));
        // Groups within the group are schemas, too.
        names.filter(|name| !name.contains('/')).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.0.as_slice() {
            [Group { file, path, .. }] => file.table(&format!("{path}{name}")).await,
            groups => {
                let names = groups.iter().map(|group| {
                    let Group {
                        file_name, path, ..
                    } = group;
                    format!("\"{file_name}/{}\"", path.trim_end_matches('/'))
                });
                let names: Vec<_> = names.collect();
                plan_err!(
                    "several files have a group of this name; write {}",
                    names.join(" or ")
                )
            }
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        let mut groups = self.0.iter();
        groups.any(|Group { file, path, .. }| file.table_exist(&format!("{path}{name}")))
    }
}
