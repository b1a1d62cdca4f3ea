//! Evaluates predicates on the coordinates of one axis, giving the set of indices that satisfy
//! them.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;

use crate::error::Error;
use crate::grid::{Axis, Coordinates, IndexSet, IndexSetBuilder};
use crate::provider::planning::mask::mask;

/// The number of coordinates evaluated at a time.
const SEGMENT: u64 = 64 << 10;
/// The maximum number of candidate indices on which an arbitrary predicate is evaluated before the
/// scan. Comparisons with a counted axis have no such limit.
const MAX_EVALUATED: u64 = 16 << 20;
/// The maximum number of ranges of a resulting set, which bounds its memory: a range takes 24
/// bytes.
const MAX_RANGES: usize = 2 << 20;

/// Returns the indices among `candidates` whose coordinates satisfy a predicate over this axis
/// alone. `None` if there are too many candidates, or the predicate fails on some coordinate: then
/// the scan has to filter its rows.
///
/// # Errors
/// Returns an error if the coordinates cannot be read.
pub(crate) fn evaluate(
    session: &dyn Session,
    axis: &Axis,
    predicate: &Expr,
    candidates: &IndexSet,
) -> Result<Option<IndexSet>, Error> {
    let coordinates = axis.coordinates()?;
    if let Coordinates::Index { origin } = coordinates
        && let Some(set) = compare(predicate, *origin, axis.length())
    {
        return Ok(Some(set.intersect(candidates)));
    }
    if !can_evaluate(candidates) {
        return Ok(None);
    }
    let set = evaluate_segments(session, axis, coordinates, predicate, candidates);
    Ok(set.ok().flatten())
}

/// Returns `true` if a predicate without columns is true, `false` if it is false or null; `None` if
/// its evaluation fails.
pub(crate) fn evaluate_constant(session: &dyn Session, predicate: &Expr) -> Option<bool> {
    let predicate = session.create_physical_expr(predicate.clone(), &DFSchema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let schema = Arc::new(Schema::empty());
    let row = RecordBatch::try_new_with_options(schema, Vec::new(), &options).ok()?;
    let mask = predicate.ok()?.evaluate(&row).ok()?.into_array(1).ok()?;
    let mask = mask.as_boolean_opt()?;
    Some(mask.is_valid(0) && mask.value(0))
}

/// Like [`evaluate`], for a physical predicate whose only column is the axis.
pub(crate) fn evaluate_physical(
    axis: &Axis,
    predicate: &Arc<dyn PhysicalExpr>,
    candidates: &IndexSet,
) -> Result<Option<IndexSet>, Error> {
    if !can_evaluate(candidates) {
        return Ok(None);
    }
    let coordinates = axis.coordinates()?;
    let schema = axis_schema(axis);
    let set = reassign_expr_columns(Arc::clone(predicate), &schema)
        .and_then(|predicate| segments(&schema, coordinates, &predicate, candidates));
    Ok(set.ok().flatten())
}

/// Returns `true` if the candidates are few enough to evaluate any predicate on them.
pub(crate) fn can_evaluate(candidates: &IndexSet) -> bool {
    candidates.count() <= MAX_EVALUATED
}

fn axis_schema(axis: &Axis) -> SchemaRef {
    let field = Field::new(axis.name(), axis.data_type(), false);
    Arc::new(Schema::new(vec![field]))
}

fn evaluate_segments(
    session: &dyn Session,
    axis: &Axis,
    coordinates: &Coordinates,
    predicate: &Expr,
    candidates: &IndexSet,
) -> Result<Option<IndexSet>> {
    let schema = axis_schema(axis);
    let df_schema = DFSchema::try_from(Arc::clone(&schema))?;
    let predicate = session.create_physical_expr(predicate.clone(), &df_schema)?;
    segments(&schema, coordinates, &predicate, candidates)
}

fn segments(
    schema: &SchemaRef,
    coordinates: &Coordinates,
    predicate: &Arc<dyn PhysicalExpr>,
    candidates: &IndexSet,
) -> Result<Option<IndexSet>> {
    let mut builder = IndexSetBuilder::new(candidates.length());
    for range in candidates.ranges() {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + SEGMENT);
            let segment = coordinates.slice(start..end);
            let batch = RecordBatch::try_new(Arc::clone(schema), vec![segment])?;
            builder.push_mask(start, mask(predicate, &batch)?.values());
            if builder.range_count() > MAX_RANGES {
                return Ok(None);
            }
            start = end;
        }
    }
    Ok(Some(builder.finish()))
}

