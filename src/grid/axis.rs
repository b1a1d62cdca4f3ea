//! One axis of a grid.

mod index_order;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, AsArray, make_comparator, new_empty_array};
use arrow::compute::{SortOptions, sort};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;

use crate::error::Error;
use crate::grid::coordinates::{CoordinateReader, Coordinates};
use crate::grid::index_set::IndexSet;
use crate::grid::steps::Steps;

pub use index_order::IndexOrder;

/// The rule that determined the coordinates of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoordinateSource {
    /// No rule applied: the coordinates count from zero.
    Index,
    /// Labels bound by the name of the dimension.
    LabelsByName,
    /// Labels bound by the number of the axis.
    LabelsByNumber,
    /// Labels bound by length: no other labels are as long as the axis.
    LabelsByLength,
    /// The array is the coordinate variable of its dimension, so its own values are the
    /// coordinates.
    OwnValues,
    /// The one-dimensional dataset with the name and length of the dimension in the same group.
    Dataset(String),
    /// A one-dimensional dataset named by the CF attribute `coordinates`.
    CoordinatesAttribute(String),
    /// The indices times a scale, plus a translation, both from the metadata of the file.
    ScaleAndTranslation,
}

impl fmt::Display for CoordinateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index => f.write_str("index"),
            Self::LabelsByName => f.write_str("labels"),
            Self::LabelsByNumber => f.write_str("labels, bound by axis number"),
            Self::LabelsByLength => f.write_str("labels, bound by length"),
            Self::OwnValues => f.write_str("own values"),
            Self::Dataset(name) => write!(f, "dataset {name}"),
            Self::CoordinatesAttribute(name) => {
                write!(f, "dataset {name}, by attribute coordinates")
            }
            Self::ScaleAndTranslation => f.write_str("scale and translation"),
        }
    }
}

/// The order of the coordinates along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monotonicity {
    /// Every coordinate is greater than the previous one.
    Ascending,
    /// Every coordinate is less than the previous one.
    Descending,
    /// Neither: coordinates repeat or change direction.
    None,
}

/// One axis: a name, a length, and a coordinate per index. Coordinates may repeat and need not be
/// sorted.
#[derive(Debug, Clone)]
pub struct Axis {
    name: String,
    length: u64,
    coordinates: Arc<AxisCoordinates>,
    source: CoordinateSource,
    attributes: Option<Arc<BTreeMap<String, String>>>,
}

/// The coordinates of an axis, read when they are first needed. The axes of several arrays can
/// share them.
#[derive(Debug)]
pub struct AxisCoordinates {
    data_type: DataType,
    reader: Option<Box<dyn CoordinateReader>>,
    values: OnceLock<Coordinates>,
    monotonicity: OnceLock<Monotonicity>,
    are_unique: OnceLock<bool>,
}

impl AxisCoordinates {
    /// Returns coordinates that are in memory.
    pub fn new(coordinates: Coordinates) -> Self {
        Self {
            data_type: coordinates.data_type().clone(),
            reader: None,
            values: OnceLock::from(coordinates),
            monotonicity: OnceLock::new(),
            are_unique: OnceLock::new(),
        }
    }

    /// Returns coordinates that `reader` reads when they are first needed.
    pub fn deferred(reader: impl CoordinateReader + 'static) -> Self {
        Self {
            data_type: reader.data_type(),
            reader: Some(Box::new(reader)),
            values: OnceLock::new(),
            monotonicity: OnceLock::new(),
            are_unique: OnceLock::new(),
        }
    }

    /// Returns the Arrow type of the coordinates without reading them.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn get(&self) -> Result<&Coordinates, Error> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        // Errors are not cached: the file may be readable next time.
        let values = match &self.reader {
            Some(reader) => Coordinates::Values(reader.read()?),
            // Unreachable: without a reader, the values are set on construction.
            None => Coordinates::Values(new_empty_array(&self.data_type)),
        };
        Ok(self.values.get_or_init(|| values))
    }
}

impl Axis {
    /// Returns an axis whose coordinates count from zero.
    pub fn counted(name: impl Into<String>, length: u64) -> Self {
        Self::stepped(name, Steps::counted(length))
    }

