//! A file as a DataFusion schema.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::config::ConfigOptions;

use crate::error::Error;
use crate::format::array::ArrayFile;
use crate::format::array::MemoryBudget;
use crate::provider::adapters::arrays::{ArrayDataset, FileTables, open_file};
use crate::provider::catalog::names::ignoring_case;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::catalog::table::ArrayTable;

/// An open array file as a schema with one table per dataset, and one wide table per two or more
/// datasets of a group that share their axes.
///
/// A writable schema lies on top, so that views and external tables can be created. A dataset is
/// found by its exact name, else by the only name that matches case-insensitively.
#[derive(Debug)]
pub struct ArraySchema {
    name: String,
    file: Arc<dyn ArrayFile>,
    options: ArrayOptions,
    /// The datasets in file order, then the wide tables.
    tables: Vec<(String, Arc<ArrayTable>)>,
    /// The index into `tables` of each name.
    by_name: HashMap<String, usize>,
    overlay: MemorySchemaProvider,
    warnings: Vec<String>,
}

impl ArraySchema {
    /// Opens a file. Datasets that cannot be read are left out, with a warning.
    ///
    /// # Errors
    /// Returns [`Error`] if the file cannot be opened.
    pub fn open(
        name: impl Into<String>,
        path: impl AsRef<Path>,
        options: ArrayOptions,
    ) -> Result<Self, Error> {
        Self::open_in(&ConfigOptions::new(), name.into(), path.as_ref(), options)
    }

    /// Like [`Self::open`], with the settings of a session for options that are unset.
    pub(crate) fn open_in(
        session: &ConfigOptions,
        name: String,
        path: &Path,
        options: ArrayOptions,
    ) -> Result<Self, Error> {
        let options = options.bound(session);
        let file = open_file(path, &options, session)?;
        let mut warnings = file.warnings().to_vec();
        let found = FileTables::new(&file, &options);
        warnings.extend(found.warnings);
        let tables: Vec<_> = found
            .tables
            .into_iter()
            .map(|(name, grid)| (name, Arc::new(ArrayTable::from_grid(grid, options.clone()))))
            .collect();
        let names = tables.iter().map(|(name, _)| name.clone());
        let by_name = names.zip(0..).collect();
        Ok(Self {
            name,
            file,
            options,
            tables,
            by_name,
            overlay: MemorySchemaProvider::new(),
            warnings,
        })
    }

    /// The name of the schema.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file.
    pub fn file(&self) -> &Arc<dyn ArrayFile> {
        &self.file
    }

    /// The path of the file, as the user gave it.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Problems found on opening that do not prevent reading, such as repeated names and datasets
    /// that are left out.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The memory that the writer of the file suggests for queries.
    pub fn memory_budget(&self) -> MemoryBudget {
        self.file.memory_budget()
    }

    fn dataset(&self, name: &str) -> Result<Option<&Arc<ArrayTable>>> {
        if let Some(position) = self.by_name.get(name) {
            return Ok(Some(&self.tables[*position].1));
        }
        if self.file.dataset(name).is_some() {
            // The dataset was left out. Opening it again returns the reason.
            ArrayDataset::try_new(&self.file, name, &self.options)?;
        }
        let names = self.tables.iter().map(|(table, _)| table.as_str());
        match ignoring_case(names, name) {
            Ok(position) => Ok(position.map(|position| &self.tables[position].1)),
            Err([first, second]) => plan_err!(
                "table name {name} is ambiguous: {} has \"{first}\" and \"{second}\"; quote one of them",
                self.path().display()
            ),
        }
    }
}

#[async_trait]
impl SchemaProvider for ArraySchema {
    fn table_names(&self) -> Vec<String> {
        let mut overlay = self.overlay.table_names();
        overlay.sort();
        let seen: HashSet<_> = overlay.iter().cloned().collect();
        let datasets = self.tables.iter().map(|(table, _)| table);
        let hidden = datasets.filter(|table| !seen.contains(*table)).cloned();
        overlay.into_iter().chain(hidden).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.overlay.table(name).await? {
            return Ok(Some(table));
        }
        Ok(self
            .dataset(name)?
            .map(|table| Arc::clone(table) as Arc<dyn TableProvider>))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.overlay.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !self.overlay.table_exist(name) && self.dataset(name)?.is_some() {
            return exec_err!(
                "cannot drop {name}: it is a dataset of the read-only file {}",
                self.path().display()
            );
        }
        self.overlay.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.overlay.table_exist(name) || matches!(self.dataset(name), Ok(Some(_)))
    }
}
