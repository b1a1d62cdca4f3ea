//! Minus zeros among join keys.

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

/// Returns `true` if an array of floating-point numbers has -0.0.
pub(in crate::provider) fn has_negative_zero(values: &ArrayRef) -> bool {
    let is_float = values.data_type().is_floating();
    let Some(values) = is_float
        .then(|| cast(values, &DataType::Float64).ok())
        .flatten()
    else {
        return false;
    };
    let mut values = values.as_primitive::<Float64Type>().iter().flatten();
    values.any(|value| value == 0.0 && value.is_sign_negative())
}
