//! Predicates over one column as sets of values: `value > 300 OR value IN (1, 2)`, `value <> -999`,
//! `value IS NULL`.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};

use crate::grid::reduce::CellType;
use crate::provider::planning::value_range::ValueRange;

/// The maximum number of ranges of a set, intermediate results included.
const MOST_RANGES: usize = 64;

/// The values that satisfy a predicate over one column.
///
/// For example, `value <= 3 OR value IS NULL` over `f32` is the range from negative infinity to 3,
/// with null.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValueSet {
    /// All values of the column's type, except NaN.
    all: ValueRange,
    /// Ranges of [`ValueRange::ordinals`], both ends included, ascending and with a gap between any
    /// two.
    ranges: Vec<(i128, i128)>,
    /// The result of the predicate on null; `None` if that is null.
    of_null: Option<bool>,
}

impl ValueSet {
    /// Converts a predicate over one column to a set, returned with the index of the column. `None`
    /// if the predicate has no such set. `cell_type` returns the type of a column's cells, or
    /// `None` if the column cannot be compared by bounds.
    pub fn of(
        predicate: &Arc<dyn PhysicalExpr>,
        cell_type: &dyn Fn(usize) -> Option<CellType>,
    ) -> Option<(usize, Self)> {
        let (column, set) = Self::of_any(predicate, cell_type)?;
        (set.ranges.len() <= MOST_RANGES).then_some((column, set))
    }

    fn of_any(
        predicate: &Arc<dyn PhysicalExpr>,
        cell_type: &dyn Fn(usize) -> Option<CellType>,
    ) -> Option<(usize, Self)> {
        if let Some(not) = predicate.downcast_ref::<NotExpr>() {
            let (column, set) = Self::of(not.arg(), cell_type)?;
            return Some((column, set.not()));
        }
        if let Some(is_null) = predicate.downcast_ref::<IsNullExpr>() {
            return Self::of_is_null(is_null.arg(), true, cell_type);
        }
        if let Some(is_not_null) = predicate.downcast_ref::<IsNotNullExpr>() {
            return Self::of_is_null(is_not_null.arg(), false, cell_type);
        }
        if let Some(list) = predicate.downcast_ref::<InListExpr>() {
            let value = Operand::of(list.expr(), cell_type)?;
            let mut ranges = Vec::with_capacity(list.list().len());
            for item in list.list() {
                let item = item.downcast_ref::<Literal>()?.value();
                // DataFusion's IN lists tell -0.0 from 0.0, which ranges cannot.
                if is_float_zero(item) {
                    return None;
                }
                ranges.push(value.compared(Operator::Eq, item)?.ordinals());
            }
            let set = Self::new(value.all(), ranges, None);
            let set = if list.negated() { set.not() } else { set };
            return Some((value.column, set));
        }
        let binary = predicate.downcast_ref::<BinaryExpr>()?;
        let (left, right) = (binary.left(), binary.right());
        let (value, op, literal) = match (
            *binary.op(),
            left.downcast_ref::<Literal>(),
            right.downcast_ref::<Literal>(),
        ) {
            (op @ (Operator::And | Operator::Or), ..) => {
                let (column, left) = Self::of(left, cell_type)?;
                let (other, right) = Self::of(right, cell_type)?;
                let both = match op {
                    Operator::And => left.and(&right)?,
                    _ => left.or(&right)?,
                };
                return (column == other).then_some((column, both));
            }
            (op, None, Some(literal)) => (left, op, literal),
            (op, Some(literal), None) => (right, op.swap()?, literal),
            _ => return None,
        };
        let value = Operand::of(value, cell_type)?;
        let set = |op| -> Option<Self> {
            let bounds = value.compared(op, literal.value())?;
            Some(Self::new(value.all(), vec![bounds.ordinals()], None))
        };
        let set = match op {
            Operator::NotEq => set(Operator::Eq)?.not(),
            op => set(op)?,
        };
        Some((value.column, set))
    }

    fn of_is_null(
        value: &Arc<dyn PhysicalExpr>,
        is_null: bool,
        cell_type: &dyn Fn(usize) -> Option<CellType>,
    ) -> Option<(usize, Self)> {
        let column = value.downcast_ref::<Column>()?.index();
        let all = ValueRange::all(cell_type(column)?);
        let ranges = if is_null {
            Vec::new()
        } else {
            vec![all.ordinals()]
        };
        Some((column, Self::new(all, ranges, Some(is_null))))
    }

