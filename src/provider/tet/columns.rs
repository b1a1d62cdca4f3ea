//! The columns of a dataset's table: names of the dimensions and of the value column, and the coordinates along each
//! axis.

use std::collections::HashSet;

use arrow::array::ArrayRef;

use crate::error::{Error, Place};
use crate::format::tet::{Dataset, DatasetMetadata, LabelRule, TetFile};
use crate::grid::{Axis, CoordinateSource, infer_labels, text_labels};

/// Bytes of the longest label, by the reference's limits. A label stands in every row, so that a longer one would cost
/// far more than it takes in the file.
const MAX_LABEL: usize = 1024;
/// The usual name of the value column.
const VALUE: &str = "value";

/// The axes of a dataset, named by the footer's `dim_names`, else `dim_0`, `dim_1`, ...
///
/// Footer labels become the coordinates of the axis they are bound to. Axes without any count from zero. Names and labels
/// that do not fit the shape are left unused, with a warning: the cells are none the worse for them.
pub(super) fn axes(
    file: &TetFile,
    dataset: &Dataset,
    metadata: &DatasetMetadata,
    keep_text: bool,
    warnings: &mut Vec<String>,
) -> Vec<Axis> {
    let mut warn = |field, found: String, expected: String, instead: &str| {
        let place = Place::dataset(file.path(), dataset.name());
        let error = Error::malformed(place, field, found, expected);
        warnings.push(format!("{error}; {instead}"));
    };
    let rank = dataset.shape().len();
    let stored = &metadata.dim_names;
    let mut names: Vec<_> = (0..rank).map(|axis| format!("dim_{axis}")).collect();
    if are_distinct(stored) && stored.len() == rank {
        names.clone_from(stored);
    } else if !stored.is_empty() {
        warn(
            "dim_names",
            format!("{stored:?}"),
            format!("{rank} different names, one per dimension"),
            "they are left unused",
        );
    }
    // Names that are left unused bind no labels either.
    let without_names;
    let metadata = if stored.is_empty() || names == *stored {
        metadata
    } else {
        without_names = DatasetMetadata {
            dim_names: Vec::new(),
            ..metadata.clone()
        };
        &without_names
    };
    let mut axes = Vec::with_capacity(rank);
    for (number, (name, extent)) in names.into_iter().zip(dataset.shape()).enumerate() {
        let axis = match metadata.labels(number, dataset.shape()) {
            Some((labels, _)) if labels.iter().any(|label| label.len() > MAX_LABEL) => {
                warn(
                    "coords",
                    format!("a label above {MAX_LABEL} bytes on dimension \"{name}\""),
                    "the format's limit".to_string(),
                    "the labels are left unused",
                );
                Axis::counted(name, *extent)
            }
            Some((labels, rule)) if labels.len() as u64 == *extent => {
                let values: ArrayRef = if keep_text {
                    text_labels(labels)
                } else {
                    infer_labels(labels)
                };
                let source = match rule {
                    LabelRule::Name => CoordinateSource::LabelsByName,
                    LabelRule::Number => CoordinateSource::LabelsByNumber,
                    LabelRule::Length => CoordinateSource::LabelsByLength,
                };
                Axis::with_values(name, values, source)
            }
            Some((labels, _)) => {
                warn(
                    "coords",
                    format!("{} labels on dimension \"{name}\"", labels.len()),
                    format!("{extent}, its extent"),
                    "they are left unused",
                );
                Axis::counted(name, *extent)
            }
            None => Axis::counted(name, *extent),
        };
        axes.push(axis);
    }
    axes
}

fn are_distinct(names: &[String]) -> bool {
    let mut seen = HashSet::new();
    names
        .iter()
        .all(|name| !name.is_empty() && seen.insert(name.as_str()))
}

/// The name of the value column: `value`; the dataset's name if a dimension is called so; with underscores behind
/// if another is called that, too.
pub(super) fn value_name(dataset: &Dataset, axes: &[Axis]) -> String {
    let taken = |name: &str| axes.iter().any(|axis| axis.name() == name);
    if !taken(VALUE) {
        return VALUE.to_string();
    }
    let mut name = dataset.name().to_string();
    while taken(&name) {
        name.push('_');
    }
    name
}