/// Solves comparisons of a counted axis with integers, in time that does not depend on the length
/// of the axis.
fn compare(predicate: &Expr, origin: i64, length: u64) -> Option<IndexSet> {
    let solve = |expr: &Expr| compare(expr, origin, length);
    // The indices whose coordinates lie between two numbers, both included.
    let between = |low: i128, high: i128| {
        let position = |coordinate: i128| {
            (coordinate - i128::from(origin)).clamp(0, i128::from(length)) as u64
        };
        let range = position(low)..position(high.saturating_add(1));
        IndexSet::from_ranges(length, [range])
    };
    match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if *op == Operator::And {
                return Some(solve(left)?.intersect(&solve(right)?));
            }
            if *op == Operator::Or {
                return Some(solve(left)?.union(&solve(right)?));
            }
            let (op, number) = match (left.as_ref(), right.as_ref()) {
                (Expr::Column(_), literal) => (*op, integer(literal)?),
                (literal, Expr::Column(_)) => (op.swap()?, integer(literal)?),
                _ => return None,
            };
            let set = match op {
                Operator::Eq => between(number, number),
                Operator::NotEq => between(number, number).complement(),
                Operator::Lt => between(i128::MIN / 2, number - 1),
                Operator::LtEq => between(i128::MIN / 2, number),
                Operator::Gt => between(number + 1, i128::MAX / 2),
                Operator::GtEq => between(number, i128::MAX / 2),
                _ => return None,
            };
            Some(set)
        }
        Expr::Between(Between {
            expr,
            negated,
            low,
            high,
        }) if matches!(expr.as_ref(), Expr::Column(_)) => {
            let set = between(integer(low)?, integer(high)?);
            Some(if *negated { set.complement() } else { set })
        }
        Expr::InList(InList {
            expr,
            list,
            negated,
        }) if matches!(expr.as_ref(), Expr::Column(_)) => {
            let mut numbers: Vec<_> = list.iter().map(integer).collect::<Option<_>>()?;
            numbers.sort_unstable();
            let ranges = numbers
                .into_iter()
                .filter_map(|number| between(number, number).as_range());
            let set = IndexSet::from_ranges(length, ranges);
            Some(if *negated { set.complement() } else { set })
        }
        Expr::Not(inner) => Some(solve(inner)?.complement()),
        _ => None,
    }
}

fn integer(literal: &Expr) -> Option<i128> {
    let Expr::Literal(value, _) = literal else {
        return None;
    };
    match value {
        ScalarValue::Int8(number) => number.map(i128::from),
        ScalarValue::Int16(number) => number.map(i128::from),
        ScalarValue::Int32(number) => number.map(i128::from),
        ScalarValue::Int64(number) => number.map(i128::from),
        ScalarValue::UInt8(number) => number.map(i128::from),
        ScalarValue::UInt16(number) => number.map(i128::from),
        ScalarValue::UInt32(number) => number.map(i128::from),
        ScalarValue::UInt64(number) => number.map(i128::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;
    use datafusion::logical_expr::{col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::grid::CoordinateSource;

    fn ranges(axis: &Axis, predicate: Expr) -> Option<Vec<std::ops::Range<u64>>> {
        let session = SessionContext::new().state();
        let all = IndexSet::all(axis.length());
        let set = evaluate(&session, axis, &predicate, &all).unwrap()?;
        Some(set.ranges().collect())
    }

    #[test]
    fn comparisons_on_a_very_long_counted_axis() {
        let length = 1 << 50;
        let axis = Axis::counted("i", length);
        let i = || col("i");
        for (predicate, expected) in [
            (i().eq(lit(7)), vec![7..8]),
            (lit(7).lt(i()).and(i().lt_eq(lit(9))), vec![8..10]),
            (i().between(lit(-3), lit(2)), vec![0..3]),
            (i().not_eq(lit(0)), vec![1..length]),
            (i().gt(lit(i64::MAX)), vec![]),
            (i().lt(lit(u64::MAX)), vec![0..length]),
            (i().in_list(vec![lit(5), lit(3), lit(4)], false), vec![3..6]),
            (!i().gt_eq(lit(1)), vec![0..1]),
        ] {
            assert_eq!(ranges(&axis, predicate), Some(expected));
        }
        assert_eq!(ranges(&axis, (i() % lit(2)).eq(lit(0))), None);
    }

    #[test]
    fn any_expression_on_a_short_axis() {
        let counted = Axis::counted("i", 10);
        assert_eq!(
            ranges(&counted, (col("i") % lit(4)).eq(lit(0))),
            Some(vec![0..1, 4..5, 8..9])
        );
        let labels = StringArray::from(vec!["north", "south", "north"]);
        let text = Axis::with_values("name", Arc::new(labels), CoordinateSource::LabelsByName);
        assert_eq!(
            ranges(&text, col("name").like(lit("n%"))),
            Some(vec![0..1, 2..3])
        );
    }

    #[test]
    fn a_failing_predicate_is_left_to_the_scan() {
        let axis = Axis::counted("i", 10);
        let predicate = (lit(10) / col("i")).gt(lit(1));
        assert_eq!(ranges(&axis, predicate.clone()), None);
        let session = SessionContext::new().state();
        let candidates = IndexSet::from_ranges(10, [1..10]);
        let set = evaluate(&session, &axis, &predicate, &candidates);
        let set = set.unwrap().unwrap();
        assert_eq!(set.ranges().collect::<Vec<_>>(), [1..6]);
    }
}
