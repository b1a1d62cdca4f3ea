//! Orders of the indices along an axis.

use std::ops::Range;
use std::sync::Arc;

use arrow::compute::{SortOptions, sort_to_indices};
use arrow::datatypes::DataType;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::grid::axis::{Axis, AxisCoordinates, Monotonicity};
use crate::grid::coordinates::Coordinates;
use crate::grid::index_set::IndexSet;
use crate::grid::steps::Steps;

/// An order of the indices along an axis.
///
/// ```text
/// index        0    1    2    3
/// coordinate   30   50   40   20
///
/// Listed([1, 2, 0, 3])   50   40   30   20
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum IndexOrder {
    /// The order in which the indices are stored.
    Stored,
    /// From the last index to the first.
    Reversed,
    /// These indices, each once.
    Listed(Vec<u32>),
}

impl IndexOrder {
    /// Returns the order in which the coordinates of an axis are sorted; `None` if coordinates repeat,
    /// are NaN or negative zero, are half-precision numbers, or cannot be listed.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn sorting(axis: &Axis, descending: bool) -> Result<Option<Self>, Error> {
        // Both zeros are one number, but differ in order.
        if axis.data_type() == DataType::Float16
            || (axis.data_type().is_floating() && !axis.has_unique_coordinates()?)
        {
            return Ok(None);
        }
        Ok(match (axis.monotonicity()?, descending) {
            (Monotonicity::Ascending, false) | (Monotonicity::Descending, true) => {
                Some(Self::Stored)
            }
            (Monotonicity::Ascending, true) | (Monotonicity::Descending, false) => {
                Some(Self::Reversed)
            }
            (Monotonicity::None, _) => {
                let Coordinates::Values(values) = axis.coordinates()? else {
                    return Ok(None);
                };
                if !axis.has_unique_coordinates()? {
                    return Ok(None);
                }
                let options = SortOptions {
                    descending,
                    nulls_first: false,
                };
                let indices = sort_to_indices(values, Some(options), None);
                indices
                    .ok()
                    .map(|indices| Self::Listed(indices.values().to_vec()))
            }
        })
    }

    /// Returns `true` if this is an order of the indices along an axis of this length.
    pub fn fits(&self, length: u64) -> bool {
        let Self::Listed(indices) = self else {
            return true;
        };
        let mut is_listed = vec![false; indices.len()];
        let mut is_new = |index: &u32| {
            let listed = is_listed.get_mut(*index as usize);
            listed.is_some_and(|listed| !std::mem::replace(listed, true))
        };
        indices.len() as u64 == length && indices.iter().all(&mut is_new)
    }

    /// Returns the index with this rank in the order, along an axis of this length.
    pub fn index(&self, rank: u64, length: u64) -> u64 {
        match self {
            Self::Stored => rank,
            Self::Reversed => length - 1 - rank,
            Self::Listed(indices) => indices[rank as usize].into(),
        }
    }

    /// Returns the indices whose ranks in the order are in a set.
    pub fn stored(&self, ranks: &IndexSet) -> IndexSet {
        let length = ranks.length();
        match self {
            Self::Stored => ranks.clone(),
            Self::Reversed => {
                let ranges = ranks.ranges().rev();
                let ranges = ranges.map(|range| length - range.end..length - range.start);
                IndexSet::from_ranges(length, ranges)
            }
            Self::Listed(indices) => {
                let ranks = ranks.ranges().flatten();
                let mut indices: Vec<_> = ranks
                    .map(|rank| u64::from(indices[rank as usize]))
                    .collect();
                indices.sort_unstable();
                IndexSet::from_ranges(length, indices.into_iter().map(|index| index..index + 1))
            }
        }
    }

    /// Returns the indices with these ranks in the order, along an axis of this length.
    pub fn indices(&self, ranks: Range<u64>, length: u64) -> IndexSet {
        match self {
            Self::Listed(_) if ranks == (0..length) => IndexSet::all(length),
            _ => self.stored(&IndexSet::from_ranges(length, [ranks])),
        }
    }

    /// Returns an axis with its coordinates in this order.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn apply(&self, axis: &Axis) -> Result<Axis, Error> {
        let length = axis.length();
        let coordinates = match (self, axis.coordinates()?) {
            (Self::Stored, _) => return Ok(axis.clone()),
            (Self::Reversed, Coordinates::Steps(steps)) => {
                let last = steps.start() + steps.step() * i128::from(length.saturating_sub(1));
                let reversed =
                    Steps::try_new(steps.data_type().clone(), last, -steps.step(), length);
                reversed.ok().map(Coordinates::Steps)
            }
            (_, coordinates) => {
                let indices = (0..length).map(|rank| self.index(rank, length));
                coordinates.at(indices).ok().map(Coordinates::Values)
            }
        };
        // Unreachable: the coordinates are those of the axis, and fit into their type.
        let coordinates = coordinates.unwrap_or_else(|| Coordinates::Steps(Steps::counted(length)));
        Ok(Axis {
            coordinates: Arc::new(AxisCoordinates::new(coordinates)),
            ..axis.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::grid::CoordinateSource;

    fn axis(values: ArrayRef) -> Axis {
        Axis::with_values("x", values, CoordinateSource::Index)
    }

    fn numbers(axis: &Axis) -> Vec<i64> {
        let all = axis.coordinates().unwrap().slice(0..axis.length());
        all.as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn coordinates_are_sorted_by_their_order() {
        let axes = [
            Axis::counted("x", 5),
            axis(Arc::new(Int64Array::from(vec![50, 40, 30]))),
            axis(Arc::new(Int64Array::from(vec![3, 9, -1, 4, 7]))),
            Axis::counted("x", 0),
            Axis::counted("x", 1),
        ];
        for axis in &axes {
            for descending in [false, true] {
                let order = IndexOrder::sorting(axis, descending).unwrap().unwrap();
                assert!(order.fits(axis.length()));
                let sorted = order.apply(axis).unwrap();
                assert_eq!(sorted.length(), axis.length());
                let mut expected = numbers(axis);
                expected.sort_unstable();
                if descending {
                    expected.reverse();
                }
                assert_eq!(numbers(&sorted), expected);
                let all = order.indices(0..axis.length(), axis.length());
                assert!(all.is_all());
                for rank in 0..axis.length() {
                    let index = order.index(rank, axis.length());
                    assert_eq!(numbers(axis)[index as usize], expected[rank as usize]);
                    let one = order.indices(rank..rank + 1, axis.length());
                    assert_eq!(one.as_range(), Some(index..index + 1));
                }
            }
        }
        let order = IndexOrder::sorting(&axes[2], false).unwrap().unwrap();
        let some: Vec<_> = order.indices(1..3, 5).ranges().collect();
        assert_eq!(some, [0..1, 3..4]);
    }

    #[test]
    fn repeated_coordinates_have_no_order() {
        let repeated = axis(Arc::new(StringArray::from(vec!["b", "a", "b"])));
        assert_eq!(IndexOrder::sorting(&repeated, false).unwrap(), None);
        for listed in [vec![0, 0], vec![0, 2], vec![0]] {
            assert!(!IndexOrder::Listed(listed).fits(2));
        }
        assert!(IndexOrder::Listed(vec![1, 0]).fits(2));
    }
}
