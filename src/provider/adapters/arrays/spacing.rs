//! Evenly spaced coordinates that metadata gives as numbers.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;

use crate::error::Result;
use crate::format::array::Spacing;
use crate::grid::{Axis, AxisCoordinates, CoordinateReader, CoordinateSource};

/// The maximum number of coordinates of an axis, which take 1 GiB.
pub(super) const MAX_LENGTH: u64 = 1 << 27;

/// Coordinates that are computed when a query first needs them.
#[derive(Debug)]
struct SpacedCoordinates {
    spacing: Spacing,
    length: u64,
}

impl CoordinateReader for SpacedCoordinates {
    fn data_type(&self) -> DataType {
        DataType::Float64
    }

    fn read(&self) -> Result<ArrayRef> {
        let coordinates = (0..self.length).map(|index| self.spacing.coordinate(index));
        Ok(Arc::new(Float64Array::from_iter_values(coordinates)))
    }
}

/// Returns an axis with evenly spaced coordinates, at most [`MAX_LENGTH`].
pub(super) fn spaced_axis(name: String, length: u64, spacing: Spacing) -> Axis {
    let coordinates = AxisCoordinates::deferred(SpacedCoordinates { spacing, length });
    let source = CoordinateSource::ScaleAndTranslation;
    Axis::with_coordinates(name, length, Arc::new(coordinates), source)
}