    fn new(all: ValueRange, mut ranges: Vec<(i128, i128)>, of_null: Option<bool>) -> Self {
        ranges.retain(|(min, max)| min <= max);
        ranges.sort_unstable();
        let mut joined: Vec<(i128, i128)> = Vec::with_capacity(ranges.len());
        for (min, max) in ranges {
            match joined.last_mut() {
                Some(last) if min <= last.1 + 1 => last.1 = last.1.max(max),
                _ => joined.push((min, max)),
            }
        }
        Self {
            all,
            ranges: joined,
            of_null,
        }
    }

    /// The values that satisfy both predicates, which must be over the same column.
    pub fn and(&self, other: &Self) -> Option<Self> {
        let either = self.clone().not().or(&other.clone().not())?;
        Some(either.not())
    }

    fn or(&self, other: &Self) -> Option<Self> {
        let ranges = self.ranges.iter().chain(&other.ranges).copied();
        let of_null = match (self.of_null, other.of_null) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        (self.all == other.all).then(|| Self::new(self.all, ranges.collect(), of_null))
    }

    fn not(self) -> Self {
        let (mut next, end) = self.all.ordinals();
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        for (min, max) in self.ranges {
            ranges.push((next, min - 1));
            next = max + 1;
        }
        ranges.push((next, end));
        Self::new(self.all, ranges, self.of_null.map(|is_true| !is_true))
    }

    /// Returns `true` if the predicate is true on null.
    pub fn has_null(&self) -> bool {
        self.of_null == Some(true)
    }

    /// The ranges of the set, ascending.
    pub fn bounds(&self) -> Vec<ValueRange> {
        let ranges = self.ranges.iter();
        ranges.map(|range| self.all.of_ordinals(*range)).collect()
    }

    /// The ranges of all values outside the set, ascending.
    pub fn other_bounds(&self) -> Vec<ValueRange> {
        self.clone().not().bounds()
    }
}

/// The column of a comparison, and the type that it is cast to.
struct Operand<'a> {
    column: usize,
    cell_type: CellType,
    cast: Option<&'a DataType>,
}

impl<'a> Operand<'a> {
    fn of(
        expr: &'a Arc<dyn PhysicalExpr>,
        cell_type: &dyn Fn(usize) -> Option<CellType>,
    ) -> Option<Self> {
        let (value, cast) = match expr.downcast_ref::<CastExpr>() {
            Some(cast) => (cast.expr(), Some(cast.cast_type())),
            None => (expr, None),
        };
        let column = value.downcast_ref::<Column>()?.index();
        Some(Self {
            column,
            cell_type: cell_type(column)?,
            cast,
        })
    }

    fn all(&self) -> ValueRange {
        ValueRange::all(self.cell_type)
    }

    /// The values for which the comparison with a literal is true; `None` if they are not one
    /// range.
    fn compared(&self, op: Operator, literal: &ScalarValue) -> Option<ValueRange> {
        let (all, cell_type, cast) = (self.all(), self.cell_type, self.cast);
        // The cast, if any, must preserve every number.
        let is_double = cast == Some(&DataType::Float64);
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
        match (all, literal) {
            (ValueRange::Single(..), ScalarValue::Float32(Some(bound))) if cast.is_none() => {
                all.compare_single(op, f64::from(*bound))
            }
            (ValueRange::Single(..), ScalarValue::Float64(Some(bound))) if is_double => {
                all.compare_single(op, *bound)
            }
            (ValueRange::Double(..), ScalarValue::Float64(Some(bound))) if cast.is_none() => {
                all.compare_double(op, *bound)
            }
            (
                ValueRange::Signed(..) | ValueRange::Unsigned(..),
                ScalarValue::Float64(Some(bound)),
            ) if is_double && !matches!(cell_type, CellType::I64 | CellType::U64) => {
                all.compare_integer_with_float(op, *bound)
            }
            (ValueRange::Signed(..) | ValueRange::Unsigned(..), literal) if keeps_integers => {
                all.compare_integer(op, integer(literal)?)
            }
            _ => None,
        }
    }
}

