//! Accumulators that keep all values of each group, for medians and quantiles.

use std::any::Any;
use std::fmt::Debug;
use std::mem::{size_of_val, take};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, BooleanArray, ListArray, PrimitiveArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// The default of [`Collected::doubled`].
const DOUBLED: usize = 4096;
/// The minimum size in bytes of an accumulator that is split.
const MIN_SPLIT_BYTES: usize = 1 << 20;

/// Calls a macro with each type of numbers that [`Collected`] is used for.
macro_rules! for_each_number {
    ($do:ident) => {
        $do!(Int8Type);
        $do!(Int16Type);
        $do!(Int32Type);
        $do!(Int64Type);
        $do!(UInt8Type);
        $do!(UInt16Type);
        $do!(UInt32Type);
        $do!(UInt64Type);
        $do!(Float16Type);
        $do!(Float32Type);
        $do!(Float64Type);
    };
}
pub(super) use for_each_number;

/// Computes a statistic of values, which it may reorder. The second argument is
/// [`Collected::parameter`].
pub(super) type Statistic<N> = fn(&mut [N], f64) -> Option<N>;

/// All values of each group.
///
/// The memory pool learns of an accumulator's size after each batch of rows. Therefore the size
/// includes the next growth of every vector, which the pool then grants or refuses before the
/// vector grows.
#[derive(Debug)]
pub(super) struct Collected<T: ArrowPrimitiveType> {
    statistic: Statistic<T::Native>,
    /// The parameter of the statistic, such as the fraction of a quantile.
    parameter: f64,
    values: Vec<Vec<T::Native>>,
    /// The values of absorbed accumulators, by accumulator and group.
    absorbed: Vec<Vec<Vec<T::Native>>>,
    /// The sum of the capacities of the groups' vectors, each after its next growth.
    capacity: usize,
    /// The number of values up to which the vector of a group doubles. It grows by an eighth from then on.
    doubled: usize,
}

impl<T: ArrowPrimitiveType> Collected<T> {
    pub fn new(statistic: Statistic<T::Native>, parameter: f64) -> Self {
        Self {
            statistic,
            parameter,
            values: Vec::new(),
            absorbed: Vec::new(),
            capacity: 0,
            doubled: DOUBLED,
        }
    }

    /// Returns the capacity of a full vector of this capacity after it grows.
    fn grown(&self, capacity: usize) -> usize {
        match capacity < self.doubled {
            true => (2 * capacity).clamp(4, self.doubled),
            false => capacity + capacity / 8,
        }
    }

    /// Adds values to a group.
    fn extend(&mut self, group: usize, added: &[T::Native]) {
        let before = self.values[group].capacity();
        let length = self.values[group].len() + added.len();
        if length > before {
            let grown = self.grown(before);
            let values = &mut self.values[group];
            values.reserve_exact(grown.max(length) - values.len());
            let after = values.capacity();
            // A vector without values is not counted.
            self.capacity += self.grown(after) - if before == 0 { 0 } else { grown };
        }
        self.values[group].extend_from_slice(added);
    }

    /// Adds the values of a column. `groups` are the groups of its rows, and `count` is their number.
    fn append(
        &mut self,
        column: &ArrayRef,
        groups: &[usize],
        count: usize,
        wanted: Option<&BooleanArray>,
    ) {
        self.values
            .resize_with(count.max(self.values.len()), Vec::new);
        let column = column.as_primitive::<T>();
        if column.null_count() > 0 || wanted.is_some() {
            let is_wanted =
                |row| wanted.is_none_or(|wanted| wanted.is_valid(row) && wanted.value(row));
            for (row, group) in groups.iter().enumerate() {
                if column.is_valid(row) && is_wanted(row) {
                    self.extend(*group, &[column.value(row)]);
                }
            }
            return;
        }
        let mut rest = column.values().as_ref();
        for run in groups.chunk_by(|one, other| one == other) {
            let (values, others) = rest.split_at(run.len());
            self.extend(run[0], values);
            rest = others;
        }
    }

