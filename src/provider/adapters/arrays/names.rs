//! Names of datasets and of dimensions.

use std::collections::HashSet;

use crate::format::array::{ArrayFile, DatasetMetadata};

/// The group of a dataset, with a trailing slash; empty for the root group.
pub(in crate::provider) fn group(name: &str) -> &str {
    name.rfind('/').map_or("", |slash| &name[..=slash])
}

/// The group of a dataset and the groups around it, each with a trailing slash, the innermost first. The
/// root group is empty.
pub(super) fn enclosing(name: &str) -> impl Iterator<Item = &str> {
    let inner = group(name);
    std::iter::successors(Some(inner), |inside| {
        let inside = inside.strip_suffix('/')?;
        Some(group(inside))
    })
}

/// A dataset's name within its group.
pub(in crate::provider) fn base(name: &str) -> &str {
    &name[group(name).len()..]
}

/// Returns the names of the dimensions of a dataset with numbers after those that occurred before: `k` and `k_2`
/// for a dimension `k` that the dataset has twice. `None` if no name occurs twice.
///
/// No new name is that of another dimension or dataset of the file.
pub(in crate::provider) fn numbered(file: &dyn ArrayFile, names: &[String]) -> Option<Vec<String>> {
    let is_repeated = |axis: &usize| names[..*axis].contains(&names[*axis]);
    let repeated: Vec<usize> = (0..names.len()).filter(is_repeated).collect();
    if repeated.is_empty() {
        return None;
    }
    let datasets = file.datasets().iter();
    let dimensions = datasets
        .clone()
        .filter_map(|dataset| file.metadata(dataset));
    let dimensions = dimensions.flat_map(|DatasetMetadata { dim_names, .. }| dim_names);
    let mut taken: HashSet<&str> = dimensions
        .map(String::as_str)
        .chain(datasets.map(|dataset| base(dataset.name())))
        .collect();
    taken.extend(names.iter().map(String::as_str));
    let mut distinct = names.to_vec();
    for axis in repeated {
        let is_taken = |name: &String| taken.contains(name.as_str()) || distinct.contains(name);
        let mut numbered = (2u64..).map(|number| format!("{}_{number}", names[axis]));
        if let Some(name) = numbered.find(|name| !is_taken(name)) {
            distinct[axis] = name;
        }
    }
    Some(distinct)
}
