//! Encodes the values of rows in the type of their dataset.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, max, min};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, ToByteSlice, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, plan_err};

use crate::format::array::Limits;
use crate::format::tet::{
    Categories, DatasetMetadata, Dtype, FILL_ATTRIBUTES, Fill, MAX_TEXT, fill_text,
};
use crate::provider::adapters::arrays::{ARROW_TYPE, DATE, NUMPY_TYPE, TIMESTAMP};
use crate::provider::copy::arrays::axes::{duration_type, is_exact};

/// The calendar of Arrow's dates and timestamps.
const CALENDAR: &str = "proleptic_gregorian";
/// The code that the reference implementation reserves for missing text.
const MISSING_TEXT: i64 = -1;
/// The number of attributes that do not hold texts, if the format limits the attributes of a dataset.
const OTHER_ATTRIBUTES: usize = 16;
/// The max size of a column's texts in bytes, if the format does not limit the attributes of a dataset. The
/// Zarr writer also limits the documents, which may contain the texts of several columns.
const MAX_CATEGORY_BYTES: usize = 4 << 20;

/// Encodes the values of one column and collects the metadata of its dataset.
#[derive(Debug)]
pub struct Measure {
    pub name: String,
    pub dtype: Dtype,
    /// The type to which the column is cast.
    cast_to: DataType,
    /// The code of each distinct text. `None` for columns of other types.
    texts: Option<BTreeMap<String, i64>>,
    pub metadata: DatasetMetadata,
    pub nulls: u64,
    /// The min and max of integer values so far.
    range: Option<(i128, i128)>,
    /// The fill value from the options, or else from the column's attributes.
    fill: Option<Fill>,
    is_fill_given: bool,
    /// `true` if a row's value equals the fill value.
    has_fill: bool,
    /// A lower bound for the size of the texts as JSON, in bytes.
    category_bytes: usize,
    /// The limits of the format.
    limits: Limits,
    /// For types of up to 16 bits, `true` for each bit pattern that is a value.
    seen: Vec<bool>,
}

/// The encoded values of a batch.
pub struct Values {
    /// The values in little-endian order. Unspecified where a row is null.
    pub bytes: Vec<u8>,
    pub nulls: Option<NullBuffer>,
}

