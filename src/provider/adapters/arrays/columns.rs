//! The columns of a dataset's table: names of the dimensions and of the value column, and the coordinates along each
//! axis.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::error::{Error, Place, Result};
use crate::format::array::{ArrayFile, Dataset, DatasetMetadata, LabelRule};
use crate::grid::{Axis, CoordinateSource, infer_labels, text_labels};
use crate::provider::adapters::arrays::coordinates::{self, CoordinateDatasets};
use crate::provider::catalog::settings::options::TetOptions;
use crate::provider::source::VALUE;

/// Bytes of the longest label, by the reference's limits. A label stands in every row, so that a longer one would cost
/// far more than it takes in the file.
const MAX_LABEL: usize = 1024;

/// The axes of a dataset, and whether it names its dimensions itself or by option.
#[derive(Debug, Clone)]
pub(super) struct Axes {
    pub axes: Vec<Axis>,
    pub are_named: bool,
}

/// The axes of a dataset, named by the footer's `dim_names`, else by the option `dims` if it has as many, else `dim_0`,
/// `dim_1`, ...
///
/// Footer labels become the coordinates of the axis they are bound to; axes without any take those of a coordinate
/// dataset, and else count from zero. Names and labels that do not fit the shape are left unused, with a warning: the cells
/// are none the worse for them.
///
/// Labels that are plain numbers give way to a coordinate dataset of times: they are its numbers, written down.
pub(super) fn axes(
    file: &Arc<dyn ArrayFile>,
    dataset: &Dataset,
    metadata: &DatasetMetadata,
    options: &TetOptions,
    shared: &mut CoordinateDatasets,
    warnings: &mut Vec<String>,
) -> Result<Axes> {
    let mut warn = |field, found: String, expected: String, instead: &str| {
        let place = Place::dataset(file.path(), dataset.name());
        let error = Error::malformed(place, field, found, expected);
        warnings.push(format!("{error}; {instead}"));
    };
    let rank = dataset.shape().len();
    let fit = |names: &[String]| names.len() == rank && are_distinct(names);
    let stored = &metadata.dim_names;
    let given = options.dims.as_ref().filter(|names| fit(names));
    // One per dimension, or none.
    let names: &[String] = if fit(stored) {
        stored
    } else {
        if !stored.is_empty() {
            warn(
                "dim_names",
                format!("{stored:?}"),
                format!("{rank} different names, one per dimension"),
                "they are left unused",
            );
        }
        given.map_or(&[], Vec::as_slice)
    };
    let mut axes = Vec::with_capacity(rank);
    let mut of_coordinates = Vec::new();
    for (number, extent) in dataset.shape().iter().enumerate() {
        let name = match names.get(number) {
            Some(name) => name.clone(),
            None => format!("dim_{number}"),
        };
        let found = if options.decode_coords {
            coordinates::find(file.as_ref(), dataset, names, number, shared)
        } else {
            None
        };
        let labels = match metadata.labels(names, number, dataset.shape()) {
            Some((labels, _)) if labels.iter().any(|label| label.len() > MAX_LABEL) => {
                warn(
                    "coords",
                    format!("a label above {MAX_LABEL} bytes on dimension \"{name}\""),
                    "the format's limit".to_string(),
                    "the labels are left unused",
                );
                None
            }
            Some((labels, _)) if labels.len() as u64 != *extent => {
                warn(
                    "coords",
                    format!("{} labels on dimension \"{name}\"", labels.len()),
                    format!("{extent}, its extent"),
                    "they are left unused",
                );
                None
            }
            fitting => fitting,
        };
        if let Some((labels, rule)) = labels {
            let values: ArrayRef = if options.text_labels {
                text_labels(labels)
            } else {
                infer_labels(labels)
            };
            let is_time = |(found, _): &(&Dataset, _)| coordinates::is_time(file.as_ref(), found);
            let gives_way = values.data_type().is_numeric()
                && options.decode_times
                && found.as_ref().is_some_and(is_time);
            if !gives_way {
                let source = match rule {
                    LabelRule::Name => CoordinateSource::LabelsByName,
                    LabelRule::Number => CoordinateSource::LabelsByNumber,
                    LabelRule::Length => CoordinateSource::LabelsByLength,
                };
                axes.push(Axis::with_values(name, values, source));
                continue;
            }
        }
        axes.push(match found {
            Some((found, source)) => {
                let values = shared.of(file, found, options, &mut of_coordinates)?;
                let attributes = coordinates::attributes(file.as_ref(), found, &values);
                Axis::with_coordinates(name, *extent, values, source).with_attributes(attributes)
            }
            None => Axis::counted(name, *extent),
        });
    }
    warnings.append(&mut of_coordinates);
    Ok(Axes {
        axes,
        are_named: names.len() == rank,
    })
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
