//! The aggregate function `median(value)`.
//!
//! Its answers are those of DataFusion's function. The values of a group are kept only once, and the memory
//! pool learns of them before they are allocated.

use std::hash::Hash;
use std::sync::Arc;

use arrow::array::ArrowNativeTypeOp;
use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, FieldRef, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::Result;
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator};

use crate::provider::functions::forwarding::forward_to_inner;
use crate::provider::functions::order_statistics::collected::{Collected, for_each_number};

/// The median.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Median {
    /// DataFusion's function.
    inner: Arc<AggregateUDF>,
}

impl Default for Median {
    fn default() -> Self {
        Self {
            inner: median_udaf(),
        }
    }
}

impl AggregateUDFImpl for Median {
    forward_to_inner!();

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let data_type = arguments.expr_fields[0].data_type();
        macro_rules! try_create {
            ($t:ty) => {
                if *data_type == <$t>::DATA_TYPE {
                    return Ok(Box::new(Collected::<$t>::new(
                        |values, _| median(values),
                        0.0,
                    )));
                }
            };
        }
        for_each_number!(try_create);
        self.inner.create_groups_accumulator(arguments)
    }
}

/// Returns the median of the values, or `None` if there are none. Reorders the values. The mean of the two
/// middle integers is rounded toward zero.
fn median<N: ArrowNativeType + ArrowNativeTypeOp>(values: &mut [N]) -> Option<N> {
    if values.is_empty() {
        return None;
    }
    let order = |one: &N, other: &N| one.compare(*other);
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(values.len() / 2, order);
    let upper = *upper;
    if is_odd {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(order)?;
    let two = N::usize_as(2);
    if let Ok(sum) = lower.add_checked(upper) {
        return Some(sum.div_wrapping(two));
    }
    // Numbers whose sum overflows have the same sign.
    let half = upper.sub_wrapping(lower).div_wrapping(two);
    Some(match upper.is_lt(N::ZERO) {
        true => upper.sub_wrapping(half),
        false => lower.add_wrapping(half),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_even_numbers_of_values() {
        assert_eq!(median::<i32>(&mut []), None);
        assert_eq!(median(&mut [3, 1, 2]), Some(2));
        assert_eq!(median(&mut [4, 1]), Some(2));
        assert_eq!(median(&mut [-4, -1]), Some(-2));
        assert_eq!(median(&mut [120i8, 121]), Some(120));
        assert_eq!(median(&mut [-120i8, -121]), Some(-120));
        assert_eq!(median(&mut [u64::MAX, u64::MAX - 3]), Some(u64::MAX - 2));
        assert_eq!(median(&mut [1.0, f64::NAN, 2.0, 0.0]), Some(1.5));
    }
}
