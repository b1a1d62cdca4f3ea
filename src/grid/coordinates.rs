//! The coordinates along one axis.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::error::Error;

/// The coordinates along one axis, one per index.
#[derive(Debug, Clone)]
pub enum Coordinates {
    /// Consecutive integers from an origin. They are never materialized, because an axis without
    /// stored coordinates may be very long.
    Index {
        /// The coordinate of index 0.
        origin: i64,
    },
    /// One value per index, none of them null.
    Values(ArrayRef),
}

impl Coordinates {
    /// Coordinates that count from zero.
    pub const FROM_ZERO: Self = Self::Index { origin: 0 };

    /// Returns the Arrow type of the coordinates.
    pub fn data_type(&self) -> DataType {
        match self {
            Self::Index { .. } => DataType::Int64,
            Self::Values(values) => values.data_type().clone(),
        }
    }

    /// Returns the coordinates at these indices.
    pub fn at(&self, positions: impl Iterator<Item = u64>) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Index { origin } => Ok(Arc::new(Int64Array::from_iter_values(
                positions.map(|position| origin.wrapping_add(position as i64)),
            ))),
            Self::Values(values) => take(values, &UInt64Array::from_iter_values(positions), None),
        }
    }

    /// Returns the coordinates of a range of indices.
    pub fn slice(&self, range: Range<u64>) -> ArrayRef {
        match self {
            Self::Index { origin } => Arc::new(Int64Array::from_iter_values(
                range.map(|position| origin.wrapping_add(position as i64)),
            )),
            // Lossless casts: the range lies within an array in memory.
            Self::Values(values) => {
                values.slice(range.start as usize, (range.end - range.start) as usize)
            }
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
