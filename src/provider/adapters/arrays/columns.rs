//! The columns of a dataset's table: the names of the dimensions and of the value column, and the
//! coordinates of each axis.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{ArrayFile, Dataset, DatasetMetadata, LabelRule};
use crate::grid::{Axis, CoordinateSource, infer_labels, text_labels};
use crate::provider::adapters::arrays::coordinates::{self, CoordinateDatasets};
use crate::provider::adapters::arrays::spacing::{MAX_LENGTH, spaced_axis};
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::source::VALUE;

/// The maximum number of bytes of a label, as in the reference implementation. A label is repeated
/// in every row, so a longer one would cost far more than its size in the file.
const MAX_LABEL: usize = 1024;

/// The axes of a dataset. `are_named` is `true` if the file or an option names the dimensions.
#[derive(Debug, Clone)]
pub(super) struct Axes {
    pub axes: Vec<Axis>,
    pub are_named: bool,
}

/// Returns the axes of a dataset, named by the footer's `dim_names`, else by the option `dims` if
/// it has one name per dimension, else `dim_0`, `dim_1`, ... Stored names that repeat are numbered.
///
/// The coordinates of an axis are those that metadata gives as a scale and a translation, else the
/// footer labels bound to the axis, else the values of a coordinate dataset, else the indices from
/// zero. Names and labels that do not fit the shape are ignored with a warning, since the cells are
/// still readable.
///
/// Numeric labels give way to a coordinate dataset of times, since they are its undecoded numbers
/// as text.
pub(super) fn axes(
    file: &Arc<dyn ArrayFile>,
    dataset: &Dataset,
    metadata: &DatasetMetadata,
    options: &ArrayOptions,
    shared: &mut CoordinateDatasets,
    warnings: &mut Vec<String>,
) -> Result<Axes> {
    let mut warn = |field, found: String, expected: String, instead: &str| {
        let location = ErrorLocation::dataset(file.path(), dataset.name());
        let error = Error::malformed(location, field, found, expected);
        warnings.push(format!("{error}; {instead}"));
    };
    let rank = dataset.shape().len();
    let fit = |names: &[String]| names.len() == rank && are_distinct(names);
    let stored = &metadata.dim_names;
    let given = options.dims.as_ref().filter(|names| fit(names));
    // One name per dimension, or none at all.
    let mut names = stored.clone();
    if !fit(stored) {
        let numbered = || {
            shared
                .repeated_names
                .numbered(file.as_ref(), dataset, stored)
        };
        names = given.cloned().or_else(numbered).unwrap_or_default();
        let instead = match names.as_slice() {
            [] => "they are ignored".to_string(),
            names => format!("they become {names:?}"),
        };
        if !stored.is_empty() {
            warn(
                "dim_names",
                format!("{stored:?}"),
                format!("{rank} distinct names, one per dimension"),
                &instead,
            );
        }
    }
    // All axes of a repeated dimension have its coordinates.
    let dimensions = match given {
        None if !names.is_empty() => stored,
        _ => &names,
    };
    let mut axes = Vec::with_capacity(rank);
    let mut of_coordinates = Vec::new();
    for (number, extent) in dataset.shape().iter().enumerate() {
        let name = match names.get(number) {
            Some(name) => name.clone(),
            None => format!("dim_{number}"),
        };
        let described = file.described_axes(dataset).get(number);
        let described = described.filter(|_| options.decode_coords);
        if let Some((axis, spacing)) = described.and_then(|axis| Some((axis, axis.spacing?))) {
            if *extent <= MAX_LENGTH {
                let spaced = spaced_axis(name, *extent, spacing);
                axes.push(spaced.with_attributes(axis.attrs.clone()));
                continue;
            }
            warn(
                "extent",
                format!("{extent} along dimension \"{name}\", which has a scale"),
                format!("at most {MAX_LENGTH}"),
                "the indices take the place of the coordinates",
            );
        }
        let found = if options.decode_coords {
            let given = options.dims.as_deref();
            coordinates::find(file.as_ref(), dataset, dimensions, number, given, shared)
        } else {
            None
        };
        let labels = match metadata.labels(dimensions, number, dataset.shape()) {
            Some((labels, _)) if labels.iter().any(|label| label.len() > MAX_LABEL) => {
                warn(
                    "coords",
                    format!("a label of more than {MAX_LABEL} bytes on dimension \"{name}\""),
                    "labels within this limit".to_string(),
                    "the labels are ignored",
                );
                None
            }
            Some((labels, _)) if labels.len() as u64 != *extent => {
                warn(
                    "coords",
                    format!("{} labels on dimension \"{name}\"", labels.len()),
                    format!("{extent}, its extent"),
                    "they are ignored",
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
                let is_attribute = matches!(source, CoordinateSource::CoordinatesAttribute(_));
                let axis = Axis::with_coordinates(name, *extent, values, source);
                match usable(&axis, is_attribute, file.as_ref()) {
                    Ok(()) => axis.with_attributes(attributes),
                    Err(error) => {
                        if shared.unusable.insert(found.id()) {
                            of_coordinates.push(format!("{error}; the indices take their place"));
                        }
                        Axis::counted(axis.name(), *extent)
                    }
                }
            }
            None => {
                let attributes = described.map(|axis| axis.attrs.clone());
                Axis::counted(name, *extent).with_attributes(attributes.unwrap_or_default())
            }
        });
    }
    warnings.append(&mut of_coordinates);
    Ok(Axes {
        axes,
        are_named: names.len() == rank,
    })
}

/// Checks that coordinates which only an attribute names have no nulls, as those of profiles may. Other
/// tables should not fail for that. Files in an object store are not read for it.
fn usable(axis: &Axis, is_attribute: bool, file: &dyn ArrayFile) -> Result<()> {
    #[cfg(feature = "remote")]
    let is_attribute = is_attribute && !file.is_remote();
    #[cfg(not(feature = "remote"))]
    let _ = file;
    if is_attribute {
        axis.coordinates()?;
    }
    Ok(())
}

fn are_distinct(names: &[String]) -> bool {
    let mut seen = HashSet::new();
    names
        .iter()
        .all(|name| !name.is_empty() && seen.insert(name.as_str()))
}

/// Returns the name of the value column: `value`, or the dataset's name if a dimension is called
/// `value`. Underscores are appended while another dimension has the same name.
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
