//! Compares solved predicates with DataFusion's evaluation of them.

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
    // All zeros have the same sign, because Arrow distinguishes -0.0 from 0.0 and optimizer rules
    // do not.
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
