//! Completes abbreviated times in columns of text, so that they can be cast to timestamps.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, utils::take_function_args};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::grid::WrittenTime;

/// The index of the second colon in `2024-01-02T12:00:00`, which Arrow's parser requires.
const SECOND_COLON: usize = 16;

/// The function that rewrites `2024-01-02 12:00` as `2024-01-02T12:00:00`. It returns any other
/// text unchanged.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CompletedTimes {
    signature: Signature,
}

impl CompletedTimes {
    /// The name of the function.
    pub const NAME: &str = "tet_completed_time";

    /// Creates the function.
    pub fn new() -> Self {
        let texts = vec![DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View];
        Self {
            signature: Signature::uniform(1, texts, Volatility::Immutable),
        }
    }
}

impl Default for CompletedTimes {
    fn default() -> Self {
        Self::new()
    }
}

impl ScalarUDFImpl for CompletedTimes {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        // The text of CREATE TABLE is completed when its schema is known already.
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(
            self.name(),
            DataType::Utf8,
            is_nullable,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [texts] = take_function_args(self.name(), &args.args)?;
        let is_scalar = matches!(texts, ColumnarValue::Scalar(_));
        let texts = cast(&texts.to_array(1)?, &DataType::Utf8)?;
        let completed: StringArray = texts
            .as_string::<i32>()
            .iter()
            .map(|text| text.map(completed))
            .collect();
        let completed: ArrayRef = Arc::new(completed);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(
                &completed, 0,
            )?),
            false => ColumnarValue::Array(completed),
        })
    }
}

fn completed(text: &str) -> Cow<'_, str> {
    if text.as_bytes().get(SECOND_COLON) == Some(&b':') {
        return text.into();
    }
    match WrittenTime::parse(text) {
        Some(
            written @ WrittenTime::Instant {
                has_time_of_day: true,
                ..
            },
        ) => written.to_string().into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_abbreviated_times_change() {
        for (text, expected) in [
            ("2024-01-02 12:00", "2024-01-02T12:00:00"),
            ("2024-01-02T12", "2024-01-02T12:00:00"),
            ("2024-01-02 12:00+02:00", "2024-01-02T10:00:00Z"),
            ("2024-01-02 12:00:30.5", "2024-01-02 12:00:30.5"),
            ("2024-01-02", "2024-01-02"),
            ("2024-01", "2024-01"),
            ("noon", "noon"),
        ] {
            assert_eq!(completed(text), expected);
        }
    }
}
