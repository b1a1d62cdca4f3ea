//! Evaluates predicates on the coordinates of one axis, giving the set of indices that satisfy
//! them.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, Literal, NotExpr,
};

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

/// Returns the indices among `candidates` whose coordinates satisfy a predicate whose only column
/// is this axis, whatever the index of that column. `None` if there are too many candidates, or the
/// predicate fails on some coordinate: then the scan has to filter its rows.
///
/// # Errors
/// Returns an error if the coordinates cannot be read.
pub(crate) fn evaluate(
    axis: &Axis,
    predicate: &Arc<dyn PhysicalExpr>,
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
    let set = evaluate_segments(axis, coordinates, predicate, candidates);
    Ok(set.ok().flatten())
}

/// Returns `true` if a predicate without columns is true, `false` if it is false or null; `None` if
/// its evaluation fails.
pub(crate) fn evaluate_constant(predicate: &Arc<dyn PhysicalExpr>) -> Option<bool> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let schema = Arc::new(Schema::empty());
    let row = RecordBatch::try_new_with_options(schema, Vec::new(), &options).ok()?;
    Some(mask(predicate, &row).ok()?.value(0))
}

/// Returns `true` if the candidates are few enough to evaluate any predicate on them.
pub(crate) fn can_evaluate(candidates: &IndexSet) -> bool {
    candidates.count() <= MAX_EVALUATED
}

fn evaluate_segments(
    axis: &Axis,
    coordinates: &Coordinates,
    predicate: &Arc<dyn PhysicalExpr>,
    candidates: &IndexSet,
) -> Result<Option<IndexSet>> {
    let field = Field::new(axis.name(), axis.data_type(), false);
    let schema = Arc::new(Schema::new(vec![field]));
    let only = Arc::new(Column::new(axis.name(), 0)) as Arc<dyn PhysicalExpr>;
    let predicate = Arc::clone(predicate)
        .transform_up(|expr| {
            Ok(match expr.downcast_ref::<Column>() {
                Some(_) => Transformed::yes(Arc::clone(&only)),
                None => Transformed::no(expr),
            })
        })
        .data()?;
    let mut builder = IndexSetBuilder::new(candidates.length());
    for range in candidates.ranges() {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + SEGMENT);
            let segment = coordinates.slice(start..end);
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![segment])?;
            builder.push_mask(start, mask(&predicate, &batch)?.values());
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
fn compare(predicate: &Arc<dyn PhysicalExpr>, origin: i64, length: u64) -> Option<IndexSet> {
    let solve = |expr| compare(expr, origin, length);
    // The indices whose coordinates lie between two numbers, both included.
    let between = |low: i128, high: i128| {
        let position = |coordinate: i128| {
            (coordinate - i128::from(origin)).clamp(0, i128::from(length)) as u64
        };
        let range = position(low)..position(high.saturating_add(1));
        IndexSet::from_ranges(length, [range])
    };
    if let Some(not) = predicate.downcast_ref::<NotExpr>() {
        return Some(solve(not.arg())?.complement());
    }
    if let Some(list) = predicate.downcast_ref::<InListExpr>() {
        if !is_column(list.expr()) {
            return None;
        }
        let mut numbers: Vec<_> = list.list().iter().map(integer).collect::<Option<_>>()?;
        numbers.sort_unstable();
        let ranges = numbers
            .into_iter()
            .filter_map(|number| between(number, number).as_range());
        let set = IndexSet::from_ranges(length, ranges);
        return Some(if list.negated() {
            set.complement()
        } else {
            set
        });
    }
    let binary = predicate.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (binary.left(), binary.right());
    let (op, number) = match *binary.op() {
        Operator::And => return Some(solve(left)?.intersect(&solve(right)?)),
        Operator::Or => return Some(solve(left)?.union(&solve(right)?)),
        op if is_column(left) => (op, integer(right)?),
        op if is_column(right) => (op.swap()?, integer(left)?),
        _ => return None,
    };
    Some(match op {
        Operator::Eq => between(number, number),
        Operator::NotEq => between(number, number).complement(),
        Operator::Lt => between(i128::MIN / 2, number - 1),
        Operator::LtEq => between(i128::MIN / 2, number),
        Operator::Gt => between(number + 1, i128::MAX / 2),
        Operator::GtEq => between(number, i128::MAX / 2),
        _ => return None,
    })
}

/// Returns `true` if an expression is the axis, or a cast of it to a type that has every integer.
fn is_column(expr: &Arc<dyn PhysicalExpr>) -> bool {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => {
            let holds_all = matches!(cast.cast_type(), DataType::Decimal128(20.., 0));
            holds_all && is_column(cast.expr())
        }
        None => expr.downcast_ref::<Column>().is_some(),
    }
}

/// Returns the value of an integer literal or a cast of one.
fn integer(expr: &Arc<dyn PhysicalExpr>) -> Option<i128> {
    let number = match expr.downcast_ref::<CastExpr>() {
        Some(cast) => {
            let number = cast.expr().downcast_ref::<Literal>()?.value();
            number.cast_to(cast.cast_type()).ok()?
        }
        None => expr.downcast_ref::<Literal>()?.value().clone(),
    };
    match number {
        ScalarValue::Decimal128(number, _, 0) => number,
        ScalarValue::UInt64(number) => number.map(i128::from),
        number if number.data_type().is_integer() => match number.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(number)) => number.map(i128::from),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{Expr, col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::grid::CoordinateSource;

    fn physical(axis: &Axis, predicate: Expr) -> Arc<dyn PhysicalExpr> {
        let field = Field::new(axis.name(), axis.data_type(), false);
        let schema = DFSchema::try_from(Schema::new(vec![field])).unwrap();
        let session = SessionContext::new();
        session.create_physical_expr(predicate, &schema).unwrap()
    }

    fn ranges(axis: &Axis, predicate: Expr) -> Option<Vec<std::ops::Range<u64>>> {
        let all = IndexSet::all(axis.length());
        let set = evaluate(axis, &physical(axis, predicate), &all).unwrap()?;
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
        let candidates = IndexSet::from_ranges(10, [1..10]);
        let set = evaluate(&axis, &physical(&axis, predicate), &candidates);
        let set = set.unwrap().unwrap();
        assert_eq!(set.ranges().collect::<Vec<_>>(), [1..6]);
    }
}
