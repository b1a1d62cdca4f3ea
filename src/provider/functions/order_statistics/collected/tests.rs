//! Tests of accumulators that keep all values.

use arrow::array::Float64Array;

use super::*;
use crate::provider::functions::order_statistics::quantile::quantile_of;

/// Memory is reported before it is allocated: after a batch, the values take at most the memory
/// that the accumulator reported before the batch. An unforeseen excess is bounded by the
/// batch.
#[test]
fn growth_is_reported_before_it_happens() {
    let mut accumulator = Collected::<Float64Type>::new(quantile_of, 0.5);
    let median = |all: &mut Collected<_>| Accumulator::evaluate(all).unwrap();
    let batch: ArrayRef = Arc::new(Float64Array::from_iter_values((0..100).map(f64::from)));
    let mut reported = 0;
    for number in 1..=2000 {
        Accumulator::update_batch(&mut accumulator, &[Arc::clone(&batch)]).unwrap();
        let taken = accumulator.values[0].capacity() * size_of::<f64>();
        // From 4096 values on, a batch fills at most one growth.
        assert!(
            number <= 41 || taken <= reported,
            "{number}: {taken} > {reported}"
        );
        reported = Accumulator::size(&accumulator);
        let least = number * 100 * size_of::<f64>();
        assert!(
            taken >= least && reported <= 4 * least + 8192,
            "{number}: {reported}"
        );
    }
    assert_eq!(median(&mut accumulator), 49.5f64.into());
    assert_eq!(accumulator.values[0].len(), 200_000);
    let state = Accumulator::state(&mut accumulator).unwrap();
    assert_eq!(accumulator.capacity, 0);
    let state: Vec<ArrayRef> = state.iter().map(|s| s.to_array().unwrap()).collect();
    Accumulator::merge_batch(&mut accumulator, &state).unwrap();
    assert_eq!(median(&mut accumulator), 49.5f64.into());
}

#[test]
fn absorbed_values_belong_to_their_groups() {
    let collect = |values: Vec<f64>, groups: &[usize]| {
        let mut collected = Collected::<Float64Type>::new(quantile_of, 0.5);
        let values: ArrayRef = Arc::new(Float64Array::from(values));
        let count = groups.iter().max().map_or(0, |last| last + 1);
        GroupsAccumulator::update_batch(&mut collected, &[values], groups, None, count).unwrap();
        collected
    };
    let mut one = collect(vec![1.0, 5.0, 3.0], &[0, 1, 1]);
    for other in [
        collect(vec![9.0, 4.0, 7.0], &[0, 1, 2]),
        collect(vec![2.0], &[0]),
    ] {
        assert!(absorb(&mut one, Box::new(other)).is_none());
    }
    let found = GroupsAccumulator::evaluate(&mut one, EmitTo::All).unwrap();
    let found: Vec<_> = found.as_primitive::<Float64Type>().iter().collect();
    assert_eq!(found, [Some(2.0), Some(4.0), Some(7.0)]);
    let other = Collected::<Float32Type>::new(quantile_of, 0.5);
    assert!(absorb(&mut one, Box::new(other)).is_some());
}

#[test]
fn split_groups_have_the_same_statistics() {
    for groups in [1, 2, 3, 7, 1000] {
        let collect = |groups: usize| {
            let mut collected = Collected::<Float64Type>::new(quantile_of, 0.5);
            let values = (0..300_000).map(|number: usize| (number * 7919 % 1013) as f64);
            let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
            let numbers: Vec<_> = (0..300_000).map(|number| number % groups).collect();
            GroupsAccumulator::update_batch(&mut collected, &[values], &numbers, None, groups)
                .unwrap();
            collected
        };
        let whole = || {
            let mut one = collect(groups);
            // Another worker has seen fewer groups.
            one.absorb(collect(groups.div_ceil(2)));
            one
        };
        let expected = GroupsAccumulator::evaluate(&mut whole(), EmitTo::All).unwrap();
        for parts in [1, 2, 4, 2000] {
            let split = split(Box::new(whole()), parts).into_iter();
            let found = split.map(|mut part| part.evaluate(EmitTo::All).unwrap());
            let found: Vec<_> = found.collect();
            assert!(found.len() <= parts && found.len() >= parts.min(groups).min(2));
            let found = found
                .iter()
                .flat_map(|part| part.as_primitive::<Float64Type>());
            assert!(found.eq(expected.as_primitive::<Float64Type>()));
        }
    }
}

