//! The aggregates `tet_nth_smallest` and `tet_nth_largest`, which bound the first rows of a sort.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, BooleanArray, ListArray, PrimitiveArray,
    downcast_primitive,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;

/// Returns the n-th smallest or n-th largest value that is not null; null if there are fewer than `n`. Equal values count one by one.
/// `n` is the second argument, a positive `UInt32` literal. Numbers compare by their total order, as in `ORDER BY`.
///
/// SQL cannot call the function, because [`enable_arrays`](crate::enable_arrays) does not register it. Plans use it to select the
/// rows that can have one of the first `n` ranks.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct NthExtreme {
    is_largest: bool,
    signature: Signature,
}

impl NthExtreme {
    const SMALLEST: &str = "tet_nth_smallest";
    const LARGEST: &str = "tet_nth_largest";

    /// Creates the function.
    pub fn new(is_largest: bool) -> Self {
        Self {
            is_largest,
            signature: Signature::any(2, Volatility::Immutable),
        }
    }

    /// Returns the function of this name.
    #[cfg(feature = "proto")]
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::new(false), Self::new(true)]
            .into_iter()
            .find(|function| function.name() == name)
    }

    /// Creates an accumulator that starts with `count` empty groups.
    fn groups(
        &self,
        arguments: &AccumulatorArgs,
        count: usize,
    ) -> Result<Box<dyn GroupsAccumulator + Sync>> {
        let literal = arguments
            .exprs
            .get(1)
            .and_then(|n| n.downcast_ref::<Literal>());
        let n = literal.and_then(|literal| match literal.value() {
            ScalarValue::UInt32(Some(n)) => Some(*n as usize),
            _ => None,
        });
        if arguments.is_distinct {
            return exec_err!("{} does not take DISTINCT", self.name());
        }
        let Some(n) = n.filter(|n| *n > 0) else {
            return exec_err!(
                "the second argument of {} is not a positive UInt32 literal",
                self.name()
            );
        };
        let data_type = arguments.return_field.data_type();
        macro_rules! groups {
            ($type:ty) => {
                Ok(Box::new(FirstValues::<$type> {
                    is_largest: self.is_largest,
                    n,
                    data_type: data_type.clone(),
                    groups: vec![Vec::new(); count],
                    count: 0,
                }))
            };
        }
        downcast_primitive! {
            data_type => (groups),
            other => exec_err!("{} does not order values of type {other}", self.name()),
        }
    }
}

impl AggregateUDFImpl for NthExtreme {
    fn name(&self) -> &str {
        match self.is_largest {
            true => Self::LARGEST,
            false => Self::SMALLEST,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [values, _] => Ok(values.clone()),
            _ => exec_err!("{} takes two arguments", self.name()),
        }
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup(self.groups(&arguments, 1)?)))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let name = format!("{}[values]", arguments.name);
        let values = arguments.return_type().clone();
        Ok(vec![Arc::new(Field::new_list(
            name,
            Field::new_list_field(values, true),
            true,
        ))])
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(self.groups(&arguments, 0)?)
    }
}

/// The first values of each group in ascending or descending order.
struct FirstValues<T: ArrowPrimitiveType> {
    is_largest: bool,
    /// The maximum number of values kept per group.
    n: usize,
    data_type: DataType,
    groups: Vec<Vec<T::Native>>,
    /// The number of values kept in all groups.
    count: usize,
}

impl<T: ArrowPrimitiveType> FirstValues<T> {
    fn is_before(&self, one: T::Native, other: T::Native) -> bool {
        match self.is_largest {
            true => one.is_gt(other),
            false => one.is_lt(other),
        }
    }

    fn add(&mut self, group: usize, value: T::Native) {
        let first = &self.groups[group];
        let is_full = first.len() == self.n;
        if is_full
            && first
                .last()
                .is_some_and(|last| !self.is_before(value, *last))
        {
            return;
        }
        let index = first.partition_point(|known| !self.is_before(value, *known));
        let first = &mut self.groups[group];
        match is_full {
            true => _ = first.pop(),
            false => self.count += 1,
        }
        first.insert(index, value);
    }

