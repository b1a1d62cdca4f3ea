use arrow::array::Float64Array;
use arrow::datatypes::Int64Type;

use super::*;

fn axis(values: &[f64]) -> Axis {
    Axis::with_values(
        "x",
        Arc::new(Float64Array::from(values.to_vec())),
        CoordinateSource::LabelsByName,
    )
}

#[test]
fn coordinates_are_unique_if_none_equals_another() {
    for (values, expected) in [
        (vec![3., 1., 2.], true),
        (vec![3., 1., 3.], false),
        (vec![], true),
        (vec![1., f64::NAN], false),
        (vec![0., -0.], false),
    ] {
        let axis = axis(&values);
        assert_eq!(
            axis.has_unique_coordinates().unwrap(),
            expected,
            "{values:?}"
        );
    }
    assert!(Axis::counted("x", 3).has_unique_coordinates().unwrap());
}

#[test]
fn axes_have_the_same_coordinates_whatever_their_names() {
    let same = |one: &Axis, other: &Axis| one.has_same_coordinates(other).unwrap();
    let counted = Axis::counted("y", 2);
    assert!(same(&axis(&[1., 2.]), &axis(&[1., 2.])));
    assert!(!same(&axis(&[1., 2.]), &axis(&[1., 3.])));
    assert!(!same(&axis(&[1., 2.]), &axis(&[1.])));
    assert!(!same(&axis(&[0., 1.]), &counted));
    assert!(same(&Axis::counted("x", 2), &counted));
}

#[test]
fn monotonicity_is_strict() {
    assert_eq!(
        axis(&[1., 2., 3.]).monotonicity().unwrap(),
        Monotonicity::Ascending
    );
    assert_eq!(
        axis(&[3., 2., 1.]).monotonicity().unwrap(),
        Monotonicity::Descending
    );
    assert_eq!(
        axis(&[1., 1., 2.]).monotonicity().unwrap(),
        Monotonicity::None
    );
    assert_eq!(
        axis(&[1., 3., 2.]).monotonicity().unwrap(),
        Monotonicity::None
    );
}

#[test]
fn extremes_of_a_set() {
    let set = IndexSet::from_ranges(4, [1..4]);
    for values in [[9., 1., 2., 3.], [0., 3., 2., 1.], [0., 2., 3., 1.]] {
        let extremes = axis(&values).extremes(&set).unwrap().unwrap();
        assert_eq!(extremes.as_primitive::<Float64Type>().values(), &[1., 3.]);
    }
    assert!(
        axis(&[1.; 4])
            .extremes(&IndexSet::none(4))
            .unwrap()
            .is_none()
    );
    let counted = Axis::counted("x", 1 << 40);
    let extremes = counted.extremes(&IndexSet::all(1 << 40)).unwrap().unwrap();
    assert_eq!(
        extremes.as_primitive::<Int64Type>().values(),
        &[0, (1 << 40) - 1]
    );
}

#[test]
fn a_coordinate_that_is_not_a_number_leaves_no_extremes() {
    let odd = axis(&[1., f64::NAN, 3.]);
    assert!(odd.extremes(&IndexSet::all(3)).unwrap().is_none());
    let rest = IndexSet::from_ranges(3, [0..1, 2..3]);
    assert!(odd.extremes(&rest).unwrap().is_some());
    assert_eq!(
        axis(&[1., 2., f64::NAN]).monotonicity().unwrap(),
        Monotonicity::Ascending
    );
}

#[test]
fn axes_are_the_same_by_name_and_coordinates() {
    let renamed = Axis::counted("y", 3);
    assert!(axis(&[1., 2.]).is_same(&axis(&[1., 2.])));
    assert!(!axis(&[1., 2.]).is_same(&axis(&[1., 3.])));
    assert!(Axis::counted("x", 3).is_same(&Axis::counted("x", 3)));
    assert!(!Axis::counted("x", 3).is_same(&renamed));
    assert!(!Axis::counted("x", 2).is_same(&axis(&[0., 1.])));
    let stepped = |start, step| {
        Axis::stepped(
            "x",
            Steps::try_new(DataType::Int64, start, step, 3).unwrap(),
        )
    };
    assert!(stepped(0, 1).is_same(&Axis::counted("x", 3)));
    assert!(stepped(5, -2).is_same(&stepped(5, -2)));
    assert!(!stepped(5, -2).is_same(&stepped(5, 2)));
    let narrow = Steps::try_new(DataType::Int32, 0, 1, 3).unwrap();
    assert!(!Axis::stepped("x", narrow).is_same(&stepped(0, 1)));
}

#[test]
fn long_stepped_axes_are_not_materialized() {
    let length = 1_000_000_000_000;
    let days = Steps::try_new(DataType::Int64, 7, -3, length).unwrap();
    let axis = Axis::stepped("x", days);
    assert_eq!(axis.monotonicity().unwrap(), Monotonicity::Descending);
    assert!(axis.has_unique_coordinates().unwrap());
    let set = IndexSet::from_ranges(length, [2..5, 10..length]);
    let extremes = axis.extremes(&set).unwrap().unwrap();
    let last = 7 - 3 * (length as i64 - 1);
    assert_eq!(extremes.as_primitive::<Int64Type>().values(), &[last, 1]);
}
