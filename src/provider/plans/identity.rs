//! Functions that return their argument, and change what DataFusion assumes about it.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, utils::take_function_args};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// A function that returns its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    name: &'static str,
    signature: Signature,
}

impl Identity {
    /// The name of the function of [`Self::unordered`].
    pub const UNORDERED: &str = "tet_unordered";
    const PRESENT: &str = "tet_present";

    /// Returns the function that hides a cast which does not keep the order of values.
    ///
    /// DataFusion takes casts for monotonic functions: it compares `CAST(x AS T) = c` as `x = CAST(c AS ..)`, and casts
    /// the bounds of `x`.
    pub fn unordered() -> Self {
        Self::named(Self::UNORDERED)
    }

    /// Returns the function that declares its argument non-null.
    pub fn present() -> Self {
        Self::named(Self::PRESENT)
    }

    /// Returns the function of this name.
    #[cfg(feature = "proto")]
    pub fn of_name(name: &str) -> Option<Self> {
        let mut names = [Self::UNORDERED, Self::PRESENT].into_iter();
        names.find(|known| *known == name).map(Self::named)
    }

    fn named(name: &'static str) -> Self {
        Self {
            name,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Identity {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [argument] = take_function_args(self.name, types)?;
        Ok(argument.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [argument] = take_function_args(self.name, args.arg_fields)?;
        Ok(match self.name {
            Self::PRESENT => Arc::new(argument.as_ref().clone().with_nullable(false)),
            _ => Arc::clone(argument),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [argument] = take_function_args(self.name, args.args)?;
        Ok(argument)
    }
}
