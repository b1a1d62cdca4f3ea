//! Predicates over values that come to bounds: `value > 300`, `value BETWEEN 1 AND 2`, `value IS NOT NULL`.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, IsNotNullExpr, Literal,
};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use crate::grid::reduce::CellType;

/// Values between two bounds, both included; none, if the first is above the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bounds {
    Single(f32, f32),
    Double(f64, f64),
    Signed(i64, i64),
    Unsigned(u64, u64),
}

impl Bounds {
    /// No bounds.
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

    /// Both bounds as bits of a cell, of f32 for halves.
    pub fn patterns(self) -> (u64, u64) {
        match self {
            Self::Single(least, greatest) => (least.to_bits().into(), greatest.to_bits().into()),
            Self::Double(least, greatest) => (least.to_bits(), greatest.to_bits()),
            Self::Signed(least, greatest) => (least as u64, greatest as u64),
            Self::Unsigned(least, greatest) => (least, greatest),
        }
    }

    /// Values within both. The bounds of no values are such as any type of cell has.
    pub fn intersect(self, other: Self) -> Option<Self> {
        let both = match (self, other) {
            (Self::Single(a, b), Self::Single(c, d)) => Self::Single(a.max(c), b.min(d)),
            (Self::Double(a, b), Self::Double(c, d)) => Self::Double(a.max(c), b.min(d)),
            (Self::Signed(a, b), Self::Signed(c, d)) => Self::Signed(a.max(c), b.min(d)),
            (Self::Unsigned(a, b), Self::Unsigned(c, d)) => Self::Unsigned(a.max(c), b.min(d)),
            _ => return None,
        };
        let is_none = match both {
            Self::Signed(least, greatest) => least > greatest,
            Self::Unsigned(least, greatest) => least > greatest,
            Self::Single(..) | Self::Double(..) => false,
        };
        Some(if is_none { both.none() } else { both })
    }

    fn none(self) -> Self {
        match self {
            Self::Single(..) => Self::Single(f32::INFINITY, f32::NEG_INFINITY),
            Self::Double(..) => Self::Double(f64::INFINITY, f64::NEG_INFINITY),
            Self::Signed(..) => Self::Signed(1, 0),
            Self::Unsigned(..) => Self::Unsigned(1, 0),
        }
    }

    /// The bounds that a predicate over one column comes to. `column` tells the type of the column's cells, if their bounds
    /// can be told.
    pub fn of(
        predicate: &Arc<dyn PhysicalExpr>,
        column: &dyn Fn(usize) -> Option<CellType>,
    ) -> Option<(usize, Self)> {
        let mut whole: Option<(usize, Self)> = None;
        for conjunct in split_conjunction(predicate) {
            let (number, bounds) = Self::of_conjunct(conjunct, column)?;
            whole = Some(match whole {
                None => (number, bounds),
                Some((same, before)) if same == number => (same, before.intersect(bounds)?),
                Some(_) => return None,
            });
        }
        whole
    }

    fn of_conjunct(
        conjunct: &Arc<dyn PhysicalExpr>,
        column: &dyn Fn(usize) -> Option<CellType>,
    ) -> Option<(usize, Self)> {
        if let Some(is_not_null) = conjunct.downcast_ref::<IsNotNullExpr>() {
            let value = is_not_null.arg().downcast_ref::<Column>()?;
            return Some((value.index(), Self::all(column(value.index())?)));
        }
        let comparison = conjunct.downcast_ref::<BinaryExpr>()?;
        let literal = |expr: &Arc<dyn PhysicalExpr>| {
            let literal = expr.downcast_ref::<Literal>()?;
            Some(literal.value().clone())
        };
        let (side, op, literal) = match (literal(comparison.left()), literal(comparison.right())) {
            (None, Some(literal)) => (comparison.left(), *comparison.op(), literal),
            (Some(literal), None) => (comparison.right(), comparison.op().swap()?, literal),
            _ => return None,
        };
        let (value, cast) = match side.downcast_ref::<CastExpr>() {
            Some(cast) => (cast.expr(), Some(cast.cast_type())),
            None => (side, None),
        };
        let number = value.downcast_ref::<Column>()?.index();
        let cell_type = column(number)?;
        let all = Self::all(cell_type);
        // A cast must be one that keeps every number as it is.
        let is_cast = cast == Some(&DataType::Float64);
        let keeps_integers = match cast {
            None => true,
            Some(DataType::Int64) => {
                cell_type.is_signed_integer() || cell_type.is_unsigned_below(8)
            }
            Some(DataType::Int32) => {
                matches!(cell_type, CellType::I16 | CellType::I32) || cell_type.is_unsigned_below(4)
            }
            Some(_) => false,
        };
        let bounds = match (all, literal) {
            (Self::Single(..), ScalarValue::Float32(Some(bound))) if cast.is_none() => {
                all.compare_single(op, f64::from(bound))?
            }
            (Self::Single(..), ScalarValue::Float64(Some(bound))) if is_cast => {
                all.compare_single(op, bound)?
            }
            (Self::Double(..), ScalarValue::Float64(Some(bound))) if cast.is_none() => {
                all.compare_double(op, bound)?
            }
            (Self::Signed(..) | Self::Unsigned(..), ScalarValue::Float64(Some(bound)))
                if is_cast && !matches!(cell_type, CellType::I64 | CellType::U64) =>
            {
                all.compare_integer_with_float(op, bound)?
            }
            (Self::Signed(..) | Self::Unsigned(..), literal) if keeps_integers => {
                let bound = integer(&literal)?;
                all.compare_integer(op, bound)?
            }
            _ => return None,
        };
        Some((number, bounds))
    }

