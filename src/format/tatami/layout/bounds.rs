//! [`Scalar`], a single value, and [`ValueBounds`], the bounds that a zone gives for a column.

use std::cmp::Ordering;

use crate::format::tatami::layout::row_group::Bounds;
use crate::format::tatami::layout::types::ColumnType;

/// A single value, as stored in zones, sort bounds and page indexes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar<'a> {
    /// A boolean.
    Bool(bool),
    /// A signed integer, or microseconds since 1970-01-01.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A float of four bytes.
    Float32(f32),
    /// A float of eight bytes.
    Float64(f64),
    /// A byte string, or text that need not be UTF-8.
    Bytes(&'a [u8]),
}

impl<'a> Scalar<'a> {
    /// Parses the stored bytes of a scalar. Returns `None` if the type has scalars of another length.
    pub fn parse(column_type: ColumnType, bytes: &'a [u8]) -> Option<Self> {
        let Some(width) = column_type.width() else {
            return Some(Self::Bytes(bytes));
        };
        if bytes.len() != width {
            return None;
        }
        let word = bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        Some(match column_type {
            ColumnType::Bool => Self::Bool(word != 0),
            ColumnType::Float32 => Self::Float32(f32::from_bits(word as u32)),
            ColumnType::Float64 => Self::Float64(f64::from_bits(word)),
            _ if column_type.is_signed() => {
                let unused = 64 - 8 * width as u32;
                Self::Int((word << unused) as i64 >> unused)
            }
            _ => Self::Uint(word),
        })
    }

    /// Returns the bytes of the scalar in zones and Bloom filters of a column of this type, or `None` if
    /// the scalar is of another kind or out of its range.
    pub fn encode(&self, column_type: ColumnType) -> Option<Vec<u8>> {
        let bytes = match self {
            Self::Bool(value) => vec![u8::from(*value)],
            Self::Int(value) => value.to_le_bytes()[..column_type.width()?].to_vec(),
            Self::Uint(value) => value.to_le_bytes()[..column_type.width()?].to_vec(),
            Self::Float32(value) => value.to_le_bytes().to_vec(),
            Self::Float64(value) => value.to_le_bytes().to_vec(),
            Self::Bytes(bytes) => bytes.to_vec(),
        };
        let is_same = match (Scalar::parse(column_type, &bytes)?, self) {
            (Scalar::Float32(_), Self::Float32(_)) | (Scalar::Float64(_), Self::Float64(_)) => true,
            (read, value) => read.compare(value) == Some(Ordering::Equal),
        };
        is_same.then_some(bytes)
    }

    /// Returns `true` for a float that is not a number.
    pub fn is_nan(&self) -> bool {
        match self {
            Self::Float32(value) => value.is_nan(),
            Self::Float64(value) => value.is_nan(),
            _ => false,
        }
    }

    /// Compares two scalars of one kind: numbers by value, with equal zeros; byte strings by their
    /// unsigned bytes. Returns `None` for NaN, and for different kinds.
    pub fn compare(&self, other: &Scalar<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Scalar::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Scalar::Int(b)) => Some(a.cmp(b)),
            (Self::Uint(a), Scalar::Uint(b)) => Some(a.cmp(b)),
            (Self::Float32(a), Scalar::Float32(b)) => a.partial_cmp(b),
            (Self::Float64(a), Scalar::Float64(b)) => a.partial_cmp(b),
            (Self::Bytes(a), Scalar::Bytes(b)) => Some((*a).cmp(*b)),
            _ => None,
        }
    }
}

