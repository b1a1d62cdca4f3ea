//! Comparisons with a constant as ranges of values: `value > 300`, `value = 1`.

use datafusion::logical_expr::Operator;

use crate::grid::reduce::CellType;

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
        match cell_type {
            CellType::F16 | CellType::F32 => Self::Single(f32::NEG_INFINITY, f32::INFINITY),
            CellType::F64 => Self::Double(f64::NEG_INFINITY, f64::INFINITY),
            CellType::I16 => Self::Signed(i16::MIN.into(), i16::MAX.into()),
            CellType::I32 => Self::Signed(i32::MIN.into(), i32::MAX.into()),
            CellType::I64 => Self::Signed(i64::MIN, i64::MAX),
            CellType::U8 => Self::Unsigned(0, u8::MAX.into()),
            CellType::U16 => Self::Unsigned(0, u16::MAX.into()),
            CellType::U32 => Self::Unsigned(0, u32::MAX.into()),
            CellType::U64 => Self::Unsigned(0, u64::MAX),
        }
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

    /// Maps both bounds to integers in the same order, with adjacent values at adjacent integers.
    /// -0.0 and 0.0 map to the same integer.
    pub fn ordinals(self) -> (i128, i128) {
        match self {
            Self::Single(min, max) => (of_single(min), of_single(max)),
            Self::Double(min, max) => (of_double(min), of_double(max)),
            Self::Signed(min, max) => (min.into(), max.into()),
            Self::Unsigned(min, max) => (min.into(), max.into()),
        }
    }

    /// Converts ordinals back to bounds of this type. Each must be the ordinal of a value of the
    /// type.
    pub fn of_ordinals(self, (min, max): (i128, i128)) -> Self {
        match self {
            Self::Single(..) => Self::Single(single(min), single(max)),
            Self::Double(..) => Self::Double(double(min), double(max)),
            Self::Signed(..) => Self::Signed(min as i64, max as i64),
            Self::Unsigned(..) => Self::Unsigned(min as u64, max as u64),
        }
    }

    /// The bit pattern of the only value between this range and `next`. `None` if there is not
    /// exactly one, or if it is a float zero, which has two bit patterns.
    pub fn only_value_between(self, next: Self) -> Option<u64> {
        let between = (self.ordinals().1 + 1, next.ordinals().0 - 1);
        let is_float = matches!(self, Self::Single(..) | Self::Double(..));
        if between.0 != between.1 || (is_float && between.0 == 0) {
            return None;
        }
        Some(self.of_ordinals(between).bit_patterns().0)
    }

    /// The `f32` values for which a comparison with an `f64` is true; `None` if the comparison is
    /// not a range.
    pub fn compare_single(self, op: Operator, bound: f64) -> Option<Self> {
        if bound.is_nan() {
            return None;
        }
        let nearest = bound as f32;
        let exact = f64::from(nearest);
        let at_least = if exact < bound {
            nearest.next_up()
        } else {
            nearest
        };
        let at_most = if exact > bound {
            nearest.next_down()
        } else {
            nearest
        };
        let is_exact = exact == bound;
        let (low, high) = (f32::NEG_INFINITY, f32::INFINITY);
        Some(match op {
            Operator::Eq if is_exact => Self::Single(nearest, nearest),
            Operator::Eq => self.none(),
            Operator::GtEq => Self::Single(at_least, high),
            Operator::LtEq => Self::Single(low, at_most),
            Operator::Gt if is_exact && nearest == high => self.none(),
            Operator::Gt if is_exact => Self::Single(after(nearest), high),
            Operator::Gt => Self::Single(at_least, high),
            Operator::Lt if is_exact && nearest == low => self.none(),
            Operator::Lt if is_exact => Self::Single(low, -after(-nearest)),
            Operator::Lt => Self::Single(low, at_most),
            _ => return None,
        })
    }

    /// The `f64` values for which a comparison with an `f64` is true; `None` if the comparison is
    /// not a range.
    pub fn compare_double(self, op: Operator, bound: f64) -> Option<Self> {
        if bound.is_nan() {
            return None;
        }
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        // There is nothing between -0.0 and 0.0.
        let after = |bound: f64| {
            if bound == 0.0 {
                0f64.next_up()
            } else {
                bound.next_up()
            }
        };
        Some(match op {
            Operator::Eq => Self::Double(bound, bound),
            Operator::GtEq => Self::Double(bound, high),
            Operator::LtEq => Self::Double(low, bound),
            Operator::Gt if bound == high => self.none(),
            Operator::Gt => Self::Double(after(bound), high),
            Operator::Lt if bound == low => self.none(),
            Operator::Lt => Self::Double(low, -after(-bound)),
            _ => return None,
        })
    }

    /// The integers for which a comparison with an integer is true; `None` if the comparison is not
    /// a range.
    pub fn compare_integer(self, op: Operator, bound: i128) -> Option<Self> {
        let (low, high) = (i128::MIN, i128::MAX);
        self.clamped(match op {
            Operator::Eq => (bound, bound),
            Operator::GtEq => (bound, high),
            Operator::LtEq => (low, bound),
            Operator::Gt => (bound + 1, high),
            Operator::Lt => (low, bound - 1),
            _ => return None,
        })
    }

    /// The integers for which a comparison with an `f64` is true; `None` if the comparison is not a
    /// range.
    pub fn compare_integer_with_float(self, op: Operator, bound: f64) -> Option<Self> {
        if bound.is_nan() {
            return None;
        }
        // Saturates far beyond the range of every cell type.
        let (floor, ceil) = (bound.floor() as i128, bound.ceil() as i128);
        let (low, high) = (i128::MIN, i128::MAX);
        let is_whole = floor == ceil;
        self.clamped(match op {
            Operator::Eq if is_whole => (floor, floor),
            Operator::Eq => (high, low),
            Operator::GtEq => (ceil, high),
            Operator::LtEq => (low, floor),
            Operator::Gt if is_whole => (floor.saturating_add(1), high),
            Operator::Gt => (ceil, high),
            Operator::Lt if is_whole => (low, floor.saturating_sub(1)),
            Operator::Lt => (low, floor),
            _ => return None,
        })
    }

    /// Clamps a range of integers to the range of this type; `None` for floats.
    fn clamped(self, (low, high): (i128, i128)) -> Option<Self> {
        let (min, max) = match self {
            Self::Signed(min, max) => (i128::from(min), i128::from(max)),
            Self::Unsigned(min, max) => (i128::from(min), i128::from(max)),
            Self::Single(..) | Self::Double(..) => return None,
        };
        if low > max || high < min || low > high {
            return Some(self.none());
        }
        let (low, high) = (low.max(min), high.min(max));
        Some(match self {
            Self::Signed(..) => Self::Signed(low as i64, high as i64),
            _ => Self::Unsigned(low as u64, high as u64),
        })
    }
}

