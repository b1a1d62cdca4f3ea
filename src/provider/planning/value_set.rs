//! Solves predicates over one column: `value > 300 OR value IN (1, 2)`, `value <> -999`,
//! `time BETWEEN a AND b`, `value IS NULL`. The solution is a set of values, found without
//! evaluating the predicate on any of them.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};

use crate::grid::reduce::CellType;
use crate::grid::{Steps, stored_limits};
use crate::provider::planning::value_range::{Domain, ValueRange, around_single, of_double};

/// The maximum number of ranges of a set of cell values, intermediate results included.
const MOST_CELL_RANGES: usize = 64;
/// The maximum number of ranges of a set of coordinates, intermediate results included.
const MOST_COORDINATE_RANGES: usize = 1 << 20;

/// The values that satisfy a predicate over one column.
///
/// For example, `value <= 3 OR value IS NULL` over `f32` is the range from negative infinity to 3,
/// with null.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValueSet {
    /// The values that the column may have.
    domain: Domain,
    /// Ranges of ordinals of the domain, both ends included, ascending and with a gap between any
    /// two.
    ranges: Vec<(i128, i128)>,
    /// The result of the predicate on null; `None` if that is null.
    of_null: Option<bool>,
}

impl ValueSet {
    /// Solves a predicate over the cells of one column. Returns the index of the column and the
    /// set, or `None` if the predicate is not solved by ranges. `cell_type` returns the type of a
    /// column's cells, or `None` if the column cannot be compared by bounds.
    pub fn of(
        predicate: &Arc<dyn PhysicalExpr>,
        cell_type: &dyn Fn(usize) -> Option<CellType>,
    ) -> Option<(usize, Self)> {
        let solver = Solver {
            domain: &|column| cell_type(column).map(Domain::of_cells),
            most_ranges: MOST_CELL_RANGES,
        };
        solver.solve(predicate)
    }

    /// Solves a predicate whose only column has stepped coordinates. Returns ranges of stored
    /// numbers, both ends included, ascending and disjoint. `None` if the predicate is not solved
    /// by ranges.
    pub fn of_steps(predicate: &Arc<dyn PhysicalExpr>, steps: &Steps) -> Option<Vec<(i128, i128)>> {
        let (min, max) = steps.bounds()?;
        let domain = Domain {
            data_type: steps.data_type().clone(),
            min,
            max,
        };
        let solver = Solver {
            domain: &|_| Some(domain.clone()),
            most_ranges: MOST_COORDINATE_RANGES,
        };
        Some(solver.solve(predicate)?.1.ranges)
    }

    /// Creates a set of ranges, which are clipped to the domain.
    fn new(domain: Domain, mut ranges: Vec<(i128, i128)>, of_null: Option<bool>) -> Self {
        for (min, max) in &mut ranges {
            (*min, *max) = ((*min).max(domain.min), (*max).min(domain.max));
        }
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
            domain,
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
        let ranges = self.ranges.iter().chain(&other.ranges).copied().collect();
        let of_null = match (self.of_null, other.of_null) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        (self.domain == other.domain).then(|| Self::new(self.domain.clone(), ranges, of_null))
    }

    fn not(self) -> Self {
        let mut next = self.domain.min;
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        for (min, max) in self.ranges {
            ranges.push((next, min - 1));
            next = max + 1;
        }
        ranges.push((next, self.domain.max));
        Self::new(self.domain, ranges, self.of_null.map(|is_true| !is_true))
    }

    /// Returns `true` if the predicate is true on null.
    pub fn has_null(&self) -> bool {
        self.of_null == Some(true)
    }

    /// The ranges of the set, ascending.
    pub fn bounds(&self) -> Vec<ValueRange> {
        let ranges = self.ranges.iter();
        ranges.map(|range| self.domain.range(*range)).collect()
    }

    /// The ranges of all values outside the set, ascending.
    pub fn other_bounds(&self) -> Vec<ValueRange> {
        self.clone().not().bounds()
    }
}

/// Solves predicates over one column.
struct Solver<'a> {
    /// Returns the domain of a column; `None` if the column cannot be compared by ordinals.
    domain: &'a dyn Fn(usize) -> Option<Domain>,
    most_ranges: usize,
}

