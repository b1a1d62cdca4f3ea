//! The aggregate function `approx_distinct(value)`, also `approx_count_distinct`.
//!
//! DataFusion accepts floating-point arguments when it plans a query, but fails when the query runs. This function
//! counts the distinct bits of such numbers: -0.0 and 0.0 are the same value, and so are all NaN.

use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::approx_distinct::approx_distinct_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator,
};

use crate::provider::functions::forwarding::forward_to_inner;

/// The aggregate function `approx_distinct`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ApproxDistinct {
    /// DataFusion's function.
    inner: Arc<AggregateUDF>,
    aliases: Vec<String>,
}

impl Default for ApproxDistinct {
    fn default() -> Self {
        Self {
            inner: approx_distinct_udaf(),
            aliases: vec!["approx_count_distinct".to_string()],
        }
    }
}

impl AggregateUDFImpl for ApproxDistinct {
    forward_to_inner!();

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let field = bits_field(arguments.expr_fields);
        let accumulator = self.inner.accumulator(replaced(arguments, &field))?;
        Ok(match field {
            Some(_) => Box::new(BitsAccumulator(accumulator)),
            None => accumulator,
        })
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        let field = bits_field(arguments.expr_fields);
        let arguments = replaced(arguments, &field);
        self.inner.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let field = bits_field(arguments.expr_fields);
        let groups = self
            .inner
            .create_groups_accumulator(replaced(arguments, &field))?;
        Ok(match field {
            Some(_) => Box::new(BitsAccumulator(groups)),
            None => groups,
        })
    }
}

/// Returns the arguments with `field`, if there is one, as the field of the values.
fn replaced<'a>(
    arguments: AccumulatorArgs<'a>,
    field: &'a Option<[FieldRef; 1]>,
) -> AccumulatorArgs<'a> {
    AccumulatorArgs {
        expr_fields: field.as_ref().map_or(arguments.expr_fields, |field| field),
        ..arguments
    }
}

/// Returns the field that replaces a floating-point argument by its bits; `None` for other types.
fn bits_field(fields: &[FieldRef]) -> Option<[FieldRef; 1]> {
    let [field] = fields else {
        return None;
    };
    let bits = || Field::new(field.name(), DataType::UInt64, field.is_nullable());
    field.data_type().is_floating().then(|| [bits().into()])
}

/// Casts numbers to doubles and returns their bits. Both zeros have the same bits, and so do all NaN.
fn bits(values: &[ArrayRef]) -> Result<[ArrayRef; 1]> {
    let doubles = cast(&values[0], &DataType::Float64)?;
    let doubles = doubles.as_primitive::<Float64Type>();
    let bits: PrimitiveArray<UInt64Type> = doubles.unary(|value| match value.is_nan() {
        true => f64::NAN.to_bits(),
        // The sum of -0.0 and 0.0 is 0.0.
        false => (value + 0.0).to_bits(),
    });
    Ok([Arc::new(bits)])
}

/// Passes the bits of floating-point numbers to DataFusion's accumulator.
#[derive(Debug)]
struct BitsAccumulator<T>(T);

impl Accumulator for BitsAccumulator<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&bits(values)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }
}

impl GroupsAccumulator for BitsAccumulator<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.0.update_batch(&bits(values)?, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.0.merge_batch(values, groups, count)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(&bits(values)?, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