    fn array(&self, values: Vec<Option<T::Native>>) -> ArrayRef {
        let values = PrimitiveArray::<T>::from_iter(values);
        Arc::new(values.with_data_type(self.data_type.clone()))
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Vec<T::Native>> {
        let taken = emit_to.take_needed(&mut self.groups);
        self.count -= taken.iter().map(Vec::len).sum::<usize>();
        taken
    }
}

impl<T: ArrowPrimitiveType + Send> GroupsAccumulator for FirstValues<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize(total.max(self.groups.len()), Vec::new());
        let Some(values) = values[0].as_primitive_opt::<T>() else {
            return internal_err!("expected values of type {}", self.data_type);
        };
        for (row, (value, group)) in values.values().iter().zip(groups).enumerate() {
            let is_selected = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if is_selected && values.is_valid(row) {
                self.add(*group, *value);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize(total.max(self.groups.len()), Vec::new());
        let lists = states[0].as_list::<i32>();
        let Some(values) = lists.values().as_primitive_opt::<T>() else {
            return internal_err!("expected values of type {}", self.data_type);
        };
        for (bounds, group) in lists.value_offsets().windows(2).zip(groups) {
            for value in &values.values()[bounds[0] as usize..bounds[1] as usize] {
                self.add(*group, *value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let nth = self.n - 1;
        let groups = self.take(emit_to).into_iter();
        Ok(self.array(groups.map(|first| first.get(nth).copied()).collect()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = self.take(emit_to);
        let offsets = OffsetBuffer::from_lengths(groups.iter().map(Vec::len));
        let values = self.array(groups.into_iter().flatten().map(Some).collect());
        let field = Field::new_list_field(self.data_type.clone(), true);
        let lists = ListArray::try_new(Arc::new(field), offsets, values, None)?;
        Ok(vec![Arc::new(lists)])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let mut each = Self {
            data_type: self.data_type.clone(),
            groups: Vec::new(),
            count: 0,
            ..*self
        };
        let rows: Vec<usize> = (0..values[0].len()).collect();
        each.update_batch(values, &rows, filter, rows.len())?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        // A vector has room for a few values, and for at most twice its length.
        let of_group = size_of::<Vec<T::Native>>() + 4 * size_of::<T::Native>();
        self.groups.capacity() * of_group + 2 * self.count * size_of::<T::Native>()
    }
}

/// The accumulator of an aggregation without groups, as that of a single group.
struct OneGroup(Box<dyn GroupsAccumulator + Sync>);

impl std::fmt::Debug for OneGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OneGroup")
    }
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0
            .update_batch(values, &vec![0; values[0].len()], None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states, &vec![0; states[0].len()], 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.0.evaluate(EmitTo::All)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = self.0.state(EmitTo::All)?;
        let states = states
            .iter()
            .map(|state| ScalarValue::try_from_array(state, 0));
        states.collect()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float32Array, Int32Array};
    use arrow::datatypes::{Float32Type, Int32Type};

    use super::*;

    fn first<T: ArrowPrimitiveType>(is_largest: bool) -> FirstValues<T> {
        FirstValues {
            is_largest,
            n: 2,
            data_type: T::DATA_TYPE,
            groups: Vec::new(),
            count: 0,
        }
    }

    #[test]
    fn states_are_merged() {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![
            Some(5),
            Some(1),
            None,
            Some(5),
            Some(7),
            Some(3),
        ]));
        let groups = [0, 0, 0, 0, 1, 2];
        let filter = BooleanArray::from(vec![true, true, true, true, true, false]);
        let mut one = first::<Int32Type>(true);
        one.update_batch(&[Arc::clone(&values)], &groups, Some(&filter), 4)
            .unwrap();
        let each = one.convert_to_state(&[values], Some(&filter)).unwrap();
        let state = one.state(EmitTo::All).unwrap();
        assert_eq!(one.count, 0);
        let mut merged = first::<Int32Type>(true);
        merged.merge_batch(&state, &[0, 1, 2, 3], 4).unwrap();
        assert_eq!(merged.count, 3);
        let seconds =
            |found: ArrayRef| found.as_primitive::<Int32Type>().iter().collect::<Vec<_>>();
        assert_eq!(
            seconds(merged.evaluate(EmitTo::First(1)).unwrap()),
            [Some(5)]
        );
        assert_eq!(merged.count, 1);
        // The groups after the first that was emitted.
        merged.merge_batch(&each, &[9, 9, 9, 9, 0, 0], 10).unwrap();
        let found = seconds(merged.evaluate(EmitTo::All).unwrap());
        assert_eq!((found[0], found[1], found[9]), (Some(7), None, Some(5)));
    }

    #[test]
    fn numbers_have_a_total_order() {
        let values: ArrayRef = Arc::new(Float32Array::from(vec![
            0.0,
            f32::NAN,
            -0.0,
            1.0,
            f32::NEG_INFINITY,
        ]));
        for (is_largest, expected) in [(true, 1.0f32), (false, -0.0)] {
            let mut all = first::<Float32Type>(is_largest);
            all.update_batch(&[Arc::clone(&values)], &[0; 5], None, 1)
                .unwrap();
            let found = all.evaluate(EmitTo::All).unwrap();
            let found = found.as_primitive::<Float32Type>().value(0);
            assert_eq!(found.to_bits(), expected.to_bits());
        }
    }
}
