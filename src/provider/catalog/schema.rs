//! A file as a DataFusion schema.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::format::array::MemoryBudget;
use crate::provider::adapters::registry::FormatRegistry;
use crate::provider::catalog::names::ignoring_case;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::catalog::table::ArrayTable;
use crate::provider::source::container::Container;

/// An opened [`Container`], such as a file, as a schema. A file of arrays has one table per
/// dataset, and one wide table per two or more datasets of a group that share their axes.
///
/// A writable schema lies on top, so that views and external tables can be created. A table is
/// found by its exact name, else by the only name that matches case-insensitively.
#[derive(Debug)]
pub struct ArraySchema {
    name: String,
    container: Arc<dyn Container>,
    /// The absolute path, which stays valid if the process changes its working directory.
    absolute: Option<PathBuf>,
    options: ArrayOptions,
    overlay: MemorySchemaProvider,
}

impl ArraySchema {
    /// Opens a file or directory. Datasets that cannot be read are left out, with a warning.
    ///
    /// # Errors
    /// Returns [`Error`] if the file cannot be opened.
    pub fn open(
        name: impl Into<String>,
        path: impl AsRef<Path>,
        options: ArrayOptions,
    ) -> Result<Self, Error> {
        Self::open_in(&SessionConfig::new(), name.into(), path.as_ref(), options)
    }

    /// Like [`Self::open`], with the formats and settings of a session.
    pub(crate) fn open_in(
        session: &SessionConfig,
        name: String,
        path: &Path,
        options: ArrayOptions,
    ) -> Result<Self, Error> {
        let container = FormatRegistry::of(session).open(path, &options, session)?;
        Ok(Self::new(name, container, options))
    }

    /// Creates the schema of a container. `options` apply to scans of its tables.
    pub fn new(
        name: impl Into<String>,
        container: Arc<dyn Container>,
        options: ArrayOptions,
    ) -> Self {
        // Tables that are opened together share their coordinates.
        container.tables();
        let path = container.path();
        Self {
            name: name.into(),
            absolute: path.and_then(|path| std::path::absolute(path).ok()),
            container,
            options,
            overlay: MemorySchemaProvider::new(),
        }
    }

    /// The name of the schema.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The container.
    pub fn container(&self) -> &Arc<dyn Container> {
        &self.container
    }

    /// The path or URL of the container, as the user gave it.
    pub fn path(&self) -> &Path {
        let location = || Path::new(self.container.location());
        self.container.path().unwrap_or_else(location)
    }

    /// The absolute path of the container; `None` if it is not in the file system.
    pub(crate) fn absolute_path(&self) -> Option<&Path> {
        self.absolute.as_deref()
    }

    /// Problems found on opening that do not prevent reading, such as repeated names and datasets
    /// that are left out.
    pub fn warnings(&self) -> &[String] {
        self.container.warnings()
    }

    /// The memory that the writer of the file suggests for queries.
    pub fn memory_budget(&self) -> MemoryBudget {
        self.container.memory_budget()
    }

    /// Returns the path of a group of the container, with a slash at the end; `None` if there is no such
    /// group. The group has this path, or is the only one whose path matches case-insensitively.
    ///
    /// # Errors
    /// Returns a message if several groups match case-insensitively.
    pub(crate) fn group(&self, path: &str) -> Result<Option<String>, String> {
        let tables = self.container.tables().iter();
        let groups = tables.flat_map(|table| {
            let slashes = table.name.match_indices('/');
            slashes.map(|(slash, _)| &table.name[..slash])
        });
        let groups: BTreeSet<&str> = groups.collect();
        if groups.contains(path) {
            return Ok(Some(format!("{path}/")));
        }
        match ignoring_case(groups.iter().copied(), path) {
            Ok(number) => {
                let group = number.and_then(|number| groups.iter().nth(number));
                Ok(group.map(|group| format!("{group}/")))
            }
            Err(two) => Err(self.ambiguous("group", path, two)),
        }
    }

    /// Returns the message for a name that matches two names case-insensitively.
    fn ambiguous(&self, kind: &str, name: &str, [first, second]: [&str; 2]) -> String {
        let path = self.path().display();
        format!(
            "{kind} name {name} is ambiguous: {path} has \"{first}\" and \"{second}\"; quote one of them"
        )
    }

    /// Opens a table of the container. A table that was left out gives the reason as an error.
    fn stored(&self, name: &str) -> Result<Option<ArrayTable>> {
        let mut found = self.container.table(name)?;
        if found.is_none() {
            let tables = self.container.tables();
            let names = tables.iter().map(|table| table.name.as_str());
            found = match ignoring_case(names, name) {
                Ok(Some(number)) => self.container.table(&tables[number].name)?,
                Ok(None) => None,
                Err(two) => return plan_err!("{}", self.ambiguous("table", name, two)),
            };
        }
        Ok(found.map(|source| ArrayTable::new(source, self.options.clone())))
    }
}

#[async_trait]
impl SchemaProvider for ArraySchema {
    fn table_names(&self) -> Vec<String> {
        let mut overlay = self.overlay.table_names();
        overlay.sort();
        let seen: HashSet<_> = overlay.iter().cloned().collect();
        let stored = self.container.tables().iter().map(|table| &table.name);
        let visible = stored.filter(|table| !seen.contains(*table)).cloned();
        overlay.into_iter().chain(visible).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.overlay.table(name).await? {
            return Ok(Some(table));
        }
        Ok(self.stored(name)?.map(|table| Arc::new(table) as _))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.overlay.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !self.overlay.table_exist(name) && self.stored(name)?.is_some() {
            return exec_err!(
                "cannot drop {name}: it is a dataset of the read-only file {}",
                self.path().display()
            );
        }
        self.overlay.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.overlay.table_exist(name) || matches!(self.stored(name), Ok(Some(_)))
    }
}
