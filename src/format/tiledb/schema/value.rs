//! Single values and intervals of them.

use std::cmp::Ordering;
use std::fmt;

use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{CellValues, Datatype, Representation};

/// One value, widened to the largest type of its representation without loss.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// Signed integers, dates and durations.
    Signed(i64),
    /// Unsigned integers, booleans and bytes without arithmetic.
    Unsigned(u64),
    /// Floating-point numbers.
    Float(f64),
    /// Texts and other values of variable length.
    Bytes(Vec<u8>),
}

impl Scalar {
    /// Returns the value of a datatype that starts at the first byte, or `None` if there are too few
    /// bytes.
    pub fn from_bytes(datatype: Datatype, bytes: &[u8]) -> Option<Self> {
        let size = datatype.size();
        let bytes = bytes.get(..size)?;
        let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let is_signed = datatype.representation() == Representation::Signed;
        let mut word = if is_signed && is_negative {
            [0xff; 8]
        } else {
            [0; 8]
        };
        word[..size].copy_from_slice(bytes);
        Some(match datatype.representation() {
            Representation::Signed => Self::Signed(i64::from_le_bytes(word)),
            Representation::Unsigned => Self::Unsigned(u64::from_le_bytes(word)),
            Representation::Float if size == 4 => {
                let [a, b, c, d, ..] = word;
                Self::Float(f64::from(f32::from_le_bytes([a, b, c, d])))
            }
            Representation::Float => Self::Float(f64::from_le_bytes(word)),
        })
    }

    /// Returns the value of a cell: its bytes if cells differ in length, otherwise its first value.
    pub(crate) fn from_cell(
        datatype: Datatype,
        cell_values: CellValues,
        bytes: &[u8],
    ) -> Option<Self> {
        match cell_values {
            CellValues::Fixed(_) => Self::from_bytes(datatype, bytes),
            CellValues::Variable => Some(Self::Bytes(bytes.to_vec())),
        }
    }

    /// Returns the bytes of the value in a datatype of its representation.
    pub(crate) fn to_bytes(&self, datatype: Datatype) -> Vec<u8> {
        let word = match self {
            Self::Signed(value) => value.to_le_bytes(),
            Self::Unsigned(value) => value.to_le_bytes(),
            Self::Float(value) if datatype.size() == 4 => {
                return (*value as f32).to_le_bytes().to_vec();
            }
            Self::Float(value) => value.to_le_bytes(),
            Self::Bytes(bytes) => return bytes.clone(),
        };
        word[..datatype.size()].to_vec()
    }

    /// Reads one value of fixed size.
    pub(crate) fn read(
        field: &'static str,
        datatype: Datatype,
        fields: &mut Fields<'_>,
    ) -> Decoded<Self> {
        let bytes = fields.take(field, datatype.size())?;
        let scalar = Self::from_bytes(datatype, bytes);
        scalar.ok_or_else(|| Fault::new(field, "cut off", "a value"))
    }

    /// Compares two values of one datatype; `None` for NaN and for different representations.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Signed(a), Self::Signed(b)) => Some(a.cmp(b)),
            (Self::Unsigned(a), Self::Unsigned(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// Returns the integer at a distance. Saturates; other values stay as they are.
    pub(crate) fn offset_by(&self, distance: u64) -> Self {
        match self {
            Self::Signed(value) => Self::Signed(value.saturating_add_unsigned(distance)),
            Self::Unsigned(value) => Self::Unsigned(value.saturating_add(distance)),
            other => other.clone(),
        }
    }

    /// Returns the value of an integer, or `None` for other scalars.
    pub fn integer(&self) -> Option<i128> {
        match self {
            Self::Signed(value) => Some(i128::from(*value)),
            Self::Unsigned(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    /// Returns the distance from `low`, or `None` if the value is less or not an integer.
    pub fn distance_from(&self, low: &Self) -> Option<u64> {
        match (self, low) {
            (Self::Signed(value), Self::Signed(low)) if value >= low => Some(value.abs_diff(*low)),
            (Self::Unsigned(value), Self::Unsigned(low)) => value.checked_sub(*low),
            _ => None,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(value) => value.fmt(f),
            Self::Unsigned(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Bytes(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
        }
    }
}

/// All values from `low` to `high`, both included.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// The first value.
    pub low: Scalar,
    /// The last value.
    pub high: Scalar,
}

impl Interval {
    /// Returns the interval of one value.
    pub(crate) fn point(value: Scalar) -> Self {
        Self {
            low: value.clone(),
            high: value,
        }
    }

    /// Returns the interval from the lower low to the higher high.
    pub(crate) fn hull(self, other: Self) -> Self {
        let is_less = |a: &Scalar, b: &Scalar| a.compare(b) == Some(Ordering::Less);
        Self {
            low: match is_less(&other.low, &self.low) {
                true => other.low,
                false => self.low,
            },
            high: match is_less(&self.high, &other.high) {
                true => other.high,
                false => self.high,
            },
        }
    }

    /// Returns `true` if both intervals have a value in common.
    pub fn meets(&self, other: &Self) -> bool {
        let is_at_most = |a: &Scalar, b: &Scalar| a.compare(b).is_some_and(Ordering::is_le);
        is_at_most(&self.low, &other.high) && is_at_most(&other.low, &self.high)
    }

    /// Returns `true` if a value is in the interval. NaN is in none.
    pub(crate) fn contains(&self, value: &Scalar) -> bool {
        let is_at_least = self.low.compare(value).is_some_and(Ordering::is_le);
        is_at_least && value.compare(&self.high).is_some_and(Ordering::is_le)
    }

    /// Reads the interval of a dimension: two values, or two texts with their lengths.
    pub(crate) fn read(
        field: &'static str,
        datatype: Datatype,
        is_variable: bool,
        fields: &mut Fields<'_>,
    ) -> Decoded<Self> {
        let interval = if is_variable {
            let total = fields.u64(field)?;
            let low = fields.u64(field)?;
            let Some(high) = total.checked_sub(low) else {
                let found = format!("{low} bytes of {total} for the lower bound");
                return Err(Fault::new(field, found, "at most all bytes"));
            };
            Self {
                low: Scalar::Bytes(fields.take_u64(field, low)?.to_vec()),
                high: Scalar::Bytes(fields.take_u64(field, high)?.to_vec()),
            }
        } else {
            Self {
                low: Scalar::read(field, datatype, fields)?,
                high: Scalar::read(field, datatype, fields)?,
            }
        };
        match interval.low.compare(&interval.high) {
            Some(Ordering::Less | Ordering::Equal) => Ok(interval),
            _ => {
                let found = format!("from {:?} to {:?}", interval.low, interval.high);
                Err(Fault::new(field, found, "an interval that is not empty"))
            }
        }
    }
}