/// The next greater number. There is nothing between -0.0 and 0.0.
fn after(number: f32) -> f32 {
    if number == 0.0 {
        0f32.next_up()
    } else {
        number.next_up()
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

fn of_double(number: f64) -> i128 {
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

    const OPERATORS: [Operator; 5] = [
        Operator::Eq,
        Operator::Lt,
        Operator::LtEq,
        Operator::Gt,
        Operator::GtEq,
    ];

    fn compares(op: Operator, ordering: Option<std::cmp::Ordering>) -> bool {
        match op {
            Operator::Eq => ordering.is_some_and(|o| o.is_eq()),
            Operator::Lt => ordering.is_some_and(|o| o.is_lt()),
            Operator::LtEq => ordering.is_some_and(|o| o.is_le()),
            Operator::Gt => ordering.is_some_and(|o| o.is_gt()),
            _ => ordering.is_some_and(|o| o.is_ge()),
        }
    }

    #[test]
    fn singles_compare_as_doubles_do() {
        let numbers = [
            f32::NEG_INFINITY,
            f32::MIN,
            -1.5,
            -f32::from_bits(1),
            -0.0,
            0.0,
            f32::from_bits(1),
            0.1,
            1.0,
            300.0,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
        ];
        let mut bounds: Vec<f64> = numbers.iter().map(|number| f64::from(*number)).collect();
        bounds.extend([0.1, 300.1, -300.1, 1e300, -1e300, 1e-300]);
        for op in OPERATORS {
            for bound in bounds.iter().filter(|bound| !bound.is_nan()) {
                let all = ValueRange::all(CellType::F32);
                let Some(ValueRange::Single(min, max)) = all.compare_single(op, *bound) else {
                    panic!("{op} {bound}");
                };
                for number in numbers {
                    let expected = compares(op, f64::from(number).partial_cmp(bound));
                    let found = min <= number && number <= max;
                    assert_eq!(found, expected, "{number} {op} {bound}");
                }
            }
        }
    }

    #[test]
    fn integers_compare_with_floats() {
        for op in OPERATORS {
            for bound in [
                -1e30, -32769.0, -32768.0, -1.5, -0.0, 0.0, 2.0, 2.5, 32767.0, 4e4,
            ] {
                let all = ValueRange::all(CellType::I16);
                let Some(ValueRange::Signed(min, max)) = all.compare_integer_with_float(op, bound)
                else {
                    panic!("{op} {bound}");
                };
                for number in [i16::MIN, -2, -1, 0, 1, 2, 3, i16::MAX] {
                    let expected = compares(op, f64::from(number).partial_cmp(&bound));
                    let found = min <= number.into() && i64::from(number) <= max;
                    assert_eq!(found, expected, "{number} {op} {bound}");
                }
            }
        }
    }

    #[test]
    fn neighbours_have_neighbouring_ordinals() {
        for number in [f32::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-40, 7.0, f32::MAX] {
            let next = if number == 0.0 {
                f32::from_bits(1)
            } else {
                number.next_up()
            };
            let (one, other) = ValueRange::Single(number, next).ordinals();
            assert_eq!(other, one + 1, "{number}");
            let again = ValueRange::Single(0.0, 0.0).of_ordinals((one, other));
            assert_eq!(again, ValueRange::Single(number, next));
        }
        let all = ValueRange::all(CellType::F64);
        assert_eq!(all.of_ordinals(all.ordinals()), all);
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
