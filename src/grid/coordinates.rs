//! The coordinates along one axis.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::error::Error;

/// The coordinates along one axis, one per position.
#[derive(Debug, Clone)]
pub enum Coordinates {
    /// The position itself, counted from an origin. Never spelled out as a whole, since an axis without
    /// coordinates of its own may be very long.
    Index {
        /// The coordinate of the first position.
        origin: i64,
    },
    /// A value per position, none of them null.
    Values(ArrayRef),
}

impl Coordinates {
    /// Coordinates that count from zero.
    pub const COUNT: Self = Self::Index { origin: 0 };

    /// The Arrow type.
    pub fn data_type(&self) -> DataType {
        match self {
            Self::Index { .. } => DataType::Int64,
            Self::Values(values) => values.data_type().clone(),
        }
    }

    /// The coordinates of some positions.
    pub fn at(&self, positions: impl Iterator<Item = u64>) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Index { origin } => Ok(Arc::new(Int64Array::from_iter_values(
                positions.map(|position| origin.wrapping_add(position as i64)),
            ))),
            Self::Values(values) => take(values, &UInt64Array::from_iter_values(positions), None),
        }
    }

    /// The coordinates of a range of positions.
    pub fn slice(&self, range: Range<u64>) -> ArrayRef {
        match self {
            Self::Index { origin } => Arc::new(Int64Array::from_iter_values(
                range.map(|position| origin.wrapping_add(position as i64)),
            )),
            // The range lies on the axis, whose values are in memory.
            Self::Values(values) => {
                values.slice(range.start as usize, (range.end - range.start) as usize)
            }
        }
    }
}

/// Reads the coordinates of an axis when they are first needed.
pub trait CoordinateReader: Debug + Send + Sync {
    /// Their Arrow type, which is known without reading them.
    fn data_type(&self) -> DataType;

    /// The coordinates, none of them null.
    ///
    /// # Errors
    /// If they cannot be read, or are not what can stand along an axis.
    fn read(&self) -> Result<ArrayRef, Error>;
}