impl Measure {
    /// Creates the dataset of a column. `given` is the fill value from the options, and `limits` are those
    /// of the format.
    pub fn try_new(
        name: &str,
        data_type: &DataType,
        mut metadata: DatasetMetadata,
        given: Option<&str>,
        limits: &Limits,
    ) -> Result<Self> {
        let mut is_text = false;
        let mut set = |units: &str, kind: &str| {
            let attributes = [("units", units), ("calendar", CALENDAR), (ARROW_TYPE, kind)];
            let attributes = attributes.map(|(key, text)| (key.to_string(), text.to_string()));
            metadata.attrs.extend(attributes);
        };
        let (dtype, cast_to) = match inner(data_type) {
            DataType::Float16 => (Dtype::F16, DataType::Float16),
            DataType::Float32 => (Dtype::F32, DataType::Float32),
            DataType::Float64
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => (Dtype::F64, DataType::Float64),
            DataType::Int8 if limits.allow_i8 => (Dtype::I8, DataType::Int8),
            DataType::Int8 | DataType::Int16 => (Dtype::I16, DataType::Int16),
            DataType::Int32 => (Dtype::I32, DataType::Int32),
            DataType::Int64 => (Dtype::I64, DataType::Int64),
            DataType::Boolean | DataType::UInt8 => (Dtype::U8, DataType::UInt8),
            DataType::UInt16 => (Dtype::U16, DataType::UInt16),
            DataType::UInt32 => (Dtype::U32, DataType::UInt32),
            DataType::UInt64 => (Dtype::U64, DataType::UInt64),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                is_text = true;
                (Dtype::I64, DataType::Utf8)
            }
            DataType::Date32 | DataType::Date64 => {
                set("days since 1970-01-01", DATE);
                (Dtype::I32, DataType::Date32)
            }
            DataType::Timestamp(..) => {
                set("microseconds since 1970-01-01 00:00:00", TIMESTAMP);
                (Dtype::I64, DataType::Timestamp(TimeUnit::Microsecond, None))
            }
            DataType::Duration(unit) => {
                let duration = duration_type(*unit);
                let (units, numpy) = match &duration {
                    DataType::Duration(TimeUnit::Nanosecond) => ("nanoseconds", "timedelta64[ns]"),
                    _ => ("microseconds", "timedelta64[us]"),
                };
                let attributes = [("units", units), (NUMPY_TYPE, numpy)];
                let attributes = attributes.map(|(key, text)| (key.to_string(), text.to_string()));
                metadata.attrs.extend(attributes);
                (Dtype::I64, duration)
            }
            other => {
                return plan_err!(
                    "column {name} has type {other}, which no dataset can store; cast it to a number"
                );
            }
        };
        if let Some(given) = given.filter(|_| !is_text) {
            set_fill(&mut metadata, given);
        }
        let fill = Fill::of(&metadata, dtype).filter(|_| !is_text);
        if let (Some(given), None, false) = (given, fill, is_text) {
            return plan_err!(
                "option fill_value is {given:?}, which is no value of {name}, a dataset of {dtype}"
            );
        }
        Ok(Self {
            fill,
            is_fill_given: given.is_some(),
            has_fill: false,
            category_bytes: 0,
            name: name.to_string(),
            dtype,
            cast_to,
            texts: is_text.then(BTreeMap::new),
            metadata,
            nulls: 0,
            range: None,
            limits: *limits,
            seen: match (dtype.is_float(), dtype.size()) {
                (false, size @ 1..=2) => vec![false; 1 << (size * 8)],
                _ => Vec::new(),
            },
        })
    }

    /// Returns `true` if the values are texts.
    pub fn is_text(&self) -> bool {
        self.texts.is_some()
    }

    /// Returns the size of one value in bytes.
    pub fn size(&self) -> usize {
        self.dtype.size() as usize
    }

    /// Encodes the values of a batch's column.
    pub fn values(&mut self, column: &ArrayRef) -> Result<Values> {
        let whole = cast(column, &self.cast_to)?;
        // A cast gives null for a time that the type cannot represent.
        let is_lost = whole.logical_null_count() > column.logical_null_count();
        if is_lost || !is_exact(column, &whole)? {
            return plan_err!(
                "{}, of type {}, has a value that {} cannot hold; cast it",
                self.name,
                column.data_type(),
                self.cast_to
            );
        }
        let column = match self.cast_to {
            // Dates, timestamps and durations are stored as their underlying integers.
            DataType::Date32 => cast(&whole, &DataType::Int32)?,
            DataType::Timestamp(..) | DataType::Duration(_) => cast(&whole, &DataType::Int64)?,
            _ => whole,
        };
        self.nulls += column.null_count() as u64;
        if self.texts.is_some() {
            return self.codes(&column);
        }
        let bytes = match self.dtype {
            Dtype::F16 => bytes::<Float16Type>(&column),
            Dtype::F32 => bytes::<Float32Type>(&column),
            Dtype::F64 => bytes::<Float64Type>(&column),
            Dtype::I8 => self.integers::<Int8Type>(&column),
            Dtype::I16 => self.integers::<Int16Type>(&column),
            Dtype::I32 => self.integers::<Int32Type>(&column),
            Dtype::I64 => self.integers::<Int64Type>(&column),
            Dtype::U8 => self.integers::<UInt8Type>(&column),
            Dtype::U16 => self.integers::<UInt16Type>(&column),
            Dtype::U32 => self.integers::<UInt32Type>(&column),
            Dtype::U64 => self.integers::<UInt64Type>(&column),
        };
        let nulls = nulls_of(&column);
        if let (Some(fill), false) = (self.fill, self.has_fill) {
            let fill = &fill.bits().to_le_bytes()[..self.size()];
            let cells = bytes.chunks_exact(fill.len()).enumerate();
            self.has_fill = cells.into_iter().any(|(row, cell)| {
                cell == fill && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
            });
        }
        Ok(Values { bytes, nulls })
    }

    fn integers<T: ArrowPrimitiveType>(&mut self, column: &ArrayRef) -> Vec<u8>
    where
        T::Native: Into<i128>,
    {
        let values: &PrimitiveArray<T> = column.as_primitive();
        if let (Some(min), Some(max)) = (min(values), max(values)) {
            let (min, max) = (min.into(), max.into());
            self.range = Some(
                self.range
                    .map_or((min, max), |(low, high)| (low.min(min), high.max(max))),
            );
        }
        if !self.seen.is_empty() {
            for value in values.iter().flatten() {
                let pattern = self.pattern(value.into());
                self.seen[pattern] = true;
            }
        }
        bytes::<T>(column)
    }

    fn codes(&mut self, column: &ArrayRef) -> Result<Values> {
        let texts = self.texts.get_or_insert_default();
        let mut bytes = Vec::with_capacity(column.len() * 8);
        for text in column.as_string::<i32>() {
            let code = match text {
                None => MISSING_TEXT,
                Some(text) => match texts.get(text) {
                    Some(code) => *code,
                    None => {
                        let code = texts.len() as i64;
                        // JSON adds two quotes, a colon, a comma and at least one digit to each
                        // text.
                        self.category_bytes += text.len() + 5;
                        let attributes = self.limits.attributes.saturating_sub(OTHER_ATTRIBUTES);
                        let most = MAX_TEXT.saturating_mul(attributes).min(MAX_CATEGORY_BYTES);
                        if text.len() > MAX_TEXT || self.category_bytes > most {
                            return plan_err!("{}", too_many_texts(&self.name, &self.limits));
                        }
                        texts.insert(text.to_string(), code);
                        code
                    }
                },
            };
            bytes.extend_from_slice(&code.to_le_bytes());
        }
        Ok(Values {
            bytes,
            nulls: nulls_of(column),
        })
    }

    /// Returns the bytes of a missing cell, and records the fill value or the texts in the
    /// metadata. Call this after the last row. `is_needed` is `true` if there are missing cells.
    pub fn fill(&mut self, is_needed: bool) -> Result<Vec<u8>> {
        if let Some(texts) = &self.texts {
            let parts = Categories::encode(texts, MISSING_TEXT, MAX_TEXT);
            let limits = &self.limits;
            let mut lengths = parts.iter().map(|(_, part)| part.len());
            if lengths.any(|length| length > limits.text_bytes)
                || parts.len() > limits.attributes.saturating_sub(OTHER_ATTRIBUTES)
            {
                return plan_err!("{}", too_many_texts(&self.name, limits));
            }
            self.metadata.attrs.extend(parts);
            return Ok(MISSING_TEXT.to_le_bytes().to_vec());
        }
        if self.has_fill && self.is_fill_given {
            return plan_err!(
                "{} has the value {}, which is its fill value, so that it would read as NULL; choose another one: OPTIONS \
                 (fill_value '...')",
                self.name,
                fill_text(&self.metadata).unwrap_or_default()
            );
        }
        if self.has_fill {
            // The fill value of the source dataset is an ordinary value here.
            remove_fill(&mut self.metadata);
            self.fill = None;
        }
        let bits = match (self.fill, self.dtype.is_float()) {
            (Some(fill), _) => fill.bits(),
            (None, true) => match self.dtype {
                Dtype::F16 => half::f16::NAN.to_bits().into(),
                Dtype::F32 => f32::NAN.to_bits().into(),
                _ => f64::NAN.to_bits(),
            },
            (None, false) if !is_needed => 0,
            (None, false) => {
                let Some(chosen) = self.free_value() else {
                    let (found, advice) = match self.seen.is_empty() {
                        true => (
                            "both the min and the max",
                            "choose a value that does not occur: OPTIONS (fill_value '...')",
                        ),
                        false => ("all values", "cast it to a wider type"),
                    };
                    return plan_err!(
                        "{} has missing cells, but {found} of {} occur in it, so no fill value is free; {advice}",
                        self.name,
                        self.dtype
                    );
                };
                set_fill(&mut self.metadata, &chosen.to_string());
                // The cast keeps the two's complement, whose lower bytes are the value in the
                // narrower type.
                chosen as u64
            }
        };
        Ok(bits.to_le_bytes()[..self.size()].to_vec())
    }

    /// Returns the memory of the distinct texts in bytes.
    pub fn memory(&self) -> usize {
        self.category_bytes
    }

    /// Returns the index of a value in `seen`: its bit pattern.
    fn pattern(&self, value: i128) -> usize {
        value as usize & (self.seen.len() - 1)
    }

    /// Returns a number that is not a value: any number of types of up to 16 bits, the min or the max of
    /// wider ones.
    fn free_value(&self) -> Option<i128> {
        let (low, high): (i128, i128) = match self.dtype {
            Dtype::I8 => (i8::MIN.into(), i8::MAX.into()),
            Dtype::I16 => (i16::MIN.into(), i16::MAX.into()),
            Dtype::I32 => (i32::MIN.into(), i32::MAX.into()),
            Dtype::I64 => (i64::MIN.into(), i64::MAX.into()),
            Dtype::U8 => (0, u8::MAX.into()),
            Dtype::U16 => (0, u16::MAX.into()),
            Dtype::U32 => (0, u32::MAX.into()),
            _ => (0, u64::MAX.into()),
        };
        // Zero is a likely value of an unsigned column, so try the max first.
        let [first, last] = if low < 0 { [low, high] } else { [high, low] };
        if self.seen.is_empty() {
            let is_free = |candidate: &i128| {
                self.range
                    .is_none_or(|(min, max)| !(min..=max).contains(candidate))
            };
            return [first, last].into_iter().find(is_free);
        }
        let mut free = (low..=high).filter(|value| !self.seen[self.pattern(*value)]);
        if first == low {
            free.next()
        } else {
            free.next_back()
        }
    }
}