fn is_float_zero(literal: &ScalarValue) -> bool {
    matches!(
        literal,
        ScalarValue::Float32(Some(0.0)) | ScalarValue::Float64(Some(0.0))
    )
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
    use datafusion::physical_expr::expressions::{
        binary, cast, col, in_list, is_not_null, is_null, lit, not,
    };

    use super::*;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("lat", DataType::Float64, false),
            Field::new("value", DataType::Float32, true),
        ])
    }

    fn value() -> Arc<dyn PhysicalExpr> {
        col("value", &schema()).unwrap()
    }

    fn compare(
        left: Arc<dyn PhysicalExpr>,
        op: Operator,
        right: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        binary(left, op, right, &schema()).unwrap()
    }

    fn set(predicate: &Arc<dyn PhysicalExpr>) -> Option<ValueSet> {
        let cell_type = |column: usize| (column == 1).then_some(CellType::F32);
        let (column, set) = ValueSet::of(predicate, &cell_type)?;
        assert_eq!(column, 1);
        Some(set)
    }

    #[test]
    fn predicates() {
        const LOW: f32 = f32::NEG_INFINITY;
        const HIGH: f32 = f32::INFINITY;
        let above = || compare(value(), Operator::Gt, lit(2f32));
        let below = || compare(lit(3f32), Operator::GtEq, value());
        let list = |negated| {
            let items = [5f32, -1.0, 5.0].map(lit).to_vec();
            in_list(value(), items, &negated, &schema()).unwrap()
        };
        let and = |left, right| compare(left, Operator::And, right);
        let or = |left, right| compare(left, Operator::Or, right);
        let unequal = |number: f32| compare(value(), Operator::NotEq, lit(number));
        let missing = || is_null(value()).unwrap();
        let past = f32::next_up;
        let short = f32::next_down;
        for (predicate, expected, has_null) in [
            (above(), vec![(past(2.0), HIGH)], false),
            (and(above(), below()), vec![(past(2.0), 3.0)], false),
            (or(above(), below()), vec![(LOW, HIGH)], false),
            (not(or(above(), below())).unwrap(), vec![], false),
            (list(false), vec![(-1.0, -1.0), (5.0, 5.0)], false),
            (
                list(true),
                vec![
                    (LOW, short(-1.0)),
                    (past(-1.0), short(5.0)),
                    (past(5.0), HIGH),
                ],
                false,
            ),
            (
                unequal(0.0),
                vec![(LOW, -f32::from_bits(1)), (f32::from_bits(1), HIGH)],
                false,
            ),
            (missing(), vec![], true),
            (is_not_null(value()).unwrap(), vec![(LOW, HIGH)], false),
            (not(missing()).unwrap(), vec![(LOW, HIGH)], false),
            (or(missing(), above()), vec![(past(2.0), HIGH)], true),
            (and(missing(), above()), vec![], false),
            // On null, neither the predicate nor its negation is true.
            (not(above()).unwrap(), vec![(LOW, 2.0)], false),
            (
                not(and(missing(), above())).unwrap(),
                vec![(LOW, HIGH)],
                false,
            ),
        ] {
            let found = set(&predicate).unwrap_or_else(|| panic!("{predicate}"));
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(min, max)| ValueRange::Single(min, max))
                .collect();
            assert_eq!(found.bounds(), expected, "{predicate}");
            assert_eq!(found.has_null(), has_null, "{predicate}");
        }
        let double = cast(value(), &schema(), DataType::Float64).unwrap();
        assert!(set(&compare(double, Operator::Gt, lit(2.1f64))).is_some());
    }

    #[test]
    fn predicates_without_a_value_set() {
        let lat = || compare(col("lat", &schema()).unwrap(), Operator::Gt, lit(2.0));
        let above = || compare(value(), Operator::Gt, lit(2f32));
        let list = |items| in_list(value(), items, &false, &schema()).unwrap();
        for other in [
            lat(),
            compare(above(), Operator::And, lat()),
            compare(above(), Operator::Or, lat()),
            compare(value(), Operator::Gt, lit(f32::NAN)),
            compare(value(), Operator::Gt, value()),
            list(vec![lit(1f32), lit(0f32)]),
            list(vec![lit(1f32), lit(ScalarValue::Float32(None))]),
            list((0..100).map(|n| lit(n as f32 + 0.5)).collect()),
        ] {
            assert_eq!(set(&other), None, "{other}");
        }
    }
}
