//! Min and max coordinates of axes, and searches for values among coordinates.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::Float64Type;
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion_functions_aggregate_common::min_max::{max_batch, min_batch};

use crate::grid::{Axis, Coordinates, IndexSet, coordinate_values};
use crate::provider::planning::value_set::stored_number;

/// The min and max coordinate of each of several index sets of an axis.
#[derive(Debug, Clone)]
pub(crate) struct AxisBounds {
    pub min: ArrayRef,
    pub max: ArrayRef,
}

impl AxisBounds {
    /// Computes the bounds of each index set. `None` if a set is empty or has a NaN coordinate.
    pub fn new(axis: &Axis, parts: impl Iterator<Item = IndexSet>) -> Result<Option<Self>> {
        let (mut min, mut max) = (Vec::new(), Vec::new());
        for part in parts {
            let Some(extremes) = axis.extreme_positions(&part)? else {
                return Ok(None);
            };
            min.push(extremes.0);
            max.push(extremes.1);
        }
        let (min, max) = (axis.coordinates_at(min)?, axis.coordinates_at(max)?);
        Ok(min.zip(max).map(|(min, max)| Self { min, max }))
    }
}

/// Returns the max of the values that are not null if `max`, else the min. Null if there is no
/// such value.
pub(crate) fn fold(values: &ArrayRef, max: bool) -> Result<ScalarValue> {
    match max {
        true => max_batch(values),
        false => min_batch(values),
    }
}

/// Searches the coordinates of an axis for a set of values.
pub(crate) enum AxisSearch {
    /// The indices of evenly spaced coordinates that are among the values, ascending.
    Steps(Vec<u64>),
    /// Coordinates in memory are compared with each value.
    Values {
        converter: RowConverter,
        values: HashSet<OwnedRow>,
        /// `true` if one of the values is zero. Zeros of both signs are equal in some of
        /// DataFusion's comparisons and different in others.
        has_zero: bool,
    },
}

impl AxisSearch {
    /// Prepares a search for these values; `None` if they do not have the type of the coordinates.
    pub fn new(axis: &Axis, values: &ArrayRef) -> Result<Option<Self>> {
        if *values.data_type() != axis.data_type() {
            return Ok(None);
        }
        if let Coordinates::Steps(steps) = axis.coordinates()? {
            let mut indices = Vec::with_capacity(values.len());
            for number in 0..values.len() {
                let value = ScalarValue::try_from_array(values, number)?;
                indices.extend(stored_number(&value).and_then(|number| steps.index_of(number)));
            }
            indices.sort_unstable();
            indices.dedup();
            return Ok(Some(Self::Steps(indices)));
        }
        let converter = RowConverter::new(vec![SortField::new(axis.data_type())])?;
        // Coordinates have no negative zero.
        let values = coordinate_values(values);
        let has_zero = values
            .as_primitive_opt::<Float64Type>()
            .is_some_and(|values| values.values().contains(&0.0));
        let rows = converter.convert_columns(&[values])?;
        Ok(Some(Self::Values {
            values: rows.iter().map(|row| row.owned()).collect(),
            converter,
            has_zero,
        }))
    }

    /// Returns `Some(false)` if no coordinate of these indices is among the values, `Some(true)` if
    /// all are and no value is zero, and `None` otherwise.
    pub fn contained(&self, axis: &Axis, part: &IndexSet) -> Result<Option<bool>> {
        let mut found = 0;
        let mut is_certain = true;
        for range in part.ranges() {
            found += match self {
                Self::Steps(indices) => {
                    let before = |end| indices.partition_point(|index| *index < end);
                    before(range.end) - before(range.start)
                }
                Self::Values {
                    converter,
                    values,
                    has_zero,
                } => {
                    is_certain = !has_zero;
                    let coordinates = axis.coordinates()?.slice(range);
                    let rows = converter.convert_columns(&[coordinates])?;
                    let found = rows.iter().filter(|row| values.contains(&row.owned()));
                    found.count()
                }
            } as u64;
        }
        Ok(match found {
            0 => Some(false),
            all if all == part.count() && is_certain => Some(true),
            _ => None,
        })
    }
}

/// The min and max coordinate of the indices in `set`; `None` if the set is empty or has a NaN
/// coordinate.
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