    /// Returns an axis with evenly spaced coordinates.
    pub fn stepped(name: impl Into<String>, steps: Steps) -> Self {
        let length = steps.length();
        let coordinates = Arc::new(AxisCoordinates::new(Coordinates::Steps(steps)));
        Self::with_coordinates(name, length, coordinates, CoordinateSource::Index)
    }

    /// Returns an axis with an array of coordinates, none of which may be null.
    pub fn with_values(
        name: impl Into<String>,
        values: ArrayRef,
        source: CoordinateSource,
    ) -> Self {
        let length = values.len() as u64;
        let coordinates = Arc::new(AxisCoordinates::new(Coordinates::Values(values)));
        Self::with_coordinates(name, length, coordinates, source)
    }

    /// Returns an axis with shared coordinates, of which there must be `length`.
    pub fn with_coordinates(
        name: impl Into<String>,
        length: u64,
        coordinates: Arc<AxisCoordinates>,
        source: CoordinateSource,
    ) -> Self {
        Self {
            name: name.into(),
            length,
            coordinates,
            source,
            attributes: None,
        }
    }

    /// Sets the attributes of the coordinates, such as `units` and `long_name`.
    pub fn with_attributes(mut self, attributes: BTreeMap<String, String>) -> Self {
        self.attributes = (!attributes.is_empty()).then(|| Arc::new(attributes));
        self
    }

    /// Returns the attributes of the coordinates by name.
    pub fn attributes(&self) -> impl Iterator<Item = (&String, &String)> {
        self.attributes
            .iter()
            .flat_map(|attributes| attributes.iter())
    }

    /// Returns the name of the dimension, which is also the name of its column.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of indices along the axis.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the coordinates, and reads them on first use.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn coordinates(&self) -> Result<&Coordinates, Error> {
        self.coordinates.get()
    }

    /// Returns `true` if the coordinates are in memory.
    pub fn is_loaded(&self) -> bool {
        self.coordinates.values.get().is_some()
    }

    /// Returns the rule that determined the coordinates.
    pub fn source(&self) -> &CoordinateSource {
        &self.source
    }

    /// Returns the Arrow type of the coordinates without reading them.
    pub fn data_type(&self) -> DataType {
        self.coordinates.data_type.clone()
    }

    /// Returns `true` if both axes have the same name, length and coordinates. Reads nothing:
    /// coordinates that are not in memory yet are the same only if the axes share them.
    pub fn is_same(&self, other: &Self) -> bool {
        let same_values = || match (
            self.coordinates.values.get(),
            other.coordinates.values.get(),
        ) {
            (Some(left), Some(right)) => left.is_same(right),
            _ => false,
        };
        self.name == other.name
            && self.length == other.length
            && (Arc::ptr_eq(&self.coordinates, &other.coordinates) || same_values())
    }

    /// Returns whether the coordinates of the whole axis are strictly ascending, strictly
    /// descending, or neither. Computed once and cached.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn monotonicity(&self) -> Result<Monotonicity, Error> {
        let coordinates = self.coordinates()?;
        Ok(*self
            .coordinates
            .monotonicity
            .get_or_init(|| match coordinates {
                Coordinates::Steps(steps) if steps.step() < 0 => Monotonicity::Descending,
                Coordinates::Steps(_) => Monotonicity::Ascending,
                Coordinates::Values(values) => monotonicity(values).unwrap_or(Monotonicity::None),
            }))
    }

    /// Returns `true` if both axes have the same coordinate at every index. Names are not compared.
    ///
    /// # Errors
    /// Fails if the coordinates of either axis cannot be read.
    pub fn has_same_coordinates(&self, other: &Self) -> Result<bool, Error> {
        if self.length != other.length || self.data_type() != other.data_type() {
            return Ok(false);
        }
        if Arc::ptr_eq(&self.coordinates, &other.coordinates) {
            return Ok(true);
        }
        Ok(self.coordinates()?.is_same(other.coordinates()?))
    }

    /// Returns `true` if all coordinates differ. Computed once and cached.
    ///
    /// Returns `false` if any coordinate is NaN or negative zero, because whether such values are
    /// equal depends on how they are compared.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn has_unique_coordinates(&self) -> Result<bool, Error> {
        let coordinates = self.coordinates()?;
        Ok(*self
            .coordinates
            .are_unique
            .get_or_init(|| match coordinates {
                Coordinates::Steps(_) => true,
                Coordinates::Values(values) => are_unique(values).unwrap_or(false),
            }))
    }

    /// Returns the indices of the min and the max coordinate among the indices in `set`, or `None`
    /// if the set is empty.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn extreme_positions(&self, set: &IndexSet) -> Result<Option<(u64, u64)>, Error> {
        let (Some(first), Some(last)) = (set.first(), set.last()) else {
            return Ok(None);
        };
        Ok(match (self.coordinates()?, self.monotonicity()?) {
            (_, Monotonicity::Ascending) => Some((first, last)),
            (_, Monotonicity::Descending) => Some((last, first)),
            // Unreachable: steps are monotonic.
            (Coordinates::Steps(_), Monotonicity::None) => None,
            // Comparing cannot fail for any type that a dimension column can have.
            (Coordinates::Values(values), Monotonicity::None) => {
                extreme_positions(values, set).ok()
            }
        })
    }

    /// Returns the coordinates at these indices, or `None` if one of them is NaN.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn coordinates_at(&self, positions: Vec<u64>) -> Result<Option<ArrayRef>, Error> {
        let coordinates = match self.coordinates()?.at(positions.into_iter()) {
            Ok(coordinates) => coordinates,
            // Unreachable: the indices are on the axis.
            Err(_) => return Ok(None),
        };
        Ok(Some(coordinates).filter(|coordinates| !has_nan(coordinates)))
    }

    /// Returns the min and max coordinate of the indices in `set` as an array of two, or `None` if
    /// the set is empty or holds the index of a NaN.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read.
    pub fn extremes(&self, set: &IndexSet) -> Result<Option<ArrayRef>, Error> {
        match self.extreme_positions(set)? {
            Some((min, max)) => self.coordinates_at(vec![min, max]),
            None => Ok(None),
        }
    }
}

