//! The groups of files as schemas.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_err, plan_err};

#[cfg(feature = "sql")]
use crate::provider::catalog::names::ignoring_case;
use crate::provider::catalog::schema::ArraySchema;

/// Begins the name of a schema that is to be created, so that groups of this name are not found. DataFusion
/// looks a new schema up by the same function as the schemas of tables.
pub(crate) const NEW_SCHEMA: char = '\0';

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
    fn qualified(&self, name: &str) -> GroupSchema {
        let mut slashes = name.match_indices('/');
        let found = slashes.find_map(|(slash, _)| {
            let found = self.in_files([name[..slash].to_string()], &name[slash + 1..]);
            (!found.is_empty()).then_some(found)
        });
        found.unwrap_or_default()
    }

    /// Returns the groups with this path in some files.
    fn in_files(&self, files: impl IntoIterator<Item = String>, path: &str) -> GroupSchema {
        let mut found = GroupSchema::default();
        for file_name in files {
            let Some(file) = self.0.schema(&file_name) else {
                continue;
            };
            match file
                .downcast_ref::<ArraySchema>()
                .map(|file| file.group(path))
            {
                Some(Ok(Some(path))) => found.groups.push(Group {
                    file,
                    file_name,
                    path,
                }),
                Some(Err(message)) => found.ambiguous = Some(message),
                Some(Ok(None)) | None => {}
            }
        }
        found
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
        let mut found = self.qualified(name);
        if found.is_empty() {
            let mut files = self.0.schema_names();
            files.sort();
            found = self.in_files(files, name);
        }
        (!found.is_empty()).then(|| Arc::new(found) as _)
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        let name = name.strip_prefix(NEW_SCHEMA).unwrap_or(name);
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
    /// Returns the name of the group as a schema.
    fn qualified_name(&self) -> String {
        let (file, path) = (&self.file_name, self.path.trim_end_matches('/'));
        format!("\"{file}/{path}\"")
    }
}

/// The groups that a name stands for, of which there is one, unless several files have such a group.
#[derive(Debug, Default)]
pub(crate) struct GroupSchema {
    groups: Vec<Group>,
    /// The error message, if several groups of a file match the name.
    ambiguous: Option<String>,
}

impl GroupSchema {
    fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.ambiguous.is_none()
    }

    /// Returns the schema of the file, and the name of a table there, if only one of the groups has the
    /// table.
    #[cfg(feature = "sql")]
    pub fn in_file(&self, name: &str) -> Option<(String, String)> {
        let mut found = self.groups.iter().filter_map(|group| {
            let name = format!("{}{name}", group.path);
            let names = group.file.table_names();
            let number = match names.iter().position(|other| *other == name) {
                None => ignoring_case(names.iter().map(String::as_str), &name).ok()?,
                exact => exact,
            };
            Some((group.file_name.clone(), names[number?].clone()))
        });
        let first = found.next();
        first.filter(|_| found.next().is_none())
    }
}

#[async_trait]
impl SchemaProvider for GroupSchema {
    fn table_names(&self) -> Vec<String> {
        let [Group { file, path, .. }] = self.groups.as_slice() else {
            return Vec::new();
        };
        let names = file.table_names().into_iter();
        let names = names.filter_map(|name| name.strip_prefix(path).map(str::to_string));
        // Groups within the group are schemas, too.
        names.filter(|name| !name.contains('/')).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let mut found = Vec::new();
        for group in &self.groups {
            let table = group.file.table(&format!("{}{name}", group.path)).await?;
            found.extend(table.map(|table| (group, table)));
        }
        if found.len() > 1 {
            let names = found.iter().map(|(group, _)| group.qualified_name());
            let names: Vec<_> = names.map(|group| format!("{group}.\"{name}\"")).collect();
            let group = found[0].0.path.trim_end_matches('/');
            return plan_err!(
                "table name {group}.{name} is ambiguous: several files have it; write {}",
                names.join(" or ")
            );
        }
        match (found.pop(), &self.ambiguous) {
            (Some((_, table)), _) => Ok(Some(table)),
            (None, Some(message)) => plan_err!("{message}"),
            (None, None) => Ok(None),
        }
    }

    fn register_table(
        &self,
        name: String,
        _table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let groups = self.groups.iter();
        let (groups, files): (Vec<_>, Vec<_>) = groups
            .map(|group| (group.qualified_name(), format!("\"{}\"", group.file_name)))
            .unzip();
        exec_err!(
            "cannot create {name} in {}, a group of a file; create it in the schema {}, or create a schema for it",
            groups.join(" or "),
            files.join(" or ")
        )
    }

    fn table_exist(&self, name: &str) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|Group { file, path, .. }| file.table_exist(&format!("{path}{name}")))
    }
}
