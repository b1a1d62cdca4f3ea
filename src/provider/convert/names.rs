//! The names of dimensions and of coordinates in the output of a conversion.

use crate::format::array::{ArrayFile, Dataset, DatasetMetadata};
use crate::provider::adapters::arrays::{COORDINATES, RepeatedNames, base, group};

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
    names: &mut Vec<String>,
    repeated: &mut RepeatedNames,
) -> Option<String> {
    let stored = std::mem::replace(names, repeated.numbered(file, dataset, names)?);
    Some(format!(
        "{}, dataset {:?}: dim_names is {stored:?}, expected distinct names; they become {names:?}",
        file.path().display(),
        dataset.name()
    ))
}
