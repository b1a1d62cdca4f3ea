//! The names of dimensions and of coordinates in the output of a conversion.

use std::collections::HashSet;

use crate::format::array::{ArrayFile, Dataset, DatasetMetadata};
use crate::provider::adapters::arrays::{COORDINATES, base, group};

/// Adds datasets to the attribute `coordinates` of a dataset, unless it names them. The attributes of other
/// datasets name them, which may not be in the output.
pub(super) fn name_coordinates(
    coordinates: &[String],
    dataset: &Dataset,
    metadata: &mut DatasetMetadata,
) {
    for path in coordinates {
        let name = base(path);
        let is_around = group(dataset.name()).starts_with(group(path));
        let named = metadata.attrs.entry(COORDINATES.to_string()).or_default();
        if named.split_whitespace().all(|one| base(one) != name) {
            let slash = if is_around { "" } else { "/" };
            let name = if is_around { name } else { path };
            *named = format!("{named} {slash}{name}").trim_start().to_string();
        }
    }
}

/// Appends numbers to repeated names of a dataset's dimensions, which the output cannot have. Returns a warning
/// if there are any.
pub(super) fn rename_repeated(
    file: &dyn ArrayFile,
    dataset: &Dataset,
    names: &mut [String],
) -> Option<String> {
    let stored = names.to_vec();
    let is_repeated = |axis: &usize| stored[..*axis].contains(&stored[*axis]);
    let repeated: Vec<usize> = (0..names.len()).filter(is_repeated).collect();
    if repeated.is_empty() {
        return None;
    }
    let datasets = file.datasets().iter();
    let dimensions = datasets
        .clone()
        .filter_map(|dataset| file.metadata(dataset));
    let mut taken: HashSet<String> = dimensions
        .flat_map(|metadata| metadata.dim_names.iter().cloned())
        .chain(datasets.map(|dataset| base(dataset.name()).to_string()))
        .collect();
    for axis in repeated {
        let mut numbered = (2u64..).map(|number| format!("{}_{number}", stored[axis]));
        if let Some(name) = numbered.find(|name| taken.insert(name.clone())) {
            names[axis] = name;
        }
    }
    Some(format!(
        "{}, dataset {:?}: dim_names is {stored:?}, expected distinct names; they become {names:?}",
        file.path().display(),
        dataset.name()
    ))
}
