//! `min` and `max` of groups of floating-point numbers.
//!
//! DataFusion's grouped `max` starts from the smallest *finite* number, so the max of a group that
//! contains only `-inf` is -1.8e308. Its result for NaN depends on the order of rows. The functions
//! in this module instead start from the ends of the total order of floating-point numbers and
//! compare by this order, as DataFusion does without groups.

use std::hash::Hash;
use std::sync::Arc;

use arrow::datatypes::{
    ArrowPrimitiveType, DataType, FieldRef, Float16Type, Float32Type, Float64Type,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{Max, Min, max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    StatisticsArgs,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;
use half::f16;

use crate::provider::functions::forwarding::forward_to_inner;

/// `min` or `max`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Extreme {
    is_max: bool,
    /// DataFusion's function.
    inner: Arc<AggregateUDF>,
}

impl Extreme {
    /// Returns `min`.
    pub fn min() -> Self {
        Self {
            is_max: false,
            inner: min_udaf(),
        }
    }

    /// Returns `max`.
    pub fn max() -> Self {
        Self {
            is_max: true,
            inner: max_udaf(),
        }
    }

    fn groups<T: ArrowPrimitiveType + Send>(
        &self,
        [min, max]: [T::Native; 2],
        is_less: fn(&T::Native, &T::Native) -> bool,
    ) -> Box<dyn GroupsAccumulator> {
        match self.is_max {
            true => {
                let update = move |found: &mut T::Native, new: T::Native| {
                    if is_less(found, &new) {
                        *found = new;
                    }
                };
                let groups = PrimitiveGroupsAccumulator::<T, _>::new(&T::DATA_TYPE, update);
                Box::new(groups.with_starting_value(min))
            }
            false => {
                let update = move |found: &mut T::Native, new: T::Native| {
                    if is_less(&new, found) {
                        *found = new;
                    }
                };
                let groups = PrimitiveGroupsAccumulator::<T, _>::new(&T::DATA_TYPE, update);
                Box::new(groups.with_starting_value(max))
            }
        }
    }
}

/// Returns `Some(true)` for `max`, `Some(false)` for `min`, and `None` for any other function. Both
/// may be DataFusion's function or [`Extreme`].
pub fn is_max(function: &dyn AggregateUDFImpl) -> Option<bool> {
    match function.downcast_ref::<Extreme>() {
        Some(extreme) => Some(extreme.is_max),
        None if function.is::<Max>() => Some(true),
        None => function.is::<Min>().then_some(false),
    }
}

impl AggregateUDFImpl for Extreme {
    forward_to_inner!();

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match arguments.return_field.data_type() {
            DataType::Float16 => {
                let ends = [f16::from_bits(u16::MAX), f16::from_bits(u16::MAX >> 1)];
                self.groups::<Float16Type>(ends, |one, other| one.total_cmp(other).is_lt())
            }
            DataType::Float32 => {
                let ends = [f32::from_bits(u32::MAX), f32::from_bits(u32::MAX >> 1)];
                self.groups::<Float32Type>(ends, |one, other| one.total_cmp(other).is_lt())
            }
            DataType::Float64 => {
                let ends = [f64::from_bits(u64::MAX), f64::from_bits(u64::MAX >> 1)];
                self.groups::<Float64Type>(ends, |one, other| one.total_cmp(other).is_lt())
            }
            _ => self.inner.create_groups_accumulator(arguments)?,
        })
    }

    fn create_sliding_accumulator(
        &self,
        arguments: AccumulatorArgs,
    ) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(arguments)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_udf()
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.value_from_stats(statistics)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}