/// Lower and upper bounds of the values of a column in some rows, nulls excluded.
///
/// The reference implementation treats NaN in a zone as equal to every value: if the first value is NaN,
/// both bounds are NaN, and any later NaN leaves no trace. A NaN bound is therefore unknown, and any float
/// column may contain NaN outside of its bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueBounds<'a> {
    /// The lower bound: no value other than NaN is less. `None` if unknown. A bound of zero is -0.0, which
    /// covers both zeros.
    pub lower: Option<Scalar<'a>>,
    /// The upper bound: no value other than NaN is greater. `None` if unknown. A bound of zero is 0.0, which
    /// covers both zeros.
    pub upper: Option<Scalar<'a>>,
    /// `true` if the column may contain NaN. The bounds then cannot rule out `>`, `>=` and `<>` if NaN counts
    /// as greater than, or different from, all numbers.
    pub may_have_nan: bool,
    /// `true` if the bounds are the min and the max of the values. Always `false` for floats.
    pub is_exact: bool,
}

impl<'a> ValueBounds<'a> {
    /// Creates bounds from the stored bounds of a column of this type.
    pub fn new(column_type: ColumnType, bounds: Option<&'a Bounds>) -> Self {
        let may_have_nan = column_type.is_float();
        let parse = |bytes| Scalar::parse(column_type, bytes);
        let (lower, upper) = match bounds {
            Some(bounds) => (parse(&bounds.min), parse(&bounds.max)),
            None => (None, None),
        };
        let has_nan =
            lower.is_some_and(|bound| bound.is_nan()) || upper.is_some_and(|bound| bound.is_nan());
        let (lower, upper) = match has_nan {
            true => (None, None),
            false => (
                lower.map(|bound| with_zero(bound, -0.0)),
                upper.map(|bound| with_zero(bound, 0.0)),
            ),
        };
        Self {
            lower,
            upper,
            may_have_nan,
            is_exact: lower.is_some() && upper.is_some() && !may_have_nan,
        }
    }
}

/// Replaces a zero of either sign.
fn with_zero(scalar: Scalar<'_>, zero: f32) -> Scalar<'_> {
    match scalar {
        Scalar::Float32(0.0) => Scalar::Float32(zero),
        Scalar::Float64(0.0) => Scalar::Float64(f64::from(zero)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_round_trip() {
        for (column_type, bytes, expected) in [
            (ColumnType::Int8, &[0xff][..], Scalar::Int(-1)),
            (
                ColumnType::Int32,
                &[0xfe, 0xff, 0xff, 0xff],
                Scalar::Int(-2),
            ),
            (ColumnType::Uint16, &[0xfe, 0xff], Scalar::Uint(0xfffe)),
            (ColumnType::Bool, &[1], Scalar::Bool(true)),
            (ColumnType::String, b"ab", Scalar::Bytes(b"ab")),
            (
                ColumnType::Float32,
                &1.5f32.to_le_bytes(),
                Scalar::Float32(1.5),
            ),
        ] {
            assert_eq!(Scalar::parse(column_type, bytes), Some(expected));
            assert_eq!(expected.encode(column_type).as_deref(), Some(bytes));
        }
        assert_eq!(Scalar::Int(200).encode(ColumnType::Int8), None);
        assert_eq!(Scalar::Int(-1).encode(ColumnType::Uint8), None);
        assert_eq!(Scalar::parse(ColumnType::Int16, &[0]), None);
    }

    #[test]
    fn nan_makes_bounds_unknown_and_zeros_cover_both() {
        let bounds = |min: f64, max: f64| Bounds {
            min: min.to_le_bytes().into(),
            max: max.to_le_bytes().into(),
        };
        let stored = bounds(f64::NAN, 1.0);
        let unknown = ValueBounds::new(ColumnType::Float64, Some(&stored));
        assert_eq!((unknown.lower, unknown.upper), (None, None));
        let stored = bounds(0.0, -0.0);
        let zeros = ValueBounds::new(ColumnType::Float64, Some(&stored));
        let sign = |bound| match bound {
            Some(Scalar::Float64(bound)) => bound.is_sign_negative(),
            _ => panic!("no bound"),
        };
        assert!(sign(zeros.lower) && !sign(zeros.upper) && zeros.may_have_nan);
    }
}
