//! The operator `||` of texts and binary values as a function.

use std::sync::Arc;

use arrow::array::new_empty_array;
use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, utils::take_function_args};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// Concatenates two texts or binary values of the same type. The result is null if one of them is null.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Concatenation {
    signature: Signature,
}

impl Concatenation {
    pub const NAME: &str = "||";

    pub fn new() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Concatenation {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = take_function_args(Self::NAME, args)?;
        Ok(format!("{} || {}", left.schema_name(), right.schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let [left, right] = take_function_args(Self::NAME, arg_types)?;
        // The kernel decides, because it has no kernel for some types.
        let joined = concat_elements_dyn(&new_empty_array(left), &new_empty_array(right))?;
        Ok(joined.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|field| field.data_type());
        let types: Vec<_> = types.cloned().collect();
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let data_type = self.return_type(&types)?;
        Ok(Arc::new(Field::new(Self::NAME, data_type, is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_array = |value: &ColumnarValue| matches!(value, ColumnarValue::Array(_));
        let rows = match args.args.iter().any(is_array) {
            true => args.number_rows,
            false => 1,
        };
        let [left, right] = take_function_args(Self::NAME, &args.args)?;
        let joined = concat_elements_dyn(&left.to_array(rows)?, &right.to_array(rows)?)?;
        Ok(match args.args.iter().any(is_array) {
            true => ColumnarValue::Array(joined),
            false => ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?),
        })
    }

    fn is_strict(&self) -> bool {
        true
    }
}
