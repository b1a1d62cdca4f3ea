//! A file of arrays as a container: its datasets, then the wide tables over them.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::Error;
use crate::format::array::{ArrayFile, Dataset, HistoryRow, MemoryBudget};
use crate::grid::CoordinateSource;
use crate::provider::adapters::arrays::auxiliary::AuxiliaryCoordinates;
use crate::provider::adapters::arrays::coordinates::{CoordinateDatasets, named_datasets};
use crate::provider::adapters::arrays::dataset::ArrayDataset;
use crate::provider::adapters::arrays::wide::wide_tables;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::scan::grid::table::GridTable;
use crate::provider::source::container::{Container, ContainerSummary, TableEntry, TableRole};
use crate::provider::source::{BlockSource, GridSource};

/// A file of arrays, of any format, as a container.
///
/// Each dataset is a table. Two or more datasets of a group that share their axes also form a wide
/// table.
#[derive(Debug)]
pub struct ArrayContainer {
    file: Arc<dyn ArrayFile>,
    location: String,
    options: ArrayOptions,
    /// The tables, opened on first use. Opening one dataset by its name does not need the others.
    tables: OnceLock<Tables>,
}

/// The tables of a file.
#[derive(Debug)]
struct Tables {
    /// The datasets in file order, then the wide tables.
    entries: Vec<TableEntry>,
    sources: Vec<Arc<dyn BlockSource>>,
    /// The index into `sources` of each name.
    by_name: HashMap<String, usize>,
    /// The warnings of the file, then those about ignored metadata and datasets that are left out.
    warnings: Vec<String>,
}

impl ArrayContainer {
    /// Creates the container of an open file.
    pub fn new(file: Arc<dyn ArrayFile>, options: &ArrayOptions) -> Self {
        Self {
            location: file.path().display().to_string(),
            file,
            options: options.clone(),
            tables: OnceLock::new(),
        }
    }

    pub(super) fn shared(file: Arc<dyn ArrayFile>, options: &ArrayOptions) -> Arc<dyn Container> {
        Arc::new(Self::new(file, options))
    }

    /// The file.
    pub fn file(&self) -> &Arc<dyn ArrayFile> {
        &self.file
    }

    fn opened(&self) -> &Tables {
        let open = || Tables::new(&self.file, &self.options);
        self.tables.get_or_init(open)
    }
}

impl Container for ArrayContainer {
    fn format(&self) -> &'static str {
        self.file.format()
    }

    fn location(&self) -> &str {
        &self.location
    }

    fn path(&self) -> Option<&Path> {
        #[cfg(feature = "remote")]
        if self.file.is_remote() {
            return None;
        }
        Some(self.file.path())
    }

    fn tables(&self) -> &[TableEntry] {
        &self.opened().entries
    }

    fn table(&self, name: &str) -> Result<Option<Arc<dyn BlockSource>>, Error> {
        if let Some(tables) = self.tables.get()
            && let Some(number) = tables.by_name.get(name)
        {
            return Ok(Some(Arc::clone(&tables.sources[*number])));
        }
        if self.file.dataset(name).is_some() && !self.options.auxiliary_coordinates {
            let dataset = ArrayDataset::try_new(&self.file, name, &self.options)?;
            return Ok(Some(Arc::new(GridTable::new(Arc::new(dataset)))));
        }
        let tables = self.opened();
        let number = tables.by_name.get(name);
        Ok(number.map(|number| Arc::clone(&tables.sources[*number])))
    }

    fn warnings(&self) -> &[String] {
        &self.opened().warnings
    }

    fn attributes(&self) -> Vec<(String, String)> {
        let about = self.file.file_metadata().into_iter().flat_map(|about| {
            let attributes = [
                ("tool", &about.tool),
                ("library_version", &about.library_version),
                ("created_at", &about.created_at),
            ];
            let attributes = attributes.into_iter();
            attributes.filter_map(|(key, value)| Some((key.to_string(), value.clone()?)))
        });
        let own = self.file.group_attributes("").into_iter().flatten();
        let own = own.map(|(key, value)| (key.clone(), value.clone()));
        about.chain(own).collect()
    }

    fn summary(&self) -> ContainerSummary {
        ContainerSummary {
            version: self.file.layout_version(),
            generation: self.file.generation(),
            datasets: Some(self.file.datasets().len() as u64),
            chunks: self.file.listed_chunks(),
            has_statistics: self.file.has_chunk_statistics(),
            written_by: self.file.file_metadata().cloned().unwrap_or_default(),
        }
    }

    fn history(&self) -> &[HistoryRow] {
        self.file.history()
    }

    fn memory_budget(&self) -> MemoryBudget {
        self.file.memory_budget()
    }
}

