//! The aggregate function `quantile(value, fraction)`, also called `percentile_cont`.
//!
//! DataFusion truncates the weight between the two nearest values to six decimals, so that its
//! quantile 0.3 of 0 and 1 is 0.299999. The function in this module interpolates as NumPy does.

use std::fmt::Debug;
use std::hash::Hash;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, PrimitiveArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, FieldRef, Float16Type, Float32Type, Float64Type,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator,
};
use datafusion::physical_expr::expressions::Literal;

use crate::provider::functions::forwarding::forward_to_inner;

/// The exact quantile for a fraction from 0 to 1.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Quantile {
    /// DataFusion's function.
    inner: Arc<AggregateUDF>,
    aliases: Vec<String>,
}

impl Default for Quantile {
    fn default() -> Self {
        let inner = percentile_cont_udaf();
        let mut aliases = inner.aliases().to_vec();
        aliases.push("quantile".to_string());
        Self { inner, aliases }
    }
}

impl AggregateUDFImpl for Quantile {
    forward_to_inner!();

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let Some(fraction) = fraction(&arguments).filter(|_| !arguments.is_distinct) else {
            return self.inner.accumulator(arguments);
        };
        Ok(match arguments.expr_fields[0].data_type() {
            DataType::Float16 => Box::new(QuantileAccumulator::<Float16Type>::new(fraction)),
            DataType::Float32 => Box::new(QuantileAccumulator::<Float32Type>::new(fraction)),
            DataType::Float64 => Box::new(QuantileAccumulator::<Float64Type>::new(fraction)),
            _ => self.inner.accumulator(arguments)?,
        })
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let Some(fraction) = fraction(&arguments) else {
            return self.inner.create_groups_accumulator(arguments);
        };
        Ok(match arguments.expr_fields[0].data_type() {
            DataType::Float16 => Box::new(QuantileAccumulator::<Float16Type>::new(fraction)),
            DataType::Float32 => Box::new(QuantileAccumulator::<Float32Type>::new(fraction)),
            DataType::Float64 => Box::new(QuantileAccumulator::<Float64Type>::new(fraction)),
            _ => self.inner.create_groups_accumulator(arguments)?,
        })
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.simplify()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }
}

/// Returns the fraction for ascending order, or `None` if DataFusion rejects the fraction.
fn fraction(arguments: &AccumulatorArgs) -> Option<f64> {
    let literal = arguments.exprs.get(1)?.downcast_ref::<Literal>()?;
    let ScalarValue::Float64(Some(fraction)) = literal.value().cast_to(&DataType::Float64).ok()?
    else {
        return None;
    };
    let order = arguments.order_bys.first();
    let is_descending = order.is_some_and(|order| order.options.descending);
    let fraction = if is_descending {
        1.0 - fraction
    } else {
        fraction
    };
    (0.0..=1.0).contains(&fraction).then_some(fraction)
}

/// The number of values from which the vector of a group grows by an eighth instead of doubling.
const MANY: usize = 4096;

/// All values of each group.
///
/// The memory pool learns of an accumulator's size after each batch of rows. Therefore the size
/// includes the next growth of every vector, which the pool then grants or refuses before the
/// vector grows.
#[derive(Debug)]
struct QuantileAccumulator<T: ArrowPrimitiveType> {
    fraction: f64,
    values: Vec<Vec<T::Native>>,
    /// The sum of the capacities of the groups' vectors, each after its next growth.
    capacity: usize,
}

/// Returns the capacity of a full vector of this capacity after it grows.
fn grown(capacity: usize) -> usize {
    if capacity < MANY {
        (2 * capacity).max(4)
    } else {
        capacity + capacity / 8
    }
}

impl<T: ArrowPrimitiveType> QuantileAccumulator<T>
where
    T::Native: Into<f64>,
{
    fn new(fraction: f64) -> Self {
        Self {
            fraction,
            values: Vec::new(),
            capacity: 0,
        }
    }

    fn push(&mut self, group: usize, value: T::Native) {
        let values = &mut self.values[group];
        let before = values.capacity();
        if values.len() == before {
            values.reserve_exact(grown(before) - before);
            // A vector without values is not counted.
            let counted = if before == 0 { 0 } else { grown(before) };
            self.capacity += grown(values.capacity()) - counted;
        }
        values.push(value);
    }

    fn append(
        &mut self,
        column: &ArrayRef,
        groups: impl Iterator<Item = usize>,
        count: usize,
        wanted: Option<&BooleanArray>,
    ) {
        self.values
            .resize_with(count.max(self.values.len()), Vec::new);
        for (row, (value, group)) in column.as_primitive::<T>().iter().zip(groups).enumerate() {
            let is_wanted = wanted.is_none_or(|wanted| wanted.is_valid(row) && wanted.value(row));
            if let Some(value) = value.filter(|_| is_wanted) {
                self.push(group, value);
            }
        }
    }

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
                let values = list.as_primitive::<T>().iter().flatten();
                values.for_each(|value| self.push(group, value));
            }
        }
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Vec<T::Native>> {
        let taken = emit_to.take_needed(&mut self.values);
        let capacities = self.values.iter().map(Vec::capacity);
        self.capacity = capacities.filter(|capacity| *capacity > 0).map(grown).sum();
        taken
    }

    fn lists(&self, mut values: Vec<Vec<T::Native>>) -> ArrayRef {
        let offsets = OffsetBuffer::from_lengths(values.iter().map(Vec::len));
        let all = match values.as_mut_slice() {
            // The values of a single group are not copied.
            [values] => PrimitiveArray::<T>::new(std::mem::take(values).into(), None),
            _ => PrimitiveArray::<T>::from_iter_values(values.into_iter().flatten()),
        };
        let item = Arc::new(Field::new_list_field(T::DATA_TYPE, true));
        Arc::new(ListArray::new(item, offsets, Arc::new(all), None))
    }

    fn quantiles(fraction: f64, values: &mut [Vec<T::Native>]) -> Result<ArrayRef> {
        let found = values.iter_mut().map(|values| quantile(values, fraction));
        let found: PrimitiveArray<Float64Type> = found.collect();
        Ok(cast(&found, &T::DATA_TYPE)?)
    }
}

