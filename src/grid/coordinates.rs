//! The coordinates along one axis.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::error::Error;
use crate::grid::steps::Steps;

/// The coordinates along one axis, one per index.
#[derive(Debug, Clone)]
pub enum Coordinates {
    /// Evenly spaced coordinates. They are never materialized as a whole, because an axis without
    /// stored coordinates may be very long.
    Steps(Steps),
    /// One value per index, none of them null.
    Values(ArrayRef),
}

impl Coordinates {
    /// Returns the Arrow type of the coordinates.
    pub fn data_type(&self) -> &DataType {
        match self {
            Self::Steps(steps) => steps.data_type(),
            Self::Values(values) => values.data_type(),
        }
    }

    /// Returns the coordinates at these indices.
    pub fn at(&self, positions: impl Iterator<Item = u64>) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Steps(steps) => Ok(steps.at(positions)),
            Self::Values(values) => take(values, &UInt64Array::from_iter_values(positions), None),
        }
    }

    /// Returns the coordinates of a range of indices.
    pub fn slice(&self, range: Range<u64>) -> ArrayRef {
        match self {
            Self::Steps(steps) => steps.at(range),
            // Lossless casts: the range lies within an array in memory.
            Self::Values(values) => {
                values.slice(range.start as usize, (range.end - range.start) as usize)
            }
        }
    }

    /// Returns `true` if both have the same coordinate at every index. Evenly spaced coordinates
    /// and coordinates in memory are not compared: they count as different.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Steps(one), Self::Steps(other)) => one == other,
            (Self::Values(one), Self::Values(other)) => Arc::ptr_eq(one, other) || one == other,
            _ => false,
        }
    }
}

/// Reads the coordinates of an axis when they are first needed.
pub trait CoordinateReader: Debug + Send + Sync {
    /// Returns the Arrow type of the coordinates without reading them.
    fn data_type(&self) -> DataType;

    /// Reads the coordinates, none of which may be null.
    ///
    /// # Errors
    /// Fails if the coordinates cannot be read or are not valid along an axis.
    fn read(&self) -> Result<ArrayRef, Error>;
}