    /// Adds lists of values.
    fn merge(
        &mut self,
        states: &[ArrayRef],
        groups: impl Iterator<Item = usize>,
        count: usize,
    ) -> Result<()> {
        let [lists] = states else {
            return internal_err!("one column of lists is expected");
        };
        self.values
            .resize_with(count.max(self.values.len()), Vec::new);
        for (list, group) in lists.as_list::<i32>().iter().zip(groups) {
            if let Some(list) = list {
                let list = list.as_primitive::<T>();
                match list.null_count() {
                    0 => self.extend(group, list.values()),
                    _ => list
                        .iter()
                        .flatten()
                        .for_each(|value| self.extend(group, &[value])),
                }
            }
        }
        Ok(())
    }

    /// Adds the values of another accumulator without copying them.
    fn absorb(&mut self, mut other: Self) {
        self.capacity += other.capacity;
        self.absorbed.append(&mut other.absorbed);
        self.absorbed.push(other.values);
    }

    /// Moves the absorbed values of a group to its other values.
    fn unite(&mut self, group: usize) {
        for others in &mut self.absorbed {
            if let (Some(values), Some(others)) =
                (self.values.get_mut(group), others.get_mut(group))
            {
                match values.is_empty() {
                    true => *values = take(others),
                    false => values.append(&mut take(others)),
                }
            }
        }
    }

