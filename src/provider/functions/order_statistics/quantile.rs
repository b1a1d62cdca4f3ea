//! The aggregate function `quantile(value, fraction)`, also called `percentile_cont`.
//!
//! DataFusion truncates the weight between the two nearest values to six decimals, so that its
//! quantile 0.3 of 0 and 1 is 0.299999. The function in this module interpolates as NumPy does. DataFusion also replaces
//! the quantiles 0 and 1 by its own min and max, which are wrong for groups with NaN.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, FieldRef, Float16Type, Float32Type, Float64Type,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator};
use datafusion::physical_expr::expressions::Literal;
use half::f16;

use crate::provider::functions::forwarding::forward_to_inner;
use crate::provider::functions::order_statistics::collected::Collected;

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
        let Some(fraction) = fraction(&arguments) else {
            return self.inner.accumulator(arguments);
        };
        let data_type = arguments.expr_fields[0].data_type().clone();
        if arguments.is_distinct {
            let inner = self.inner.accumulator(arguments)?;
            return Ok(match data_type {
                DataType::Float16 => Box::new(Distinct::<Float16Type>::new(inner, fraction)),
                DataType::Float32 => Box::new(Distinct::<Float32Type>::new(inner, fraction)),
                DataType::Float64 => Box::new(Distinct::<Float64Type>::new(inner, fraction)),
                _ => inner,
            });
        }
        Ok(match data_type {
            DataType::Float16 => Box::new(Collected::<Float16Type>::new(quantile_of, fraction)),
            DataType::Float32 => Box::new(Collected::<Float32Type>::new(quantile_of, fraction)),
            DataType::Float64 => Box::new(Collected::<Float64Type>::new(quantile_of, fraction)),
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
            DataType::Float16 => Box::new(Collected::<Float16Type>::new(quantile_of, fraction)),
            DataType::Float32 => Box::new(Collected::<Float32Type>::new(quantile_of, fraction)),
            DataType::Float64 => Box::new(Collected::<Float64Type>::new(quantile_of, fraction)),
            _ => self.inner.create_groups_accumulator(arguments)?,
        })
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

/// The quantile of the different values that DataFusion's accumulator keeps.
#[derive(Debug)]
struct Distinct<T> {
    inner: Box<dyn Accumulator>,
    fraction: f64,
    of: PhantomData<fn() -> T>,
}

impl<T> Distinct<T> {
    fn new(inner: Box<dyn Accumulator>, fraction: f64) -> Self {
        let of = PhantomData;
        Self {
            inner,
            fraction,
            of,
        }
    }
}

impl<T: ArrowPrimitiveType<Native: Real> + Debug> Accumulator for Distinct<T> {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(columns)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.inner.state()?;
        let [ScalarValue::List(list)] = state.as_slice() else {
            return internal_err!("one list is expected, found {state:?}");
        };
        let values = list.values().as_primitive::<T>();
        let mut values = values.values().to_vec();
        // Both zeros, and NaN of any bits, are one value.
        let number = |value: &T::Native| -> f64 { (*value).into() };
        values.sort_unstable_by(|one, other| number(one).total_cmp(&number(other)));
        values.dedup_by(|one, other| {
            let (one, other) = (number(one), number(other));
            one == other || one.is_nan() && other.is_nan()
        });
        let found = quantile_of(&mut values, self.fraction);
        ScalarValue::new_primitive::<T>(found, &T::DATA_TYPE)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(columns)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// A floating-point number.
pub(super) trait Real: Copy + Into<f64> {
    fn from_f64(number: f64) -> Self;
}

impl Real for f16 {
    fn from_f64(number: f64) -> Self {
        f16::from_f64(number)
    }
}

impl Real for f32 {
    fn from_f64(number: f64) -> Self {
        number as f32
    }
}

impl Real for f64 {
    fn from_f64(number: f64) -> Self {
        number
    }
}

/// Returns the quantile of the values in their type, or `None` if there are none. Reorders the values.
pub(super) fn quantile_of<N: Real>(values: &mut [N], fraction: f64) -> Option<N> {
    quantile(values, fraction).map(N::from_f64)
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

#[cfg(test)]
mod tests {
    use super::*;

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