impl Solver<'_> {
    /// Returns the index of the predicate's only column and the values that satisfy the predicate.
    fn solve(&self, predicate: &Arc<dyn PhysicalExpr>) -> Option<(usize, ValueSet)> {
        let (column, set) = self.solve_any(predicate)?;
        (set.ranges.len() <= self.most_ranges).then_some((column, set))
    }

    fn solve_any(&self, predicate: &Arc<dyn PhysicalExpr>) -> Option<(usize, ValueSet)> {
        if let Some(not) = predicate.downcast_ref::<NotExpr>() {
            let (column, set) = self.solve(not.arg())?;
            return Some((column, set.not()));
        }
        if let Some(is_null) = predicate.downcast_ref::<IsNullExpr>() {
            let (column, not_null) = self.solve_not_null(is_null.arg())?;
            return Some((column, not_null.not()));
        }
        if let Some(is_not_null) = predicate.downcast_ref::<IsNotNullExpr>() {
            return self.solve_not_null(is_not_null.arg());
        }
        if let Some(list) = predicate.downcast_ref::<InListExpr>() {
            let operand = self.operand(list.expr())?;
            let mut ranges = Vec::with_capacity(list.list().len());
            for item in list.list() {
                let item = literal(item)?;
                // DataFusion's IN lists tell -0.0 from 0.0, which ranges cannot.
                if is_float_zero(&item) {
                    return None;
                }
                ranges.push(operand.around(&item)?);
            }
            let set = ValueSet::new(operand.domain, ranges, None);
            let set = if list.negated() { set.not() } else { set };
            return Some((operand.column, set));
        }
        let binary = predicate.downcast_ref::<BinaryExpr>()?;
        let (left, right) = (binary.left(), binary.right());
        if matches!(binary.op(), Operator::And | Operator::Or) {
            let (column, left) = self.solve(left)?;
            let (other, right) = self.solve(right)?;
            let both = match binary.op() {
                Operator::And => left.and(&right)?,
                _ => left.or(&right)?,
            };
            return (column == other).then_some((column, both));
        }
        let (operand, op, literal) = match (literal(left), literal(right)) {
            (None, Some(literal)) => (self.operand(left)?, *binary.op(), literal),
            (Some(literal), None) => (self.operand(right)?, binary.op().swap()?, literal),
            _ => return None,
        };
        let (least, greatest) = operand.around(&literal)?;
        let (min, max) = (operand.domain.min, operand.domain.max);
        let range = match op {
            Operator::Eq | Operator::NotEq => (least, greatest),
            Operator::GtEq => (least, max),
            Operator::LtEq => (min, greatest),
            Operator::Gt => (greatest.saturating_add(1), max),
            Operator::Lt => (min, least.saturating_sub(1)),
            _ => return None,
        };
        let set = ValueSet::new(operand.domain, vec![range], None);
        let set = if op == Operator::NotEq {
            set.not()
        } else {
            set
        };
        Some((operand.column, set))
    }

    fn solve_not_null(&self, value: &Arc<dyn PhysicalExpr>) -> Option<(usize, ValueSet)> {
        let column = value.downcast_ref::<Column>()?.index();
        let domain = (self.domain)(column)?;
        let all = vec![(domain.min, domain.max)];
        Some((column, ValueSet::new(domain, all, Some(false))))
    }

    /// Returns the operand of a comparison if it is a column or a cast of one.
    fn operand(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Operand> {
        let (value, cast) = match expr.downcast_ref::<CastExpr>() {
            Some(cast) => (cast.expr(), Some(cast.cast_type())),
            None => (expr, None),
        };
        let column = value.downcast_ref::<Column>()?.index();
        let domain = (self.domain)(column)?;
        let compared = cast.unwrap_or(&domain.data_type).clone();
        let factor = cast_factor(&domain, &compared)?;
        Some(Operand {
            column,
            domain,
            compared,
            factor,
        })
    }
}

/// The column of a comparison, and the type that it is cast to.
struct Operand {
    column: usize,
    domain: Domain,
    /// The type that is compared.
    compared: DataType,
    /// The cast multiplies the column's ordinals by this factor.
    factor: i128,
}

