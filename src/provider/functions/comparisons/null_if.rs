//! `nullif`, for which -0.0 and 0.0 are equal.

use std::sync::Arc;

use arrow::compute::kernels::cmp::eq;
use arrow::compute::nullif;
use datafusion::common::utils::{normalize_float_zero, take_function_args};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::core;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use crate::provider::functions::forwarding::forward_to_inner;

/// DataFusion's `nullif`, which compares floating-point numbers as `=` does. DataFusion 55 compares their bits.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct NullIf {
    /// DataFusion's function.
    inner: Arc<ScalarUDF>,
}

impl NullIf {
    /// Creates the function.
    pub fn new() -> Self {
        Self {
            inner: core::nullif(),
        }
    }
}

impl Default for NullIf {
    fn default() -> Self {
        Self::new()
    }
}

impl ScalarUDFImpl for NullIf {
    forward_to_inner!();

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = take_function_args(self.name(), &arguments.args)?;
        if !left.data_type().is_floating() || left.data_type() != right.data_type() {
            return self.inner.invoke_with_args(arguments);
        }
        let is_scalar = matches!(
            (left, right),
            (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_))
        );
        let rows = match is_scalar {
            true => 1,
            false => arguments.number_rows,
        };
        let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
        let is_equal = eq(&normalize_float_zero(&left), &normalize_float_zero(&right))?;
        let values = nullif(&left, &is_equal)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}
