//! Names of datasets and of dimensions.

use std::collections::HashSet;

use crate::format::array::{ArrayFile, Dataset};

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

/// Returns the name of the dimension of one-dimensional coordinates: their own name if the file gives none.
pub(super) fn dimension<'a>(file: &'a dyn ArrayFile, coordinates: &'a Dataset) -> &'a str {
    let metadata = file.metadata(coordinates);
    let own = metadata.and_then(|metadata| metadata.dim_names.first());
    own.map_or(base(coordinates.name()), String::as_str)
}

/// Numbers names of dimensions that a dataset has several times.
#[derive(Debug, Default)]
pub(in crate::provider) struct RepeatedNames {
    /// The names of all dimensions and datasets of the file.
    taken: Option<HashSet<String>>,
}

impl RepeatedNames {
    /// Returns the names of the dimensions of a dataset with numbers after those that occurred before: `k` and
    /// `k_2` for a dimension `k` that the dataset has twice. `None` if no name occurs twice, or not every
    /// dimension has a name.
    ///
    /// No new name is that of another dimension or dataset of the file.
    pub fn numbered(
        &mut self,
        file: &dyn ArrayFile,
        dataset: &Dataset,
        names: &[String],
    ) -> Option<Vec<String>> {
        let are_complete = names.len() == dataset.shape().len() && !names.contains(&String::new());
        let is_repeated = |axis: &usize| names[..*axis].contains(&names[*axis]);
        let mut repeated = (0..names.len()).filter(is_repeated).peekable();
        if !are_complete || repeated.peek().is_none() {
            return None;
        }
        let taken = self.taken.get_or_insert_with(|| all_names(file));
        let mut distinct = names.to_vec();
        for axis in repeated {
            let is_taken = |name: &String| taken.contains(name) || distinct.contains(name);
            let mut numbered = (2u64..).map(|number| format!("{}_{number}", names[axis]));
            if let Some(name) = numbered.find(|name| !is_taken(name)) {
                distinct[axis] = name;
            }
        }
        Some(distinct)
    }
}

fn all_names(file: &dyn ArrayFile) -> HashSet<String> {
    let datasets = file.datasets().iter();
    let metadata = datasets
        .clone()
        .filter_map(|dataset| file.metadata(dataset));
    metadata
        .flat_map(|metadata| metadata.dim_names.iter().cloned())
        .chain(datasets.map(|dataset| base(dataset.name()).to_string()))
        .collect()
}