fn too_many_texts(name: &str, limits: &Limits) -> String {
    let found = match limits.attributes {
        usize::MAX => format!("a text of more than {MAX_TEXT} bytes, or more than 4 MiB of texts"),
        attributes => format!(
            "more or longer texts than fit the {} attributes of {MAX_TEXT} bytes that the format has for them",
            attributes.saturating_sub(OTHER_ATTRIBUTES)
        ),
    };
    format!("{name} has {found}; store codes instead, and keep the texts in a separate table")
}

fn set_fill(metadata: &mut DatasetMetadata, text: &str) {
    remove_fill(metadata);
    let [first, ..] = FILL_ATTRIBUTES;
    metadata.attrs.insert(first.to_string(), text.to_string());
}

fn remove_fill(metadata: &mut DatasetMetadata) {
    for key in FILL_ATTRIBUTES {
        metadata.attrs.remove(key);
    }
}

/// Returns the value type of a dictionary, or the type itself.
fn inner(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => inner(values),
        other => other,
    }
}

/// Returns the values of a column as bytes in little-endian order.
pub fn bytes<T: ArrowPrimitiveType>(column: &ArrayRef) -> Vec<u8> {
    let values = column.as_primitive::<T>().values();
    values.to_byte_slice().to_vec()
}

fn nulls_of(column: &ArrayRef) -> Option<NullBuffer> {
    column
        .nulls()
        .filter(|nulls| nulls.null_count() > 0)
        .cloned()
}

#[cfg(test)]
mod tests;