/// Returns the quantile of the values, or `None` if there are none. Reorders the values.
fn quantile<N: Copy + Into<f64>>(values: &mut [N], fraction: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let position = fraction * last as f64;
    let (index, weight) = (position.floor() as usize, position.fract());
    let order = |one: &N, other: &N| (*one).into().total_cmp(&(*other).into());
    let (_, lower, above) = values.select_nth_unstable_by(index.min(last), order);
    let lower: f64 = (*lower).into();
    let upper = above.iter().copied().min_by(order);
    let Some(upper) = upper.filter(|_| weight > 0.0) else {
        return Some(lower);
    };
    let upper: f64 = upper.into();
    Some(match upper - lower {
        // Two equal infinities, whose difference is NaN.
        _ if upper == lower => lower,
        difference if weight < 0.5 => lower + difference * weight,
        difference => upper - difference * (1.0 - weight),
    })
}

impl<T: ArrowPrimitiveType + Debug + Send + Sync> GroupsAccumulator for QuantileAccumulator<T>
where
    T::Native: Into<f64>,
{
    fn update_batch(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.append(&columns[0], groups.iter().copied(), count, wanted);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Self::quantiles(self.fraction, &mut self.take(emit_to))
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
        let mut single = Self::new(self.fraction);
        single.append(&columns[0], 0..rows, rows, wanted);
        let values = single.take(EmitTo::All);
        Ok(vec![self.lists(values)])
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.values.capacity() * size_of::<Vec<T::Native>>()
            + self.capacity * size_of::<T::Native>()
    }
}

impl<T: ArrowPrimitiveType + Debug + Send + Sync> Accumulator for QuantileAccumulator<T>
where
    T::Native: Into<f64>,
{
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let rows = columns[0].len();
        self.append(&columns[0], std::iter::repeat_n(0, rows), 1, None);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.values.resize_with(1, Vec::new);
        // The values stay, since a window function evaluates the accumulator again.
        let found = Self::quantiles(self.fraction, &mut self.values)?;
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
            let gone: f64 = gone.into();
            let index = values.iter().position(|value| {
                let value: f64 = (*value).into();
                value.total_cmp(&gone).is_eq()
            });
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

    /// Memory is reported before it is allocated: after a batch, the values take at most the memory
    /// that the accumulator reported before the batch. An unforeseen excess is bounded by the
    /// batch.
    #[test]
    fn growth_is_reported_before_it_happens() {
        let mut accumulator = QuantileAccumulator::<Float64Type>::new(0.5);
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
        assert_eq!(
            Accumulator::evaluate(&mut accumulator).unwrap(),
            49.5f64.into()
        );
        assert_eq!(accumulator.values[0].len(), 200_000);
        let state = Accumulator::state(&mut accumulator).unwrap();
        assert_eq!(accumulator.capacity, 0);
        let state: Vec<ArrayRef> = state.iter().map(|s| s.to_array().unwrap()).collect();
        Accumulator::merge_batch(&mut accumulator, &state).unwrap();
        assert_eq!(
            Accumulator::evaluate(&mut accumulator).unwrap(),
            49.5f64.into()
        );
    }

    #[test]
    fn fractions_are_used_as_given() {
        // Expected results are from numpy.quantile.
        for (values, fraction, expected) in [
            (vec![0.0, 1.0], 0.3, 0.3),
            (vec![1.0, 0.0], 0.7, 0.7),
            (vec![4.0, 1.0, 2.0, 3.0], 0.1234567, 1.3703701000000001),
            (vec![4.0, 1.0, 2.0, 3.0], 0.999999999, 3.999999997),
            (vec![5.0], 0.25, 5.0),
            (vec![1.0, 2.0, 3.0], 0.5, 2.0),
            (vec![1.0, 2.0, 3.0], 1.0, 3.0),
            (vec![f64::INFINITY, f64::INFINITY], 0.5, f64::INFINITY),
        ] {
            assert_eq!(
                quantile(&mut values.clone(), fraction),
                Some(expected),
                "{values:?}"
            );
        }
        assert_eq!(quantile::<f64>(&mut [], 0.5), None);
    }
}
