//! One axis of a grid.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, UInt64Array, make_comparator};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::grid::coordinates::Coordinates;
use crate::grid::index_set::IndexSet;

/// Which rule an axis's coordinates come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoordinateSource {
    /// No rule applied: positions count from zero.
    Index,
    /// Labels bound by the dimension's name.
    LabelsByName,
    /// Labels bound by the axis's number.
    LabelsByNumber,
    /// Labels bound because no others have the axis's length.
    LabelsByLength,
}

impl fmt::Display for CoordinateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Index => "index",
            Self::LabelsByName => "labels",
            Self::LabelsByNumber => "labels, bound by axis number",
            Self::LabelsByLength => "labels, bound by length",
        })
    }
}

/// How the coordinates along an axis change from one position to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monotonicity {
    /// Every coordinate is greater than the one before.
    Ascending,
    /// Every coordinate is less than the one before.
    Descending,
    /// Neither: there are repeats or changes of direction.
    None,
}

/// One axis: a name, a length, and a coordinate per position. Coordinates may repeat and need not be sorted.
#[derive(Debug, Clone)]
pub struct Axis {
    name: String,
    length: u64,
    coordinates: Coordinates,
    source: CoordinateSource,
    monotonicity: Arc<OnceLock<Monotonicity>>,
}

impl Axis {
    /// An axis whose coordinates count from zero.
    pub fn counted(name: impl Into<String>, length: u64) -> Self {
        Self::with_coordinates(name, length, Coordinates::COUNT, CoordinateSource::Index)
    }

    /// An axis with a coordinate array, which must have `length` values and no null.
    pub fn with_values(
        name: impl Into<String>,
        values: ArrayRef,
        source: CoordinateSource,
    ) -> Self {
        let length = values.len() as u64;
        Self::with_coordinates(name, length, Coordinates::Values(values), source)
    }

    fn with_coordinates(
        name: impl Into<String>,
        length: u64,
        coordinates: Coordinates,
        source: CoordinateSource,
    ) -> Self {
        Self {
            name: name.into(),
            length,
            coordinates,
            source,
            monotonicity: Arc::default(),
        }
    }

    /// The dimension's name, which is its column's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Positions along the axis.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The coordinates.
    pub fn coordinates(&self) -> &Coordinates {
        &self.coordinates
    }

    /// Where the coordinates come from.
    pub fn source(&self) -> CoordinateSource {
        self.source
    }

    /// The Arrow type of the coordinates.
    pub fn data_type(&self) -> DataType {
        self.coordinates.data_type()
    }

    /// Whether the coordinates are strictly monotonic over the whole axis. Found out once.
    pub fn monotonicity(&self) -> Monotonicity {
        *self.monotonicity.get_or_init(|| match &self.coordinates {
            Coordinates::Index { .. } => Monotonicity::Ascending,
            Coordinates::Values(values) => monotonicity(values).unwrap_or(Monotonicity::None),
        })
    }

    /// The least and the greatest coordinate of the positions in `set`, as an array of two; `None` if the set is
    /// empty.
    pub fn extremes(&self, set: &IndexSet) -> Result<Option<ArrayRef>, ArrowError> {
        let (Some(first), Some(last)) = (set.first(), set.last()) else {
            return Ok(None);
        };
        let (least, greatest) = match (&self.coordinates, self.monotonicity()) {
            (_, Monotonicity::Ascending) => (first, last),
            (_, Monotonicity::Descending) => (last, first),
            (Coordinates::Index { .. }, Monotonicity::None) => (first, last),
            (Coordinates::Values(values), Monotonicity::None) => {
                let compare = make_comparator(values, values, SortOptions::default())?;
                let mut extremes = (first, first);
                for position in set.ranges().flatten() {
                    if compare(position as usize, extremes.0 as usize) == Ordering::Less {
                        extremes.0 = position;
                    }
                    if compare(position as usize, extremes.1 as usize) == Ordering::Greater {
                        extremes.1 = position;
                    }
                }
                extremes
            }
        };
        let extremes = match &self.coordinates {
            Coordinates::Index { .. } => {
                let one = |position: u64| self.coordinates.slice(position..position + 1);
                arrow::compute::concat(&[&one(least), &one(greatest)])?
            }
            Coordinates::Values(values) => {
                take(values, &UInt64Array::from(vec![least, greatest]), None)?
            }
        };
        Ok(Some(extremes))
    }
}

fn monotonicity(values: &ArrayRef) -> Result<Monotonicity, ArrowError> {
    let compare = make_comparator(values, values, SortOptions::default())?;
    let always = |ordering| (1..values.len()).all(|next| compare(next - 1, next) == ordering);
    Ok(if always(Ordering::Less) {
        Monotonicity::Ascending
    } else if always(Ordering::Greater) {
        Monotonicity::Descending
    } else {
        Monotonicity::None
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Float64Array};
    use arrow::datatypes::{Float64Type, Int64Type};

    use super::*;

    fn axis(values: &[f64]) -> Axis {
        Axis::with_values(
            "x",
            Arc::new(Float64Array::from(values.to_vec())),
            CoordinateSource::LabelsByName,
        )
    }

    #[test]
    fn monotonicity_is_strict() {
        assert_eq!(axis(&[1., 2., 3.]).monotonicity(), Monotonicity::Ascending);
        assert_eq!(axis(&[3., 2., 1.]).monotonicity(), Monotonicity::Descending);
        assert_eq!(axis(&[1., 1., 2.]).monotonicity(), Monotonicity::None);
        assert_eq!(axis(&[1., 3., 2.]).monotonicity(), Monotonicity::None);
    }

    #[test]
    fn extremes_of_a_set() {
        let set = IndexSet::from_ranges(4, [1..4]);
        for values in [[9., 1., 2., 3.], [0., 3., 2., 1.], [0., 2., 3., 1.]] {
            let extremes = axis(&values).extremes(&set).unwrap().unwrap();
            assert_eq!(extremes.as_primitive::<Float64Type>().values(), &[1., 3.]);
        }
        assert!(
            axis(&[1.; 4])
                .extremes(&IndexSet::none(4))
                .unwrap()
                .is_none()
        );
        let counted = Axis::counted("x", 1 << 40);
        let extremes = counted.extremes(&IndexSet::all(1 << 40)).unwrap().unwrap();
        assert_eq!(
            extremes.as_primitive::<Int64Type>().values(),
            &[0, (1 << 40) - 1]
        );
    }
}