    /// The singles that compare so with a double.
    fn compare_single(self, op: Operator, bound: f64) -> Option<Self> {
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

    fn compare_double(self, op: Operator, bound: f64) -> Option<Self> {
        if bound.is_nan() {
            return None;
        }
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        // There is nothing between the two zeros.
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

    fn compare_integer(self, op: Operator, bound: i128) -> Option<Self> {
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

    fn compare_integer_with_float(self, op: Operator, bound: f64) -> Option<Self> {
        if bound.is_nan() {
            return None;
        }
        // Beyond all integers in question, if it does not fit.
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

    /// The part of a range that numbers of this type can be in.
    fn clamped(self, (low, high): (i128, i128)) -> Option<Self> {
        let (least, greatest) = match self {
            Self::Signed(least, greatest) => (i128::from(least), i128::from(greatest)),
            Self::Unsigned(least, greatest) => (i128::from(least), i128::from(greatest)),
            Self::Single(..) | Self::Double(..) => return None,
        };
        if low > greatest || high < least || low > high {
            return Some(self.none());
        }
        let (low, high) = (low.max(least), high.min(greatest));
        Some(match self {
            Self::Signed(..) => Self::Signed(low as i64, high as i64),
            _ => Self::Unsigned(low as u64, high as u64),
        })
    }
}

/// The next greater number; there is nothing between the two zeros.
fn after(number: f32) -> f32 {
    if number == 0.0 {
        0f32.next_up()
    } else {
        number.next_up()
    }
}

fn integer(literal: &ScalarValue) -> Option<i128> {
    Some(match literal {
        ScalarValue::Int8(Some(number)) => (*number).into(),
        ScalarValue::Int16(Some(number)) => (*number).into(),
        ScalarValue::Int32(Some(number)) => (*number).into(),
        ScalarValue::Int64(Some(number)) => (*number).into(),
        ScalarValue::UInt8(Some(number)) => (*number).into(),
        ScalarValue::UInt16(Some(number)) => (*number).into(),
        ScalarValue::UInt32(Some(number)) => (*number).into(),
        ScalarValue::UInt64(Some(number)) => (*number).into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::{binary, cast, col, lit};

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
                let all = Bounds::all(CellType::F32);
                let Some(Bounds::Single(least, greatest)) = all.compare_single(op, *bound) else {
                    panic!("{op} {bound}");
                };
                for number in numbers {
                    let expected = compares(op, f64::from(number).partial_cmp(bound));
                    let found = least <= number && number <= greatest;
                    assert_eq!(found, expected, "{number} {op} {bound}");
                }
            }
        }
    }

    #[test]
    fn integers_compare_with_what_is_no_integer() {
        for op in OPERATORS {
            for bound in [
                -1e30, -32769.0, -32768.0, -1.5, -0.0, 0.0, 2.0, 2.5, 32767.0, 4e4,
            ] {
                let all = Bounds::all(CellType::I16);
                let Some(Bounds::Signed(least, greatest)) =
                    all.compare_integer_with_float(op, bound)
                else {
                    panic!("{op} {bound}");
                };
                for number in [i16::MIN, -2, -1, 0, 1, 2, 3, i16::MAX] {
                    let expected = compares(op, f64::from(number).partial_cmp(&bound));
                    let found = least <= number.into() && i64::from(number) <= greatest;
                    assert_eq!(found, expected, "{number} {op} {bound}");
                }
            }
        }
    }

    #[test]
    fn predicates() {
        let schema = Schema::new(vec![
            Field::new("lat", DataType::Float64, false),
            Field::new("value", DataType::Float32, true),
        ]);
        let value = || col("value", &schema).unwrap();
        let cell_type = |column: usize| (column == 1).then_some(CellType::F32);
        let compare = |left, op, right| binary(left, op, right, &schema).unwrap();
        let above = compare(value(), Operator::Gt, lit(2f32));
        let below = compare(lit(3f32), Operator::GtEq, value());
        let both = compare(Arc::clone(&above), Operator::And, below);
        let expected = Bounds::Single(2f32.next_up(), 3.0);
        assert_eq!(Bounds::of(&both, &cell_type), Some((1, expected)));
        let double = cast(value(), &schema, DataType::Float64).unwrap();
        let above_double = compare(double, Operator::Gt, lit(2.1f64));
        assert!(Bounds::of(&above_double, &cell_type).is_some());
        let lat = compare(col("lat", &schema).unwrap(), Operator::Gt, lit(2.0));
        for other in [
            Arc::clone(&lat),
            compare(Arc::clone(&above), Operator::And, lat),
            compare(Arc::clone(&above), Operator::Or, above),
            compare(value(), Operator::NotEq, lit(2f32)),
            compare(value(), Operator::Gt, lit(f32::NAN)),
        ] {
            assert_eq!(Bounds::of(&other, &cell_type), None);
        }
    }
}
