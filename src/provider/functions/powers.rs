//! The aggregate functions `product`, `norm_l1` and `norm_l2`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

/// The reduction of values that a [`PowerSum`] computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Power {
    /// The product of the values.
    Product,
    /// The sum of the absolute values.
    Magnitudes,
    /// The square root of the sum of squares.
    Squares,
}

impl Power {
    fn start(self) -> f64 {
        match self {
            Self::Product => 1.0,
            Self::Magnitudes | Self::Squares => 0.0,
        }
    }

    fn add(self, state: f64, value: f64) -> f64 {
        match self {
            Self::Product => state * value,
            Self::Magnitudes => state + value.abs(),
            Self::Squares => state + value * value,
        }
    }

    fn merge(self, one: f64, other: f64) -> f64 {
        match self {
            Self::Product => one * other,
            Self::Magnitudes | Self::Squares => one + other,
        }
    }

    fn finish(self, state: f64) -> f64 {
        match self {
            Self::Product | Self::Magnitudes => state,
            Self::Squares => state.sqrt(),
        }
    }
}

/// `product(value)`, `norm_l1(value)` or `norm_l2(value)`. Values are converted to doubles, and the
/// result without values is null.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct PowerSum {
    power: Power,
    signature: Signature,
}

impl PowerSum {
    /// Creates the function for this reduction.
    pub fn new(power: Power) -> Self {
        Self {
            power,
            signature: Signature::exact(vec![DataType::Float64], Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for PowerSum {
    fn name(&self) -> &str {
        match self.power {
            Power::Product => "product",
            Power::Magnitudes => "norm_l1",
            Power::Squares => "norm_l2",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if arguments.is_distinct {
            return exec_err!("{} does not take DISTINCT", self.name());
        }
        Ok(Box::new(PowerSumAccumulator::new(self.power)))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(
            format!("{}[{}]", arguments.name, self.name()),
            DataType::Float64,
            true,
        ))])
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(PowerSumAccumulator::new(self.power)))
    }
}

/// The partial states of all groups. `seen` marks the groups that have a value: NaN cannot mark the
/// others, because it is also the result for values that are NaN.
#[derive(Debug)]
struct PowerSumAccumulator {
    power: Power,
    states: Vec<f64>,
    seen: Vec<bool>,
}

impl PowerSumAccumulator {
    fn new(power: Power) -> Self {
        Self {
            power,
            states: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn change(
        &mut self,
        values: &ArrayRef,
        groups: impl Iterator<Item = usize>,
        count: usize,
        wanted: Option<&BooleanArray>,
        change: fn(Power, f64, f64) -> f64,
    ) {
        self.states
            .resize(count.max(self.states.len()), self.power.start());
        self.seen.resize(self.states.len(), false);
        let values = values.as_primitive::<Float64Type>();
        for (row, group) in groups.enumerate() {
            let counts = values.is_valid(row)
                && wanted.is_none_or(|wanted| wanted.is_valid(row) && wanted.value(row));
            if counts {
                self.states[group] = change(self.power, self.states[group], values.value(row));
                self.seen[group] = true;
            }
        }
    }

    fn take(&mut self, emit_to: EmitTo, finish: impl Fn(f64) -> f64) -> Float64Array {
        let states = emit_to.take_needed(&mut self.states);
        let seen = emit_to.take_needed(&mut self.seen);
        let values = states.into_iter().zip(seen);
        values
            .map(|(state, seen)| seen.then(|| finish(state)))
            .collect()
    }
}

impl GroupsAccumulator for PowerSumAccumulator {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.change(
            &values[0],
            groups.iter().copied(),
            count,
            wanted,
            Power::add,
        );
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let power = self.power;
        Ok(Arc::new(self.take(emit_to, |state| power.finish(state))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.take(emit_to, |state| state))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.change(
            &states[0],
            groups.iter().copied(),
            count,
            None,
            Power::merge,
        );
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        wanted: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let mut each = Self::new(self.power);
        let rows = values[0].len();
        each.change(&values[0], 0..rows, rows, wanted, Power::add);
        GroupsAccumulator::state(&mut each, EmitTo::All)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.states.capacity() * 8 + self.seen.capacity()
    }
}

impl Accumulator for PowerSumAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values[0].len();
        self.change(
            &values[0],
            std::iter::repeat_n(0, rows),
            1,
            None,
            Power::add,
        );
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let seen = self.seen.first().copied().unwrap_or(false);
        let state = self.states.first().filter(|_| seen);
        Ok(ScalarValue::Float64(
            state.map(|state| self.power.finish(*state)),
        ))
    }

    fn size(&self) -> usize {
        GroupsAccumulator::size(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let seen = self.seen.first().copied().unwrap_or(false);
        let state = self.states.first().copied().filter(|_| seen);
        Ok(vec![ScalarValue::Float64(state)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states[0].len();
        self.change(
            &states[0],
            std::iter::repeat_n(0, rows),
            1,
            None,
            Power::merge,
        );
        Ok(())
    }
}
