//! Least and greatest values of axes and of arrays.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::{SortOptions, sort_to_indices};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};

use crate::grid::{Axis, IndexSet, coordinate_values};

/// The least and greatest coordinate of each of some parts of an axis.
#[derive(Debug, Clone)]
pub(super) struct AxisBounds {
    pub least: ArrayRef,
    pub greatest: ArrayRef,
}

impl AxisBounds {
    /// The bounds of each of these parts. `None` if one is empty or has a coordinate that is not a number.
    pub fn new(axis: &Axis, parts: impl Iterator<Item = IndexSet>) -> Result<Option<Self>> {
        let (mut least, mut greatest) = (Vec::new(), Vec::new());
        for part in parts {
            let Some(extremes) = axis.extreme_positions(&part)? else {
                return Ok(None);
            };
            least.push(extremes.0);
            greatest.push(extremes.1);
        }
        let (least, greatest) = (axis.coordinates_at(least)?, axis.coordinates_at(greatest)?);
        Ok(least
            .zip(greatest)
            .map(|(least, greatest)| Self { least, greatest }))
    }
}

/// The least (or the greatest) of some values that is not null; null if there is none.
pub(super) fn fold(values: &ArrayRef, greatest: bool) -> Result<ScalarValue> {
    let options = SortOptions {
        descending: greatest,
        nulls_first: false,
    };
    let first = sort_to_indices(values, Some(options), Some(1))?;
    match first.values().first() {
        Some(position) => ScalarValue::try_from_array(values, *position as usize),
        None => ScalarValue::try_from(values.data_type()),
    }
}

/// Which of the coordinates are among some values of the same type.
pub(super) fn in_set(coordinates: &ArrayRef, values: &ArrayRef) -> Result<BooleanArray> {
    let converter = RowConverter::new(vec![SortField::new(coordinates.data_type().clone())])?;
    // Coordinates know no negative zero, and the engine takes both zeros for equal.
    let values = converter.convert_columns(&[coordinate_values(values)])?;
    let values: HashSet<_> = values.iter().collect();
    let coordinates = converter.convert_columns(std::slice::from_ref(coordinates))?;
    let is_among = coordinates.iter().map(|row| Some(values.contains(&row)));
    Ok(is_among.collect())
}

/// The least and the greatest coordinate of the positions in `set`; `None` if it is empty.
pub(crate) fn axis_range(
    axis: &Axis,
    set: &IndexSet,
) -> Result<Option<(ScalarValue, ScalarValue)>> {
    let Some(extremes) = axis.extremes(set)? else {
        return Ok(None);
    };
    Ok(Some((
        ScalarValue::try_from_array(&extremes, 0)?,
        ScalarValue::try_from_array(&extremes, 1)?,
    )))
}