impl Operand {
    /// Returns the ordinals of the column next to a literal: of the least value that is not below
    /// the literal, and of the greatest value that is not above it. They are the same if the
    /// literal is a value of the column; otherwise the first is above the second. `None` for null,
    /// NaN and types that are not compared by ordinals.
    fn around(&self, literal: &ScalarValue) -> Option<(i128, i128)> {
        let literal_type = literal.data_type();
        let are_comparable = literal_type == self.compared
            || (literal_type.is_integer() && self.compared.is_integer());
        if !are_comparable {
            return None;
        }
        let number = match *literal {
            ScalarValue::Float32(Some(bound)) => f64::from(bound),
            ScalarValue::Float64(Some(bound)) => bound,
            _ => {
                let number = stored_number(literal)?;
                let remainder = i128::from(number.rem_euclid(self.factor) > 0);
                let greatest = number.div_euclid(self.factor);
                return Some((greatest + remainder, greatest));
            }
        };
        if number.is_nan() {
            return None;
        }
        Some(match self.domain.data_type {
            DataType::Float32 => around_single(number),
            DataType::Float64 => (of_double(number), of_double(number)),
            // Saturates far beyond the range of every integer type.
            _ => (number.ceil() as i128, number.floor() as i128),
        })
    }
}

/// Returns the factor by which a cast multiplies the ordinals of a domain; `None` if the cast does
/// anything else to them, or fails on some. Floats keep their values rather than their ordinals.
fn cast_factor(domain: &Domain, to: &DataType) -> Option<i128> {
    use DataType::{Date32, Date64, Decimal128, Float32, Float64, Timestamp};
    let from = &domain.data_type;
    let factor = match (from, to) {
        (from, to) if from == to => return Some(1),
        (Float32, Float64) => return Some(1),
        (from, Float32 | Float64) if from.is_integer() => 1,
        (from, to) if from.is_integer() && to.is_integer() => 1,
        (from, Decimal128(_, scale)) if from.is_integer() => {
            10i128.checked_pow(u32::try_from(*scale).ok()?)?
        }
        (Timestamp(from, zone), Timestamp(to, other)) if zone.is_some() == other.is_some() => {
            // A cast to a coarser unit rounds.
            let (from, to) = (per_second(*from), per_second(*to));
            (to % from == 0).then_some(to / from)?
        }
        (Date32, Timestamp(unit, None)) => 86_400 * per_second(*unit),
        (Date32, Date64) => 86_400_000,
        _ => return None,
    };
    let (low, high) = match to {
        // The integers that the type represents without gaps.
        Float32 => (-(1 << 24), 1 << 24),
        Float64 => (-(1 << 53), 1 << 53),
        Decimal128(precision, _) => {
            let end = 10i128.checked_pow((*precision).into())?;
            (1 - end, end - 1)
        }
        to => stored_limits(to)?,
    };
    let holds_all =
        domain.min.checked_mul(factor)? >= low && domain.max.checked_mul(factor)? <= high;
    holds_all.then_some(factor)
}

fn per_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Returns the value of a literal, or of a literal that is cast.
fn literal(expr: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => {
            let inner = cast.expr().downcast_ref::<Literal>()?;
            inner.value().cast_to(cast.cast_type()).ok()
        }
        None => Some(expr.downcast_ref::<Literal>()?.value().clone()),
    }
}

fn is_float_zero(literal: &ScalarValue) -> bool {
    matches!(
        literal,
        ScalarValue::Float32(Some(0.0)) | ScalarValue::Float64(Some(0.0))
    )
}

