//! A file as a schema of the engine.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::config::ConfigOptions;

use crate::error::Error;
use crate::format::array::ArrayFile;
use crate::format::tet::MemoryBudget;
use crate::provider::adapters::arrays::{ArrayDataset, FileTables, open_file};
use crate::provider::catalog::names::ignoring_case;
use crate::provider::catalog::settings::options::TetOptions;
use crate::provider::catalog::table::ArrayTable;

/// An open `.tet` file as a schema with a table per dataset, and one for each two or more datasets of a group that share
/// their axes; overlaid with a writable one, so that views and external tables can be created in it.
///
/// A dataset is found by its exact name, else by the only one that matches without regard to case.
#[derive(Debug)]
pub struct TetSchema {
    name: String,
    file: Arc<dyn ArrayFile>,
    options: TetOptions,
    /// The datasets in the order of the file, then the wide tables.
    tables: Vec<(String, Arc<ArrayTable>)>,
    /// Where each of them is.
    by_name: HashMap<String, usize>,
    overlay: MemorySchemaProvider,
    warnings: Vec<String>,
}

impl TetSchema {
    /// Opens a file. Datasets that cannot be read are left out, with a warning.
    ///
    /// # Errors
    /// [`Error`] if the file cannot be opened.
    pub fn open(
        name: impl Into<String>,
        path: impl AsRef<Path>,
        options: TetOptions,
    ) -> Result<Self, Error> {
        Self::open_in(&ConfigOptions::new(), name.into(), path.as_ref(), options)
    }

    /// The same, where what the options leave unset follows a session.
    pub(crate) fn open_in(
        session: &ConfigOptions,
        name: String,
        path: &Path,
        options: TetOptions,
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

    /// The schema's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file.
    pub fn file(&self) -> &Arc<dyn ArrayFile> {
        &self.file
    }

    /// The file's path, as it was given.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What was odd on opening without standing in the way: repeated names, datasets that were left out.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The memory that the file's writer suggests for queries.
    pub fn memory_budget(&self) -> MemoryBudget {
        self.file.memory_budget()
    }

    fn dataset(&self, name: &str) -> Result<Option<&Arc<ArrayTable>>> {
        if let Some(position) = self.by_name.get(name) {
            return Ok(Some(&self.tables[*position].1));
        }
        if self.file.dataset(name).is_some() {
            // It could not be read; once more, for the reason.
            ArrayDataset::try_new(&self.file, name, &self.options)?;
        }
        let names = self.tables.iter().map(|(table, _)| table.as_str());
        match ignoring_case(names, name) {
            Ok(position) => Ok(position.map(|position| &self.tables[position].1)),
            Err([first, second]) => plan_err!(
                "{name} could be \"{first}\" or \"{second}\" of {}; quote one of them",
                self.path().display()
            ),
        }
    }
}

#[async_trait]
impl SchemaProvider for TetSchema {
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
                "{name} is a dataset of the file {}, which cannot be dropped",
                self.path().display()
            );
        }
        self.overlay.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.overlay.table_exist(name) || matches!(self.dataset(name), Ok(Some(_)))
    }
}
