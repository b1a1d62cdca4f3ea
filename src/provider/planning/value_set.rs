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
const MAX_CELL_RANGES: usize = 64;
/// The maximum number of ranges of a set of coordinates, intermediate results included.
const MAX_COORDINATE_RANGES: usize = 1 << 20;

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
            most_ranges: MAX_CELL_RANGES,
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
            most_ranges: MAX_COORDINATE_RANGES,
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
                // DataFusion's IN lists distinguish -0.0 from 0.0, which ranges cannot do.
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
        let (ceiling, floor) = operand.around(&literal)?;
        let (min, max) = (operand.domain.min, operand.domain.max);
        let range = match op {
            Operator::Eq | Operator::NotEq => (ceiling, floor),
            Operator::GtEq => (ceiling, max),
            Operator::LtEq => (min, floor),
            Operator::Gt => (floor.saturating_add(1), max),
            Operator::Lt => (min, ceiling.saturating_sub(1)),
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
    /// Returns the ordinals of the column next to a literal: of the smallest value that is not
    /// below the literal, and of the largest value that is not above it. Both ordinals are the same
    /// if the literal is a value of the column; otherwise the first is above the second. `None` for
    /// null, NaN and types that are not compared by ordinals.
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
                let floor = number.div_euclid(self.factor);
                return Some((floor + remainder, floor));
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

/// Returns the factor by which a cast multiplies the ordinals of a domain; `None` if the cast
/// changes the ordinals in any other way, or fails on some values. Casts to floats keep the values
/// rather than the ordinals.
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

/// Returns `true` for a float zero of either sign.
pub(crate) fn is_float_zero(literal: &ScalarValue) -> bool {
    matches!(
        literal,
        ScalarValue::Float32(Some(0.0)) | ScalarValue::Float64(Some(0.0))
    )
}

/// Returns the number by which a literal integer, decimal, date, timestamp or duration is stored.
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
        | ScalarValue::TimestampNanosecond(Some(number), _)
        | ScalarValue::DurationSecond(Some(number))
        | ScalarValue::DurationMillisecond(Some(number))
        | ScalarValue::DurationMicrosecond(Some(number))
        | ScalarValue::DurationNanosecond(Some(number)) => (*number).into(),
        ScalarValue::UInt8(Some(number)) => (*number).into(),
        ScalarValue::UInt16(Some(number)) => (*number).into(),
        ScalarValue::UInt32(Some(number)) => (*number).into(),
        ScalarValue::UInt64(Some(number)) => (*number).into(),
        ScalarValue::Decimal128(Some(number), ..) => *number,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
