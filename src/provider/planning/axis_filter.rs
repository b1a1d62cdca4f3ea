//! Evaluates predicates on the coordinates of one axis, giving the set of indices that satisfy
//! them.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use crate::error::Error;
use crate::grid::{Axis, Coordinates, IndexSet, IndexSetBuilder};
use crate::provider::planning::mask::mask;
use crate::provider::planning::value_set::ValueSet;

/// The number of coordinates evaluated at a time.
const SEGMENT: u64 = 64 << 10;
/// The maximum number of candidate indices on which an arbitrary predicate is evaluated before the
/// scan. Comparisons with evenly spaced coordinates have no such limit.
const MAX_EVALUATED: u64 = 16 << 20;
/// The maximum number of ranges of a resulting set, which bounds its memory: a range takes 24
/// bytes.
const MAX_RANGES: usize = 2 << 20;

/// Returns the indices among `candidates` whose coordinates satisfy a predicate. The axis is the only
/// column of the predicate, under any column index. Returns `None` if there are too many candidates, or
/// if the predicate fails on a coordinate. In these cases the scan has to filter its rows.
///
/// # Errors
/// Returns an error if the coordinates cannot be read.
pub(crate) fn evaluate(
    axis: &Axis,
    predicate: &Arc<dyn PhysicalExpr>,
    candidates: &IndexSet,
) -> Result<Option<IndexSet>, Error> {
    let coordinates = axis.coordinates()?;
    if let Coordinates::Steps(steps) = coordinates
        && let Some(ranges) = ValueSet::of_steps(predicate, steps)
    {
        let mut ranges: Vec<_> = ranges
            .into_iter()
            .map(|(min, max)| steps.indices_within(min, max))
            .collect();
        // Along a descending axis, ascending values have descending indices.
        ranges.sort_unstable_by_key(|range| range.start);
        return Ok(Some(
            IndexSet::from_ranges(axis.length(), ranges).intersect(candidates),
        ));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;
    use arrow::datatypes::DataType::{self, Timestamp};
    use arrow::datatypes::TimeUnit;
    use datafusion::common::{DFSchema, ScalarValue};
    use datafusion::logical_expr::{Expr, cast, col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::grid::{CoordinateSource, Steps};

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
    fn comparisons_on_stepped_axes_by_brute_force() {
        use DataType::{Date32, Int8, Int64, UInt16};
        let seconds = || Timestamp(TimeUnit::Second, None);
        for (data_type, start, step) in [
            (Int8, -9, 4),
            (Int64, 30, -7),
            (UInt16, 1, 3),
            (Date32, 5, -2),
            (Date32, -8, 3),
            (seconds(), -20, 6),
            (Timestamp(TimeUnit::Microsecond, Some("UTC".into())), 0, 5),
        ] {
            let steps = Steps::try_new(data_type.clone(), start, step, 8).unwrap();
            let values = steps.at(0..8);
            let stepped = Axis::stepped("x", steps);
            let stored = Axis::with_values("x", values, CoordinateSource::OwnValues);
            let at = |number: i64| {
                let number = ScalarValue::Int64(Some(number));
                let number = match data_type {
                    Date32 => number.cast_to(&DataType::Int32).unwrap(),
                    _ => number,
                };
                lit(number.cast_to(&data_type).unwrap())
            };
            let x = || col("x");
            let wide = match data_type {
                Date32 | Timestamp(_, None) => Timestamp(TimeUnit::Nanosecond, None),
                Timestamp(..) => Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
                _ => DataType::Float64,
            };
            let widened = || cast(x(), wide.clone());
            for number in 0..40 {
                let bound = || at(number);
                let other = || at(number + 6);
                let mut predicates = vec![
                    x().eq(bound()),
                    x().not_eq(bound()),
                    bound().lt(x()),
                    x().lt_eq(bound()).or(x().gt(other())),
                    x().between(bound(), other()),
                    x().not_between(bound(), other()),
                    x().in_list(vec![bound(), other(), at(1)], false),
                    x().in_list((number..number + 30).map(at).collect(), true),
                    !(x().gt_eq(bound()).and(x().is_not_null())),
                    widened().gt(cast(bound(), wide.clone())),
                    widened().eq(cast(bound(), wide.clone())),
                ];
                if wide == DataType::Float64 {
                    predicates.push(widened().lt(lit(number as f64 + 0.5)));
                    predicates.push(x().gt(lit(number as f64 - 0.5)));
                }
                for predicate in predicates {
                    let physical = physical(&stepped, predicate.clone());
                    let steps = match stepped.coordinates().unwrap() {
                        Coordinates::Steps(steps) => steps,
                        Coordinates::Values(_) => unreachable!(),
                    };
                    assert!(ValueSet::of_steps(&physical, steps).is_some(), "{physical}");
                    let found = ranges(&stepped, predicate.clone());
                    assert_eq!(found, ranges(&stored, predicate), "{physical}");
                }
            }
        }
    }

    #[test]
    fn a_trillion_steps_are_not_materialized() {
        let length = 1_000_000_000_000;
        let times = Timestamp(TimeUnit::Millisecond, None);
        let steps = Steps::try_new(times, 5, -3, length).unwrap();
        let axis = Axis::stepped("x", steps);
        let time = |number| lit(ScalarValue::TimestampMillisecond(Some(number), None));
        let bounds = col("x").between(time(-100), time(-10));
        assert_eq!(ranges(&axis, bounds), Some(vec![5..36]));
        let last = 5 - 3 * (length as i64 - 1);
        let except = col("x").in_list(vec![time(last), time(5), time(4)], true);
        assert_eq!(ranges(&axis, except), Some(vec![1..length - 1]));
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
