//! Coordinates that the input gives as a scale and a translation, which outputs cannot hold.

use std::sync::Arc;

use datafusion::common::Result;

use crate::format::array::{ArrayFile, Dataset, Limits};
use crate::grid::CoordinateSource;
use crate::provider::adapters::arrays::{ArrayDataset, base};
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::copy::{CoordinateDataset, FinishedAxis};
use crate::provider::source::GridSource;

/// Returns `true` if metadata gives coordinates of a dataset as a scale and a translation.
fn has_spacing(file: &dyn ArrayFile, dataset: &Dataset) -> bool {
    let mut axes = file.described_axes(dataset).iter();
    axes.any(|axis| axis.spacing.is_some())
}

/// Returns the computed coordinates of a dataset as arrays, without those that would have the name of the
/// dataset.
pub(super) fn spaced_coordinates(
    file: &Arc<dyn ArrayFile>,
    dataset: &Dataset,
    options: &ArrayOptions,
    limits: &Limits,
) -> Result<Vec<CoordinateDataset>> {
    if !has_spacing(file.as_ref(), dataset) {
        return Ok(Vec::new());
    }
    let opened = ArrayDataset::try_new(file, dataset.name(), options)?;
    let spaced = opened.axes().iter().filter(|axis| {
        *axis.source() == CoordinateSource::ScaleAndTranslation
            && axis.name() != base(dataset.name())
            && axis.length() > 0
    });
    let arrays = spaced.map(|axis| {
        let attributes = axis.attributes();
        let finished = FinishedAxis {
            name: axis.name().to_string(),
            coordinates: axis.coordinates()?.slice(0..axis.length()),
            positions: Vec::new(),
            attributes: attributes
                .map(|(key, text)| (key.clone(), text.clone()))
                .collect(),
        };
        CoordinateDataset::of(&finished, limits)
    });
    arrays.collect()
}

/// Returns the warning for computed coordinates that the output does not have, if a dataset has any.
pub(super) fn lost_coordinates(file: &dyn ArrayFile, dataset: &Dataset) -> Option<String> {
    has_spacing(file, dataset).then(|| {
        format!(
            "{}, dataset {:?}: its coordinates are left out, because those of several resolutions would have \
             the same names; convert one dataset (FILE#DATASET) to keep them",
            file.path().display(),
            dataset.name()
        )
    })
}