/// Returns the indices of the min and max value in a set.
fn extreme_positions(values: &ArrayRef, set: &IndexSet) -> Result<(u64, u64), ArrowError> {
    let compare = make_comparator(values, values, SortOptions::default())?;
    let first = set.first().unwrap_or(0);
    let mut extremes = (first, first);
    for position in set.ranges().flatten() {
        if compare(position as usize, extremes.0 as usize) == Ordering::Less {
            extremes.0 = position;
        }
        if compare(position as usize, extremes.1 as usize) == Ordering::Greater {
            extremes.1 = position;
        }
    }
    Ok(extremes)
}

/// Returns `true` if any value is NaN. It is enough to test the min and max of a set, because
/// Arrow's total order sorts positive NaN above and negative NaN below all numbers.
fn has_nan(values: &ArrayRef) -> bool {
    let single = values.as_primitive_opt::<Float32Type>();
    let double = values.as_primitive_opt::<Float64Type>();
    single.is_some_and(|values| values.values().iter().any(|value| value.is_nan()))
        || double.is_some_and(|values| values.values().iter().any(|value| value.is_nan()))
}

fn are_unique(values: &ArrayRef) -> Result<bool, ArrowError> {
    let is_uncertain = |value: f64| value.is_nan() || (value == 0.0 && value.is_sign_negative());
    let single = values.as_primitive_opt::<Float32Type>();
    let double = values.as_primitive_opt::<Float64Type>();
    if single.is_some_and(|single| {
        single
            .values()
            .iter()
            .any(|one| is_uncertain((*one).into()))
    }) || double.is_some_and(|double| double.values().iter().any(|one| is_uncertain(*one)))
    {
        return Ok(false);
    }
    let sorted = sort(values, None)?;
    let compare = make_comparator(&sorted, &sorted, SortOptions::default())?;
    Ok((1..sorted.len()).all(|next| compare(next - 1, next) == Ordering::Less))
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
mod tests;