/// Rows of evenly spaced groups are kept apart. Some values are missing, and some rows not wanted.
#[test]
fn statistics_of_evenly_spaced_groups() {
    const GROUPS: usize = 20_000;
    let collect = |expected: &mut Vec<Vec<f64>>| {
        let mut collected = Collected::<Float64Type>::new(quantile_of, 0.3);
        for round in 0..12usize {
            let rows = 0..GROUPS;
            let groups: Vec<_> = match round % 3 {
                0 => rows.collect(),
                1 => rows.map(|row| row / 4 + row % 4 * (GROUPS / 4)).collect(),
                _ => rows.map(|row| (row * 7) % GROUPS).collect(),
            };
            let value = |row: usize| (row % 97 != 5).then(|| (row * 7919 % 1013 + round) as f64);
            let values: Vec<_> = (0..GROUPS).map(value).collect();
            let wanted = BooleanArray::from_iter((0..GROUPS).map(|row| match row % 400 {
                0..100 => Some(round % 2 == 0),
                399 => None,
                _ => Some(true),
            }));
            for (row, group) in groups.iter().enumerate() {
                let is_wanted = wanted.is_valid(row) && wanted.value(row);
                expected[*group].extend(values[row].filter(|_| is_wanted));
            }
            let values: ArrayRef = Arc::new(Float64Array::from(values));
            GroupsAccumulator::update_batch(
                &mut collected,
                &[values],
                &groups,
                Some(&wanted),
                GROUPS,
            )
            .unwrap();
        }
        assert!(!collected.rows.is_empty());
        collected
    };
    let mut expected = vec![Vec::new(); GROUPS];
    let mut whole = || {
        expected.iter_mut().for_each(Vec::clear);
        let mut one = collect(&mut expected);
        one.absorb(collect(&mut expected));
        one
    };
    let found = GroupsAccumulator::evaluate(&mut whole(), EmitTo::All).unwrap();
    let state = GroupsAccumulator::state(&mut whole(), EmitTo::All).unwrap();
    let parts = whole().split(7).into_iter();
    let parts = parts.map(|mut part| GroupsAccumulator::evaluate(&mut part, EmitTo::All).unwrap());
    let parts: Vec<_> = parts.collect();
    let mut rest = whole();
    let first = GroupsAccumulator::evaluate(&mut rest, EmitTo::First(30)).unwrap();
    let others = GroupsAccumulator::evaluate(&mut rest, EmitTo::All).unwrap();
    let mut merged = Collected::<Float64Type>::new(quantile_of, 0.3);
    let groups: Vec<_> = (0..GROUPS).collect();
    GroupsAccumulator::merge_batch(&mut merged, &state, &groups, GROUPS).unwrap();
    let merged = GroupsAccumulator::evaluate(&mut merged, EmitTo::All).unwrap();
    let expected = expected.iter_mut().map(|values| quantile_of(values, 0.3));
    let expected: Float64Array = expected.collect();
    for found in [vec![found], parts, vec![first, others], vec![merged]] {
        let found = found
            .iter()
            .flat_map(|part| part.as_primitive::<Float64Type>());
        assert!(found.eq(&expected));
    }
}

#[test]
fn vectors_double_up_to_a_number_of_values() {
    let mut collected = Collected::<Float64Type>::new(quantile_of, 0.5);
    double_up_to(&mut collected, 10_000);
    let batch: ArrayRef = Arc::new(Float64Array::from(vec![1.0; 10]));
    let capacities = (0..1000).map(|_| {
        Accumulator::update_batch(&mut collected, std::slice::from_ref(&batch)).unwrap();
        let values = &collected.values[0];
        assert!(collected.capacity <= 4 * values.len());
        values.capacity()
    });
    let mut capacities: Vec<_> = capacities.collect();
    capacities.dedup();
    assert!(
        capacities
            .into_iter()
            .eq((0..10).map(|step| 10 << step).chain([10_000]))
    );
}
