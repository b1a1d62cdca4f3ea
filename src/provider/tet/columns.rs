//! The columns of a dataset's table: names of the dimensions and of the value column, and the coordinates along each
//! axis.

use std::collections::HashSet;

use arrow::array::ArrayRef;

use crate::error::{Error, Place, Result};
use crate::format::tet::{Dataset, DatasetMetadata, LabelRule, TetFile};
use crate::grid::{Axis, CoordinateSource, infer_labels, text_labels};

/// The usual name of the value column.
const VALUE: &str = "value";

/// The axes of a dataset, named by the footer's `dim_names`, else `dim_0`, `dim_1`, ...
///
/// Footer labels become the coordinates of the axis they are bound to. Axes without any count from zero.
///
/// # Errors
/// [`Error::Malformed`] if the dimension names or the labels bound to an axis do not fit the dataset's shape.
pub(super) fn axes(
    file: &TetFile,
    dataset: &Dataset,
    metadata: &DatasetMetadata,
    keep_text: bool,
) -> Result<Vec<Axis>> {
    let names = dimension_names(file, dataset, metadata)?;
    names
        .into_iter()
        .zip(dataset.shape())
        .enumerate()
        .map(|(number, (name, extent))| {
            let Some((labels, rule)) = metadata.labels(number, dataset.shape()) else {
                return Ok(Axis::counted(name, *extent));
            };
            if labels.len() as u64 != *extent {
                return Err(Error::malformed(
                    Place::dataset(file.path(), dataset.name()),
                    "coords",
                    format!("{} labels on dimension \"{name}\"", labels.len()),
                    format!("{extent}, its extent"),
                ));
            }
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
            Ok(Axis::with_values(name, values, source))
        })
        .collect()
}

fn dimension_names(
    file: &TetFile,
    dataset: &Dataset,
    metadata: &DatasetMetadata,
) -> Result<Vec<String>> {
    let rank = dataset.shape().len();
    let stored = &metadata.dim_names;
    if stored.is_empty() {
        return Ok((0..rank).map(|axis| format!("dim_{axis}")).collect());
    }
    let malformed = |found: String, expected: String| {
        Err(Error::malformed(
            Place::dataset(file.path(), dataset.name()),
            "dim_names",
            found,
            expected,
        ))
    };
    if stored.len() != rank {
        return malformed(
            format!("{stored:?}"),
            format!("{rank} names, one per dimension"),
        );
    }
    let mut seen = HashSet::new();
    if let Some(repeated) = stored.iter().find(|name| !seen.insert(name.as_str())) {
        return malformed(
            format!("{stored:?} with \"{repeated}\" twice"),
            "names that differ".to_string(),
        );
    }
    Ok(stored.clone())
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
