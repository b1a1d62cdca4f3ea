//! Accumulators that keep all values of each group, for medians and quantiles.

use std::any::Any;
use std::fmt::Debug;
use std::iter::repeat_n;
use std::mem::{size_of_val, take};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, BooleanArray, PrimitiveArray, PrimitiveBuilder,
};
use arrow::datatypes::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::provider::functions::order_statistics::columns::{kept_rows, lists};
use crate::provider::functions::order_statistics::spaced_rows::{MAX_STRIDE, SpacedRows};

/// The default of [`Collected::doubled`].
const DOUBLED: usize = 4096;
/// The minimum size in bytes of an accumulator that is split.
const MIN_SPLIT_BYTES: usize = 1 << 20;
/// The minimum number of groups for which rows of evenly spaced groups are kept as such.
const MIN_GROUPS: usize = 1 << 14;
/// The minimum number of such rows.
const MIN_RUN: usize = 16;
/// The approximate number of values that are distributed among their groups at a time, if [`MAX_RANGES`] suffice.
const DISTRIBUTED: usize = 1 << 16;
/// The maximum number of ranges of groups.
const MAX_RANGES: usize = 8192;

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
    /// More values, which are not distributed among the groups yet.
    rows: SpacedRows<T::Native>,
    /// The rows of an accumulator that was split, and the group among them that is the first one here. The rows are sorted.
    shared: Option<(Arc<SpacedRows<T::Native>>, usize)>,
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
            rows: SpacedRows::default(),
            shared: None,
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
        let kept = kept_rows(column, wanted);
        let values = column.values();
        match kept {
            None => self.append_rows(values, groups),
            Some(kept) => {
                for (start, end) in kept.set_slices() {
                    self.append_rows(&values[start..end], &groups[start..end]);
                }
            }
        }
    }

    /// Adds the values of rows.
    fn append_rows(&mut self, mut values: &[T::Native], mut groups: &[usize]) {
        let has_many_groups = self.values.len() >= MIN_GROUPS;
        while let Some(first) = groups.first() {
            let next = groups.get(1).and_then(|next| next.checked_sub(*first));
            let stride = next.filter(|stride| *stride <= MAX_STRIDE);
            let count = stride.map_or(1, |stride| {
                let is_next = |pair: &&[usize]| pair[1] == pair[0].wrapping_add(stride);
                1 + groups.windows(2).take_while(is_next).count()
            });
            let run = &values[..count];
            match stride {
                Some(0) => self.extend(*first, run),
                Some(stride) if has_many_groups && count >= MIN_RUN => {
                    self.rows.push(*first, stride, run);
                }
                _ => self.extend_each(&groups[..count], run),
            }
            (values, groups) = (&values[count..], &groups[count..]);
        }
    }

    /// Adds one value to each group.
    fn extend_each(&mut self, groups: &[usize], values: &[T::Native]) {
        for (group, value) in groups.iter().zip(values) {
            self.extend(*group, &[*value]);
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
        other.distribute_shared();
        self.capacity += other.capacity;
        self.absorbed.append(&mut other.absorbed);
        self.absorbed.push(other.values);
        self.rows.append(other.rows);
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
        self.distribute_shared();
        self.rows.sort();
        let rows = Arc::new(take(&mut self.rows));
        let split = starts.map(|start| Self {
            values: self.values.split_off(start),
            shared: (!rows.is_empty()).then(|| (Arc::clone(&rows), start)),
            absorbed: others
                .iter_mut()
                .map(|values| values.split_off(start))
                .collect(),
            ..Self::new(self.statistic, self.parameter)
        });
        let split: Vec<_> = split.collect();
        split.into_iter().rev().collect()
    }

    /// Distributes shared rows among the groups.
    fn distribute_shared(&mut self) {
        if let Some((rows, first)) = self.shared.take() {
            let groups = first..first + self.values.len();
            rows.for_each_in(groups, |group, value| self.extend(group, &[value]));
        }
    }

    /// Returns the number of groups, and makes room for the values of each.
    fn count_groups(&mut self) -> usize {
        let groups = self.absorbed.iter().map(Vec::len);
        let groups = groups.fold(self.values.len(), usize::max);
        self.values.resize_with(groups, Vec::new);
        groups
    }

    /// Gives each group its values, and takes those of some groups.
    fn take(&mut self, emit_to: EmitTo) -> Vec<Vec<T::Native>> {
        let groups = self.count_groups();
        self.distribute_shared();
        take(&mut self.rows).drain(|group, value| self.extend(group, &[value]));
        (0..groups).for_each(|group| self.unite(group));
        self.absorbed.clear();
        let taken = emit_to.take_needed(&mut self.values);
        let capacities = self.values.iter().map(Vec::capacity);
        let capacities = capacities.filter(|capacity| *capacity > 0);
        self.capacity = capacities.map(|capacity| self.grown(capacity)).sum();
        taken
    }

    /// Takes all values, and calls `add` with those of each group. Distributes the rows among some groups at a time.
    fn take_each(&mut self, mut add: impl FnMut(&mut [T::Native])) {
        let (rows, first) = self.shared.take().unwrap_or_else(|| {
            let mut rows = take(&mut self.rows);
            rows.sort();
            (Arc::new(rows), 0)
        });
        let mut groups = self.take(EmitTo::All);
        let total = rows.count(first..first + groups.len());
        let most = DISTRIBUTED.max(total / MAX_RANGES);
        let step = most * groups.len() / total.max(1);
        let step = step.clamp(MAX_STRIDE, groups.len().max(MAX_STRIDE));
        let mut distributed = vec![Vec::new(); step.min(groups.len())];
        let mut start = 0;
        while start < groups.len() {
            let mut end = groups.len().min(start + step);
            // Some groups have more values than others.
            while end - start > 1 && rows.count(first + start..first + end) > 4 * most {
                end = start + (end - start) / 2;
            }
            let range = first + start..first + end;
            rows.for_each_in(range, |index, value| distributed[index].push(value));
            for (others, values) in groups[start..end].iter_mut().zip(&mut distributed) {
                if others.len() > values.len() {
                    std::mem::swap(others, values);
                }
                values.append(&mut take(others));
                add(values);
                values.clear();
            }
            start = end;
        }
    }

    /// Returns the statistic of each group.
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
        if !matches!(emit_to, EmitTo::All) {
            let mut groups = self.take(emit_to);
            return Ok(self.statistics(&mut groups));
        }
        let (statistic, parameter) = (self.statistic, self.parameter);
        let mut found = PrimitiveBuilder::<T>::with_capacity(self.count_groups());
        self.take_each(|values| found.append_option(statistic(values, parameter)));
        Ok(Arc::new(found.finish()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let mut values = Vec::new();
        let mut lengths = Vec::new();
        let mut add = |of_group: &[T::Native]| {
            values.extend_from_slice(of_group);
            lengths.push(of_group.len());
        };
        match emit_to {
            EmitTo::All => self.take_each(|values| add(values)),
            EmitTo::First(_) => self.take(emit_to).iter().for_each(|values| add(values)),
        }
        Ok(vec![lists::<T>(values, lengths)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.merge(states, groups.iter().copied(), count)
    }

    fn convert_to_state(
        &self,
        columns: &[ArrayRef],
        wanted: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let column = columns[0].as_primitive::<T>();
        let Some(kept) = kept_rows(column, wanted) else {
            let values = column.values().to_vec();
            return Ok(vec![lists::<T>(values, repeat_n(1, column.len()))]);
        };
        let kept_values = kept.set_indices().map(|row| column.value(row)).collect();
        let lengths = kept.iter().map(usize::from);
        Ok(vec![lists::<T>(kept_values, lengths)])
    }

    fn size(&self) -> usize {
        let groups = self.absorbed.iter().map(Vec::capacity).sum::<usize>();
        // The pool may learn of the size only once each group has another row.
        let rows_ahead = match self.rows.is_empty() {
            true => 0,
            false => self.values.len(),
        };
        size_of_val(self)
            + (groups + self.values.capacity()) * size_of::<Vec<T::Native>>()
            + self.capacity * size_of::<T::Native>()
            + self.rows.bytes()
            + rows_ahead * size_of::<T::Native>()
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
        // The values of the only group are not copied.
        let values = self.take(EmitTo::All).pop().unwrap_or_default();
        let count = values.len();
        let list = lists::<T>(values, [count]);
        Ok(vec![ScalarValue::List(Arc::new(
            list.as_list::<i32>().clone(),
        ))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |lists| lists.len());
        self.merge(states, repeat_n(0, rows), 1)
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
mod tests;
