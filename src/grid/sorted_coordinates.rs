//! Sorted coordinates, for searches by distance.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use arrow::error::ArrowError;

use crate::error::Error;
use crate::grid::{Axis, Coordinates, Steps};

const NANOSECONDS_PER_DAY: i128 = 86_400_000_000_000;
/// The maximum number of evenly spaced coordinates that are materialized to be sorted among others.
const MAX_MATERIALIZED: u64 = 16 << 20;

/// A coordinate with a measurable distance to others.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub enum CoordinateKey {
    /// A number other than NaN.
    Number(f64),
    /// Nanoseconds since 1970.
    Time(i128),
}

impl CoordinateKey {
    /// Returns the key of every number, date or timestamp in the array, with `None` for each null
    /// and NaN. Returns `None` for arrays of other types, whose values have no distance.
    ///
    /// # Errors
    /// Fails if Arrow cannot read the array.
    pub fn of(array: &dyn Array) -> Result<Option<Vec<Option<Self>>>, ArrowError> {
        let Some(factor) = nanoseconds(array.data_type()) else {
            if !array.data_type().is_numeric() {
                return Ok(None);
            }
            let numbers = cast(array, &DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            let keys = numbers.iter().map(|number| {
                let number = number.filter(|number| !number.is_nan());
                number.map(Self::Number)
            });
            return Ok(Some(keys.collect()));
        };
        let counts = cast(array, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let keys = counts
            .iter()
            .map(|count| count.map(|count| Self::Time(i128::from(count) * factor)));
        Ok(Some(keys.collect()))
    }

    fn compare(&self, other: &Self) -> Ordering {
        // Always `Some`: the keys of an axis are of one variant, and none is NaN.
        self.partial_cmp(other).unwrap_or(Ordering::Equal)
    }

    /// Returns `true` if this key is strictly nearer to `low` than to `high`.
    fn is_nearer_to(&self, low: Self, high: Self) -> bool {
        match (low, *self, high) {
            (Self::Number(low), Self::Number(target), Self::Number(high)) => {
                target - low < high - target
            }
            (Self::Time(low), Self::Time(target), Self::Time(high)) => target - low < high - target,
            _ => false,
        }
    }
}

/// Returns the unit of a date or timestamp type; `None` for other types.
fn nanoseconds(data_type: &DataType) -> Option<i128> {
    Some(match data_type {
        DataType::Date32 => NANOSECONDS_PER_DAY,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        _ => return None,
    })
}

/// The distinct coordinates of an axis in ascending order.
#[derive(Debug)]
pub struct SortedCoordinates {
    length: u64,
    coordinates: Coordinates,
    /// The key of each coordinate. Empty for [`Coordinates::Steps`], whose keys are computed.
    keys: Vec<CoordinateKey>,
}

impl SortedCoordinates {
    /// Sorts the coordinates of one axis, or of the axes of one dimension in several files. Returns
    /// `None` if the coordinates have no distance to each other, as text has none.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn try_new(axes: &[&Axis]) -> Result<Option<Self>, Error> {
        // Axes of several files often count from the same start and differ in length.
        let mut longest: Option<&Steps> = None;
        let mut has_others = axes.is_empty();
        let mut steps_count = 0u64;
        for axis in axes {
            let Coordinates::Steps(steps) = axis.coordinates()? else {
                has_others = true;
                continue;
            };
            steps_count = steps_count.saturating_add(steps.length());
            let shape = |steps: &Steps| (steps.data_type().clone(), steps.start(), steps.step());
            match longest {
                Some(other) if shape(steps) != shape(other) => has_others = true,
                Some(other) if steps.length() <= other.length() => {}
                _ => longest = Some(steps),
            }
        }
        if let Some(steps) = longest.filter(|_| !has_others) {
            return Ok(Some(Self {
                length: steps.length(),
                coordinates: Coordinates::Steps(steps.ascending()),
                keys: Vec::new(),
            }));
        }
        if steps_count > MAX_MATERIALIZED {
            return Ok(None);
        }
        let mut arrays = Vec::with_capacity(axes.len());
        for axis in axes {
            arrays.push(axis.coordinates()?.slice(0..axis.length()));
        }
        // Coordinates whose types differ between files have no common order.
        Ok(Self::sort(&arrays).ok().flatten())
    }

    fn sort(arrays: &[ArrayRef]) -> Result<Option<Self>, ArrowError> {
        let arrays: Vec<&dyn Array> = arrays.iter().map(Arc::as_ref).collect();
        let values = concat(&arrays)?;
        let Some(keys) = CoordinateKey::of(values.as_ref())? else {
            return Ok(None);
        };
        let mut sorted: Vec<(CoordinateKey, u64)> = keys
            .into_iter()
            .zip(0..)
            .filter_map(|(key, index)| Some((key?, index)))
            .collect();
        sorted.sort_unstable_by(|(one, _), (other, _)| one.compare(other));
        sorted.dedup_by(|(one, _), (other, _)| one == other);
        let indices = UInt64Array::from_iter_values(sorted.iter().map(|(_, index)| *index));
        Ok(Some(Self {
            length: sorted.len() as u64,
            coordinates: Coordinates::Values(take(&values, &indices, None)?),
            keys: sorted.into_iter().map(|(key, _)| key).collect(),
        }))
    }

    /// Returns the distinct coordinates of an axis with these coordinates.
    ///
    /// # Errors
    /// Fails if the coordinates have no distance to each other.
    #[cfg(feature = "proto")]
    pub(crate) fn of(coordinates: Coordinates) -> Result<Self, ArrowError> {
        let sorted = match coordinates {
            Coordinates::Steps(steps) => Some(Self {
                length: steps.length(),
                coordinates: Coordinates::Steps(steps.ascending()),
                keys: Vec::new(),
            }),
            Coordinates::Values(values) => Self::sort(&[values])?,
        };
        sorted.ok_or_else(|| {
            ArrowError::InvalidArgumentError("coordinates without distances".to_string())
        })
    }

    /// Returns the coordinates in ascending order.
    #[cfg(feature = "proto")]
    pub(crate) fn coordinates(&self) -> &Coordinates {
        &self.coordinates
    }

    /// Returns the Arrow type of the coordinates.
    pub fn data_type(&self) -> DataType {
        self.coordinates.data_type().clone()
    }

    /// Returns the number of distinct coordinates.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Gathers the coordinates at these indices of the ascending order.
    ///
    /// # Errors
    /// Fails if Arrow cannot gather the coordinates.
    pub fn take(&self, indices: &UInt64Array) -> Result<ArrayRef, ArrowError> {
        match &self.coordinates {
            Coordinates::Values(values) => take(values, indices, None),
            Coordinates::Steps(steps) => Ok(steps.at(indices.values().iter().copied())),
        }
    }

    fn key(&self, index: u64) -> CoordinateKey {
        match &self.coordinates {
            Coordinates::Steps(steps) => match nanoseconds(steps.data_type()) {
                Some(factor) => CoordinateKey::Time(steps.coordinate(index) * factor),
                None => CoordinateKey::Number(steps.coordinate(index) as f64),
            },
            // There is a key for every value in memory.
            Coordinates::Values(_) => self.keys[index as usize],
        }
    }

    /// Returns the indices of the largest coordinate at or below `target` and of the smallest one
    /// at or above it.
    pub fn neighbours(&self, target: CoordinateKey) -> (Option<u64>, Option<u64>) {
        // Invariant: coordinates before `low` are below the target, those from `high` on are not.
        let (mut low, mut high) = (0, self.length);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle).compare(&target) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (Some(middle), Some(middle)),
                Ordering::Greater => high = middle,
            }
        }
        (low.checked_sub(1), (low < self.length).then_some(low))
    }

    /// Returns the index of the coordinate nearest to `target`, or `None` if there are no
    /// coordinates. A tie goes to the larger coordinate, as in xarray and pandas.
    pub fn nearest(&self, target: CoordinateKey) -> Option<u64> {
        match self.neighbours(target) {
            (Some(low), Some(high)) if target.is_nearer_to(self.key(low), self.key(high)) => {
                Some(low)
            }
            (low, high) => high.or(low),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, StringArray, TimestampMicrosecondArray};

    use super::*;
    use crate::grid::CoordinateSource;

    fn axis(values: ArrayRef) -> Axis {
        Axis::with_values("x", values, CoordinateSource::OwnValues)
    }

    fn sorted(axes: &[&Axis]) -> SortedCoordinates {
        SortedCoordinates::try_new(axes).unwrap().unwrap()
    }

    fn nearest(coordinates: &SortedCoordinates, target: f64) -> f64 {
        let index = coordinates.nearest(CoordinateKey::Number(target)).unwrap();
        let values = coordinates.take(&UInt64Array::from(vec![index])).unwrap();
        let values = cast(&values, &DataType::Float64).unwrap();
        values.as_primitive::<Float64Type>().value(0)
    }

    #[test]
    fn the_nearest_of_any_order() {
        let latitudes = axis(Arc::new(Float64Array::from(vec![
            60.0,
            50.0,
            f64::NAN,
            40.0,
            50.0,
        ])));
        let coordinates = sorted(&[&latitudes]);
        assert_eq!(coordinates.length(), 3);
        for (target, expected) in [
            (44.9, 40.0),
            (45.0, 50.0),
            (50.0, 50.0),
            (-1e9, 40.0),
            (f64::INFINITY, 60.0),
        ] {
            assert_eq!(nearest(&coordinates, target), expected, "{target}");
        }
        assert_eq!(
            coordinates.neighbours(CoordinateKey::Number(55.0)),
            (Some(1), Some(2))
        );
        assert_eq!(
            coordinates.neighbours(CoordinateKey::Number(61.0)),
            (Some(2), None)
        );
    }

    #[test]
    fn counted_axes_are_not_spelled_out() {
        let long = Axis::counted("i", 1 << 40);
        let coordinates = sorted(&[&long, &Axis::counted("i", 3)]);
        assert_eq!(nearest(&coordinates, 1e9 + 0.4), 1e9);
        assert_eq!(nearest(&coordinates, 1e15), ((1u64 << 40) - 1) as f64);
        assert_eq!(nearest(&coordinates, -7.0), 0.0);
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let descending = Steps::try_new(seconds, 0, -60, 1 << 40).unwrap();
        let coordinates = sorted(&[&Axis::stepped("t", descending)]);
        let index = coordinates.nearest(CoordinateKey::Time(-89_000_000_000));
        let index = UInt64Array::from(vec![index.unwrap()]);
        let found = coordinates.take(&index).unwrap();
        let found = cast(&found, &DataType::Int64).unwrap();
        assert_eq!(found.as_primitive::<Int64Type>().value(0), -60);
    }

    #[test]
    fn axes_of_several_files() {
        let one = axis(Arc::new(TimestampMicrosecondArray::from(vec![0, 10])));
        let other = axis(Arc::new(TimestampMicrosecondArray::from(vec![20, 30])));
        let coordinates = sorted(&[&other, &one]);
        assert_eq!(coordinates.nearest(CoordinateKey::Time(24_999)), Some(2));
        assert_eq!(coordinates.nearest(CoordinateKey::Time(25_000)), Some(3));
    }

    #[test]
    fn texts_have_no_distance() {
        let names = axis(Arc::new(StringArray::from(vec!["a"])));
        assert!(SortedCoordinates::try_new(&[&names]).unwrap().is_none());
        let empty = axis(Arc::new(Float64Array::from(Vec::<f64>::new())));
        assert_eq!(sorted(&[&empty]).nearest(CoordinateKey::Number(1.0)), None);
    }
}
