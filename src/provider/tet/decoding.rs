//! What the cells of a dataset stand for, where that is not the stored number itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use crate::error::{Error, Place};
use crate::format::tet::{Categories, DatasetMetadata, Dtype};
use crate::provider::tet::values;

/// How stored numbers become the values of the column.
#[derive(Debug, Clone)]
pub(super) enum Decoding {
    /// They are the values.
    None,
    /// They are codes of texts.
    Text(Arc<Categories>),
    /// They are packed as the CF conventions say (section 8.1).
    Unpack {
        /// What they are multiplied with.
        scale: f64,
        /// What is then added.
        offset: f64,
    },
}

impl Decoding {
    /// How the values of a dataset are decoded. Codes without readable texts stay codes, with a warning.
    pub fn of(
        metadata: &DatasetMetadata,
        dtype: Dtype,
        unpack: bool,
        warn: &mut dyn FnMut(&'static str, String, String, &str),
    ) -> Self {
        if let Some(categories) = Categories::of(&metadata.attrs) {
            if dtype == Dtype::I64 {
                match categories {
                    Ok(categories) => return Self::Text(Arc::new(categories)),
                    Err(error) => warn(
                        Categories::ATTRIBUTE,
                        format!("unreadable ({error})"),
                        "a JSON object of texts and codes".to_string(),
                        "the codes are left as they are",
                    ),
                }
            } else {
                warn(
                    Categories::ATTRIBUTE,
                    format!("on a dataset of {dtype}"),
                    "one of i64".to_string(),
                    "the values are left as they are",
                );
            }
        }
        if !unpack {
            return Self::None;
        }
        let mut number = |key: &'static str, default: f64| match metadata.attrs.get(key) {
            None => (default, false),
            Some(text) => match text.trim().parse() {
                Ok(number) => (number, true),
                Err(_) => {
                    warn(
                        key,
                        format!("{text:?}"),
                        "a number".to_string(),
                        "it is left unused",
                    );
                    (default, false)
                }
            },
        };
        let (scale, is_scaled) = number("scale_factor", 1.0);
        let (offset, is_offset) = number("add_offset", 0.0);
        if is_scaled || is_offset {
            Self::Unpack { scale, offset }
        } else {
            Self::None
        }
    }

    /// The type of the column.
    pub fn data_type(&self, dtype: Dtype) -> DataType {
        match self {
            Self::None => values::data_type(dtype),
            Self::Text(_) => DataType::Utf8,
            Self::Unpack { .. } => DataType::Float64,
        }
    }

    /// Whether a cell that is not missing by its number may still have no value.
    pub fn can_be_null(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// The column of stored numbers.
    pub fn decode(
        &self,
        stored: ArrayRef,
        place: impl FnOnce() -> Place,
    ) -> Result<ArrayRef, Error> {
        match self {
            Self::None => Ok(stored),
            Self::Text(categories) => {
                let codes = stored.as_primitive::<Int64Type>();
                let mut texts = StringBuilder::with_capacity(codes.len(), codes.len() * 8);
                for code in codes {
                    match code.map(|code| (code, categories.text(code))) {
                        Some((_, Some(text))) => texts.append_value(text),
                        Some((code, None)) if categories.missing() != Some(code) => {
                            return Err(Error::malformed(
                                place(),
                                "cell",
                                format!("code {code}"),
                                format!("a code of the attribute {}", Categories::ATTRIBUTE),
                            ));
                        }
                        Some((_, None)) | None => texts.append_null(),
                    }
                }
                Ok(Arc::new(texts.finish()))
            }
            Self::Unpack { scale, offset } => {
                // Every stored type becomes a Float64.
                let Ok(numbers) = cast(&stored, &DataType::Float64) else {
                    return Ok(stored);
                };
                let numbers = numbers.as_primitive::<Float64Type>();
                let unpacked: Float64Array = numbers.unary(|number| number * scale + offset);
                Ok(Arc::new(unpacked))
            }
        }
    }
}