    /// Splits the groups, in order, among at most `parts` accumulators.
    fn split(mut self, parts: usize) -> Vec<Self> {
        let mut others = std::mem::take(&mut self.absorbed);
        let groups = others.iter().map(Vec::len);
        let groups = groups.fold(self.values.len(), usize::max);
        let all = std::iter::once(&mut self.values).chain(&mut others);
        all.for_each(|values| values.resize_with(groups, Vec::new));
        let length = groups.div_ceil(parts.max(1)).max(1);
        let starts = (0..groups).step_by(length).rev();
        let split = starts.map(|start| Self {
            values: self.values.split_off(start),
            absorbed: others
                .iter_mut()
                .map(|values| values.split_off(start))
                .collect(),
            ..Self::new(self.statistic, self.parameter)
        });
        let split: Vec<_> = split.collect();
        split.into_iter().rev().collect()
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Vec<T::Native>> {
        let groups = self.absorbed.iter().map(Vec::len);
        let groups = groups.fold(self.values.len(), usize::max);
        self.values.resize_with(groups, Vec::new);
        (0..self.values.len()).for_each(|group| self.unite(group));
        self.absorbed.clear();
        let taken = emit_to.take_needed(&mut self.values);
        let capacities = self.values.iter().map(Vec::capacity);
        let capacities = capacities.filter(|capacity| *capacity > 0);
        self.capacity = capacities.map(|capacity| self.grown(capacity)).sum();
        taken
    }

    fn lists(&self, mut values: Vec<Vec<T::Native>>) -> ArrayRef {
        let offsets = OffsetBuffer::from_lengths(values.iter().map(Vec::len));
        let all = match values.as_mut_slice() {
            // The values of a single group are not copied.
            [values] => PrimitiveArray::<T>::new(take(values).into(), None),
            _ => PrimitiveArray::<T>::from_iter_values(values.into_iter().flatten()),
        };
        let item = Arc::new(Field::new_list_field(T::DATA_TYPE, true));
        Arc::new(ListArray::new(item, offsets, Arc::new(all), None))
    }

    /// Returns the statistic of each group, whose values it reorders.
    fn statistics(&self, groups: &mut [Vec<T::Native>]) -> ArrayRef {
        let found = groups.iter_mut();
        let found = found.map(|values| (self.statistic)(values, self.parameter));
        Arc::new(found.collect::<PrimitiveArray<T>>())
    }
}

/// Lets the vector of a group double up to this number of values, if the accumulator is [`Collected`] and has no values.
/// Values are copied when a vector grows. The accumulator takes at most about four times the memory of its values.
pub(crate) fn double_up_to(accumulator: &mut dyn GroupsAccumulator, values: usize) {
    macro_rules! try_double {
        ($t:ty) => {
            if let Some(collected) = (accumulator as &mut dyn Any).downcast_mut::<Collected<$t>>() {
                return collected.doubled = values.max(DOUBLED);
            }
        };
    }
    for_each_number!(try_double);
}

/// Splits [`Collected`] of at least [`MIN_SPLIT_BYTES`] into at most `parts` accumulators, with the groups in order. Returns
/// any other accumulator unchanged.
pub(crate) fn split(
    accumulator: Box<dyn GroupsAccumulator>,
    parts: usize,
) -> Vec<Box<dyn GroupsAccumulator>> {
    if accumulator.size() < MIN_SPLIT_BYTES {
        return vec![accumulator];
    }
    macro_rules! try_split {
        ($t:ty) => {
            if (accumulator.as_ref() as &dyn Any).is::<Collected<$t>>() {
                let any: Box<dyn Any> = accumulator;
                let parts = any.downcast::<Collected<$t>>().map(|all| all.split(parts));
                let parts = parts.into_iter().flatten();
                return parts.map(|part| Box::new(part) as _).collect();
            }
        };
    }
    for_each_number!(try_split);
    vec![accumulator]
}

/// Moves the values of an accumulator to another one, if both are [`Collected`]. Otherwise returns the
/// accumulator.
pub(crate) fn absorb(
    accumulator: &mut dyn GroupsAccumulator,
    other: Box<dyn GroupsAccumulator>,
) -> Option<Box<dyn GroupsAccumulator>> {
    macro_rules! try_absorb {
        ($t:ty) => {
            let one: &mut dyn Any = accumulator;
            let is_same = (other.as_ref() as &dyn Any).is::<Collected<$t>>();
            if let Some(one) = one.downcast_mut::<Collected<$t>>().filter(|_| is_same) {
                let other: Box<dyn Any> = other;
                if let Ok(other) = other.downcast::<Collected<$t>>() {
                    one.absorb(*other);
                }
                return None;
            }
        };
    }
    for_each_number!(try_absorb);
    Some(other)
}

impl<T: ArrowPrimitiveType + Debug> GroupsAccumulator for Collected<T> {
    fn update_batch(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.append(&columns[0], groups, count, wanted);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let mut groups = self.take(emit_to);
        Ok(self.statistics(&mut groups))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let values = self.take(emit_to);
        Ok(vec![self.lists(values)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.merge(states, groups.iter().copied(), count)
    }

    fn convert_to_state(
        &self,
        columns: &[ArrayRef],
        wanted: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = columns[0].len();
        let mut single = Self::new(self.statistic, self.parameter);
        single.append(&columns[0], &(0..rows).collect::<Vec<_>>(), rows, wanted);
        let values = single.take(EmitTo::All);
        Ok(vec![self.lists(values)])
    }

    fn size(&self) -> usize {
        let groups = self.absorbed.iter().map(Vec::capacity).sum::<usize>();
        size_of_val(self)
            + (groups + self.values.capacity()) * size_of::<Vec<T::Native>>()
            + self.capacity * size_of::<T::Native>()
    }
}

impl<T: ArrowPrimitiveType + Debug> Accumulator for Collected<T> {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.append(&columns[0], &vec![0; columns[0].len()], 1, None);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.values.resize_with(1, Vec::new);
        // The values stay, since a window function evaluates the accumulator again.
        let mut values = take(&mut self.values);
        let found = self.statistics(&mut values);
        self.values = values;
        ScalarValue::try_from_array(&found, 0)
    }

    fn size(&self) -> usize {
        GroupsAccumulator::size(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.resize_with(1, Vec::new);
        let values = self.take(EmitTo::All);
        Ok(vec![ScalarValue::List(Arc::new(
            self.lists(values).as_list::<i32>().clone(),
        ))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |lists| lists.len());
        self.merge(states, std::iter::repeat_n(0, rows), 1)
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let Some(values) = self.values.first_mut() else {
            return Ok(());
        };
        for gone in columns[0].as_primitive::<T>().iter().flatten() {
            let index = values.iter().position(|value| value.is_eq(gone));
            if let Some(index) = index {
                values.swap_remove(index);
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Float64Array;

    use super::*;
    use crate::provider::functions::quantile::quantile_of;

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
            GroupsAccumulator::update_batch(&mut collected, &[values], groups, None, count)
                .unwrap();
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
}