/// Returns the number by which a literal integer, decimal, date or timestamp is stored.
pub(crate) fn stored_number(literal: &ScalarValue) -> Option<i128> {
    Some(match literal {
        ScalarValue::Int8(Some(number)) => (*number).into(),
        ScalarValue::Int16(Some(number)) => (*number).into(),
        ScalarValue::Int32(Some(number)) | ScalarValue::Date32(Some(number)) => (*number).into(),
        ScalarValue::Int64(Some(number))
        | ScalarValue::Date64(Some(number))
        | ScalarValue::TimestampSecond(Some(number), _)
        | ScalarValue::TimestampMillisecond(Some(number), _)
        | ScalarValue::TimestampMicrosecond(Some(number), _)
        | ScalarValue::TimestampNanosecond(Some(number), _) => (*number).into(),
        ScalarValue::UInt8(Some(number)) => (*number).into(),
        ScalarValue::UInt16(Some(number)) => (*number).into(),
        ScalarValue::UInt32(Some(number)) => (*number).into(),
        ScalarValue::UInt64(Some(number)) => (*number).into(),
        ScalarValue::Decimal128(Some(number), ..) => *number,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Float32Array, Float64Array, Int16Array, RecordBatch};
    use arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::{
        binary, cast, col, in_list, is_not_null, is_null, lit, not,
    };

    use super::*;
    use crate::provider::planning::mask::mask;

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

    const OPERATORS: [Operator; 6] = [
        Operator::Eq,
        Operator::NotEq,
        Operator::Lt,
        Operator::LtEq,
        Operator::Gt,
        Operator::GtEq,
    ];

    /// Compares the solutions of comparisons with DataFusion's evaluation on each value.
    fn check(cell_type: CellType, values: ArrayRef, cast_to: &[DataType], bounds: &[ScalarValue]) {
        let data_type = values.data_type().clone();
        let schema = Schema::new(vec![Field::new("v", data_type, true)]);
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::clone(&values)]);
        let batch = batch.unwrap();
        let mut solved = 0;
        for (to, bound) in cast_to
            .iter()
            .flat_map(|to| bounds.iter().map(move |b| (to, b)))
        {
            let Ok(bound) = bound.cast_to(to) else {
                continue;
            };
            for op in OPERATORS {
                let column = cast(col("v", &schema).unwrap(), &schema, to.clone()).unwrap();
                for predicate in [
                    binary(Arc::clone(&column), op, lit(bound.clone()), &schema).unwrap(),
                    binary(lit(bound.clone()), op, column, &schema).unwrap(),
                ] {
                    let Some((0, set)) = ValueSet::of(&predicate, &|_| Some(cell_type)) else {
                        panic!("{predicate}");
                    };
                    let expected = mask(&predicate, &batch).unwrap();
                    for row in 0..values.len() {
                        let value = ScalarValue::try_from_array(&values, row).unwrap();
                        let ordinal = match value {
                            ScalarValue::Float32(Some(number)) => around_single(number.into()).0,
                            ScalarValue::Float64(Some(number)) => of_double(number),
                            ref value => stored_number(value).unwrap(),
                        };
                        let found = set
                            .ranges
                            .iter()
                            .any(|(low, high)| *low <= ordinal && ordinal <= *high);
                        assert_eq!(found, expected.value(row), "{value} in {predicate}");
                    }
                    solved += 1;
                }
            }
        }
        assert!(solved > 100);
    }

    #[test]
    fn comparisons_select_the_values_that_satisfy_them() {
        use DataType::{Decimal128, Float32, Float64, Int16, Int32, Int64};
        let bounds = [
            f64::NEG_INFINITY,
            -1e300,
            -32769.0,
            -32768.0,
            -300.1,
            -1.5,
            -1e-300,
            0.0,
            1e-300,
            0.1,
            1.0,
            2.5,
            300.0,
            300.1,
            32767.0,
            4e4,
            1e300,
            f64::INFINITY,
        ];
        let bounds = bounds.map(|bound| ScalarValue::Float64(Some(bound)));
        // Zeros have one sign only: Arrow tells them apart, and rules of the optimizer do not.
        let singles = [
            f32::NEG_INFINITY,
            f32::MIN,
            -1.5,
            -f32::from_bits(1),
            0.0,
            f32::from_bits(1),
            0.1,
            1.0,
            300.0,
            f32::MAX,
            f32::INFINITY,
        ];
        let doubles = singles.map(f64::from).to_vec();
        let singles = Arc::new(Float32Array::from(singles.to_vec()));
        check(CellType::F32, singles, &[Float32, Float64], &bounds);
        let doubles = Arc::new(Float64Array::from(doubles));
        check(CellType::F64, doubles, &[Float64], &bounds);
        let integers = vec![i16::MIN, -301, -2, -1, 0, 1, 2, 3, 300, 301, i16::MAX];
        let integers = Arc::new(Int16Array::from(integers));
        let casts = [Int16, Int32, Int64, Float32, Float64, Decimal128(9, 2)];
        check(CellType::I16, integers, &casts, &bounds);
    }

    #[test]
    fn casts_that_lose_values_are_not_solved() {
        for (cell_type, to) in [
            (CellType::I64, DataType::Float64),
            (CellType::I64, DataType::Int32),
            (CellType::U64, DataType::Int64),
            (CellType::I32, DataType::Float32),
            (CellType::I64, DataType::Decimal128(20, 2)),
        ] {
            let data_type = Domain::of_cells(cell_type).data_type;
            let schema = Schema::new(vec![Field::new("v", data_type, true)]);
            let column = cast(col("v", &schema).unwrap(), &schema, to.clone()).unwrap();
            let bound = ScalarValue::Int16(Some(7)).cast_to(&to).unwrap();
            let predicate = binary(column, Operator::Gt, lit(bound), &schema).unwrap();
            let solved = ValueSet::of(&predicate, &|_| Some(cell_type));
            assert_eq!(solved, None, "{cell_type:?} as {to}");
        }
    }
}