impl Tables {
    /// Opens the tables of a file. Only the first of several datasets with the same name is a
    /// table. Datasets that cannot be read are left out, with a warning.
    fn new(file: &Arc<dyn ArrayFile>, options: &ArrayOptions) -> Self {
        let mut warnings = file.warnings().to_vec();
        let mut shared = CoordinateDatasets::default();
        let mut datasets = Vec::new();
        let mut names = HashSet::new();
        for dataset in file.datasets() {
            let name = dataset.name();
            if !names.insert(name.to_string()) {
                continue;
            }
            match ArrayDataset::try_new_shared(file, name, options, &mut shared) {
                Ok(dataset) => {
                    warnings.extend_from_slice(dataset.warnings());
                    datasets.push(Arc::new(dataset));
                }
                // The file has already given a warning for this record.
                Err(_) if dataset.check(file.path()).is_err() => {}
                Err(error) => warnings.push(format!("{error}; the dataset {name:?} is left out")),
            }
        }
        let wide = wide_tables(&datasets, |name| names.contains(name));
        let mut auxiliary = options
            .auxiliary_coordinates
            .then(|| AuxiliaryCoordinates::new(&datasets, &mut shared));
        let mut extended =
            |grid: Arc<dyn GridSource>, of: &[Arc<ArrayDataset>]| match &mut auxiliary {
                Some(auxiliary) => auxiliary.added_to(grid, of),
                None => grid,
            };
        let coordinates = coordinate_variables(file.as_ref(), &datasets);
        let mut tables = Self {
            entries: Vec::new(),
            sources: Vec::new(),
            by_name: HashMap::new(),
            warnings,
        };
        for dataset in &datasets {
            let role = match coordinates.contains(dataset.name()) {
                true => TableRole::Coordinates,
                false => TableRole::Data,
            };
            let grid = Arc::clone(dataset) as _;
            tables.push(role, extended(grid, std::slice::from_ref(dataset)));
        }
        for (table, members) in wide {
            tables.push(TableRole::Wide, extended(Arc::new(table), &members));
        }
        tables
    }

    fn push(&mut self, role: TableRole, grid: Arc<dyn GridSource>) {
        let name = grid.name().to_string();
        self.by_name.insert(name.clone(), self.sources.len());
        self.entries.push(TableEntry { name, role });
        self.sources.push(Arc::new(GridTable::new(grid)));
    }
}

/// Returns the names of the datasets that describe others: they hold the coordinates of their own
/// dimension or of another dataset, or an attribute of another dataset names them.
fn coordinate_variables(file: &dyn ArrayFile, datasets: &[Arc<ArrayDataset>]) -> HashSet<String> {
    let mut names = HashSet::new();
    for dataset in datasets {
        if dataset.is_coordinate_variable() {
            names.insert(dataset.name().to_string());
        }
        for axis in dataset.axes() {
            if let CoordinateSource::Dataset(name) | CoordinateSource::CoordinatesAttribute(name) =
                axis.source()
            {
                names.insert(name.clone());
            }
        }
        let Some(metadata) = file.metadata(dataset.dataset()) else {
            continue;
        };
        let own = file.link_target(dataset.dataset());
        let name = own.map_or(dataset.name(), Dataset::name);
        let paths = named_datasets(name, |key| metadata.attrs.get(key).map(String::as_str));
        names.extend(paths.filter(|path| path != dataset.name() && file.dataset(path).is_some()));
    }
    names
}
