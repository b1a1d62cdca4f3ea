//! The tables of a file: its datasets, then the wide tables over them.

use std::collections::HashSet;
use std::sync::Arc;

use crate::format::array::ArrayFile;
use crate::grid::CoordinateSource;
use crate::provider::adapters::arrays::coordinates::CoordinateDatasets;
use crate::provider::adapters::arrays::dataset::ArrayDataset;
use crate::provider::adapters::arrays::wide::wide_tables;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::GridSource;

/// The tables of a file.
#[derive(Debug)]
pub struct FileTables {
    /// Each table with its name: the datasets in file order, then the wide tables.
    pub tables: Vec<(String, Arc<dyn GridSource>)>,
    /// The datasets that hold the coordinates of their own dimension or of another dataset.
    pub coordinate_variables: HashSet<String>,
    /// Problems found: metadata that is ignored, and datasets that are left out.
    pub warnings: Vec<String>,
}

impl FileTables {
    /// Collects the tables of a file. Only the first of several datasets with the same name is a
    /// table. Datasets that cannot be read are left out, with a warning.
    pub fn new(file: &Arc<dyn ArrayFile>, options: &ArrayOptions) -> Self {
        let mut warnings = Vec::new();
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
        let coordinate_variables = coordinate_variables(&datasets);
        let datasets = datasets.into_iter().map(|dataset| {
            let name = dataset.name().to_string();
            (name, dataset as Arc<dyn GridSource>)
        });
        let wide = wide.into_iter().map(|table| {
            let name = table.name().to_string();
            (name, Arc::new(table) as Arc<dyn GridSource>)
        });
        Self {
            tables: datasets.chain(wide).collect(),
            coordinate_variables,
            warnings,
        }
    }
}

fn coordinate_variables(datasets: &[Arc<ArrayDataset>]) -> HashSet<String> {
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
    }
    names
}
