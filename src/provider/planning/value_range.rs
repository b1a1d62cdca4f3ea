//! Ranges of values of one type, and their order as integers.

use arrow::datatypes::DataType;

use crate::grid::reduce::CellType;
use crate::grid::stored_limits;

/// A range of values, both ends included. Empty if the first bound is above the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ValueRange {
    Single(f32, f32),
    Double(f64, f64),
    Signed(i64, i64),
    Unsigned(u64, u64),
}

impl ValueRange {
    /// The range of all values of a cell type, except NaN.
    pub fn all(cell_type: CellType) -> Self {
        let domain = Domain::of_cells(cell_type);
        domain.range((domain.min, domain.max))
    }

    /// Both bounds as the bit patterns of cells. The bounds of `f16` cells are `f32` patterns.
    pub fn bit_patterns(self) -> (u64, u64) {
        match self {
            Self::Single(min, max) => (min.to_bits().into(), max.to_bits().into()),
            Self::Double(min, max) => (min.to_bits(), max.to_bits()),
            Self::Signed(min, max) => (min as u64, max as u64),
            Self::Unsigned(min, max) => (min, max),
        }
    }

    /// The empty range of this type.
    pub fn none(self) -> Self {
        match self {
            Self::Single(..) => Self::Single(f32::INFINITY, f32::NEG_INFINITY),
            Self::Double(..) => Self::Double(f64::INFINITY, f64::NEG_INFINITY),
            Self::Signed(..) => Self::Signed(1, 0),
            Self::Unsigned(..) => Self::Unsigned(1, 0),
        }
    }

    /// The bit pattern of the only value between this range and `next`. `None` if there is not
    /// exactly one, or if it is a float zero, which has two bit patterns.
    pub fn only_value_between(self, next: Self) -> Option<u64> {
        Some(match (self, next) {
            (Self::Single(_, low), Self::Single(high, _)) => {
                let between = only_between(of_single(low), of_single(high));
                single(between.filter(|ordinal| *ordinal != 0)?)
                    .to_bits()
                    .into()
            }
            (Self::Double(_, low), Self::Double(high, _)) => {
                let between = only_between(of_double(low), of_double(high));
                double(between.filter(|ordinal| *ordinal != 0)?).to_bits()
            }
            (Self::Signed(_, low), Self::Signed(high, _)) => {
                only_between(low.into(), high.into())? as u64
            }
            (Self::Unsigned(_, low), Self::Unsigned(high, _)) => {
                only_between(low.into(), high.into())? as u64
            }
            _ => return None,
        })
    }
}

fn only_between(low: i128, high: i128) -> Option<i128> {
    (low + 2 == high).then_some(low + 1)
}

/// The values that a column may have, except null and NaN, as *ordinals*: integers in the same
/// order, with adjacent values at adjacent integers.
///
/// The ordinals of integers, dates and timestamps are the stored numbers. -0.0 and 0.0 have the
/// same ordinal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Domain {
    /// The type of the column.
    pub data_type: DataType,
    /// The lower bound of the ordinals.
    pub min: i128,
    /// The upper bound of the ordinals.
    pub max: i128,
}

impl Domain {
    /// Returns the domain of all values of a cell type.
    pub fn of_cells(cell_type: CellType) -> Self {
        let data_type = match cell_type {
            CellType::F16 | CellType::F32 => DataType::Float32,
            CellType::F64 => DataType::Float64,
            CellType::I8 => DataType::Int8,
            CellType::I16 => DataType::Int16,
            CellType::I32 => DataType::Int32,
            CellType::I64 => DataType::Int64,
            CellType::U8 => DataType::UInt8,
            CellType::U16 => DataType::UInt16,
            CellType::U32 => DataType::UInt32,
            CellType::U64 => DataType::UInt64,
        };
        let (min, max) = match data_type {
            DataType::Float32 => (of_single(f32::NEG_INFINITY), of_single(f32::INFINITY)),
            DataType::Float64 => (of_double(f64::NEG_INFINITY), of_double(f64::INFINITY)),
            // Every other cell type is an integer.
            _ => stored_limits(&data_type).unwrap_or((0, 0)),
        };
        Self {
            data_type,
            min,
            max,
        }
    }

    /// Converts a range of ordinals to values.
    pub fn range(&self, (min, max): (i128, i128)) -> ValueRange {
        match self.data_type {
            DataType::Float32 => ValueRange::Single(single(min), single(max)),
            DataType::Float64 => ValueRange::Double(double(min), double(max)),
            _ if self.data_type.is_unsigned_integer() => {
                ValueRange::Unsigned(min as u64, max as u64)
            }
            _ => ValueRange::Signed(min as i64, max as i64),
        }
    }
}

/// Returns the ordinals of the `f32` numbers next to `bound`: the smallest number that is not below
/// the bound, and the largest that is not above it. The bound must not be NaN.
pub(crate) fn around_single(bound: f64) -> (i128, i128) {
    let nearest = bound as f32;
    let ordinal = of_single(nearest);
    let nearest = f64::from(nearest);
    if nearest < bound {
        (ordinal + 1, ordinal)
    } else if nearest > bound {
        (ordinal, ordinal - 1)
    } else {
        (ordinal, ordinal)
    }
}

fn of_single(number: f32) -> i128 {
    let magnitude = i128::from(number.abs().to_bits());
    if number.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    }
}

fn single(ordinal: i128) -> f32 {
    let magnitude = f32::from_bits(ordinal.unsigned_abs() as u32);
    if ordinal < 0 { -magnitude } else { magnitude }
}

/// Returns the ordinal of an `f64`, which must not be NaN.
pub(crate) fn of_double(number: f64) -> i128 {
    let magnitude = i128::from(number.abs().to_bits());
    if number.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    }
}

fn double(ordinal: i128) -> f64 {
    let magnitude = f64::from_bits(ordinal.unsigned_abs() as u64);
    if ordinal < 0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_have_neighbouring_ordinals() {
        for number in [f32::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-40, 7.0, f32::MAX] {
            let next = if number == 0.0 {
                f32::from_bits(1)
            } else {
                number.next_up()
            };
            let (one, other) = (of_single(number), of_single(next));
            assert_eq!(other, one + 1, "{number}");
            assert_eq!((single(one), single(other)), (number, next));
        }
        assert_eq!(of_double(-0.0), of_double(0.0));
        for number in [f64::NEG_INFINITY, -1.5, 0.0, 1e-310, f64::MAX] {
            assert_eq!(double(of_double(number)), number);
        }
    }

    #[test]
    fn the_only_value_between_two_ranges() {
        let (low, high) = (ValueRange::Signed(-9, 4), ValueRange::Signed(6, 7));
        assert_eq!(low.only_value_between(high), Some(5));
        let (low, high) = (ValueRange::Double(-9.0, 4.0), ValueRange::Double(6.0, 7.0));
        assert_eq!(low.only_value_between(high), None);
        let around = |number: f64| {
            let low = ValueRange::Double(-9.0, number.next_down());
            low.only_value_between(ValueRange::Double(number.next_up(), 9.0))
        };
        assert_eq!(around(-1.5), Some((-1.5f64).to_bits()));
        assert_eq!(around(0.0), None);
    }
}
