//! What the cells of a dataset stand for, where that is not the stored number itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, Float64Type, Int64Type, TimeUnit};

use crate::error::{Error, Place};
use crate::format::array::{Categories, DatasetMetadata, Dtype, FILL_ATTRIBUTES};
use crate::grid::{CfTime, CfTimeError};
use crate::provider::adapters::arrays::values;
use crate::provider::catalog::settings::options::TetOptions;

/// The attribute by which a dataset says that its numbers are times, and of which type: CF knows only instants, and does not
/// tell those that are values from lengths of time.
pub(in crate::provider) const ARROW_TYPE: &str = "arrow_type";
pub(in crate::provider) const DATE: &str = "date32";
pub(in crate::provider) const TIMESTAMP: &str = "timestamp";
/// How to get at numbers that cannot become timestamps.
const RAW_TIMES: &str =
    "decode_times false, --no-decode-times of tet-sql, reads the numbers as they are";
/// The attributes by which stored numbers are unpacked.
pub(in crate::provider) const OF_PACKED: [&str; 2] = ["scale_factor", "add_offset"];
/// Attributes whose numbers are packed as the cells are.
const PACKED_ALIKE: [&str; 3] = ["valid_min", "valid_max", "valid_range"];
const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// How stored numbers become the values of the column.
#[derive(Debug, Clone)]
pub(super) enum Decoding {
    /// They are the values.
    None,
    /// They are codes of texts.
    Text(Arc<Categories>),
    /// They are times in units of the CF conventions (section 4.4), to be dates if the flag says so.
    Time(CfTime, bool),
    /// They are packed as the CF conventions say (section 8.1).
    Unpack {
        /// What they are multiplied with.
        scale: f64,
        /// What is then added.
        offset: f64,
    },
}

impl Decoding {
    /// How the values of a dataset are decoded, whose attributes describe the stored cells or may be stale. Codes without
    /// readable texts stay codes, with a warning.
    pub fn of(
        metadata: &DatasetMetadata,
        dtype: Dtype,
        options: &TetOptions,
        describe_cells: bool,
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
        let kind = metadata.attrs.get(ARROW_TYPE).map(String::as_str);
        if options.decode_times
            && let Some(kind @ (DATE | TIMESTAMP)) = kind
            && is_counted_in(dtype)
        {
            match time(metadata) {
                Ok(Some(time)) => return Self::Time(time, kind == DATE),
                Ok(None) => {}
                Err(error) => warn(
                    error.field,
                    error.found,
                    error.expected,
                    "the values are left as they are",
                ),
            }
        }
        let unpack = options.unpack.unwrap_or_default();
        if !unpack.applies(dtype, describe_cells) {
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
        let [scale, offset] = OF_PACKED;
        let (scale, is_scaled) = number(scale, 1.0);
        let (offset, is_offset) = number(offset, 0.0);
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
            Self::Time(_, true) => DataType::Date32,
            Self::Time(_, false) => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Unpack { .. } => DataType::Float64,
        }
    }

    /// Returns `true` if an attribute of the dataset holds for the decoded values, and does not describe the stored
    /// numbers.
    pub fn keeps(&self, attribute: &str) -> bool {
        let is_of_storage = OF_PACKED.contains(&attribute)
            || PACKED_ALIKE.contains(&attribute)
            || FILL_ATTRIBUTES.contains(&attribute);
        !(matches!(self, Self::Unpack { .. }) && is_of_storage)
    }

    /// Whether a cell that is not missing by its number may still have no value.
    pub fn can_be_null(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Time(..))
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
            Self::Time(time, are_dates) => {
                // The types that are decoded are no wider than this.
                let Ok(numbers) = cast(&stored, &DataType::Int64) else {
                    return Ok(stored);
                };
                // The least number is NumPy's "not a time", whatever else counts as missing.
                let numbers = numbers.as_primitive::<Int64Type>().iter();
                let numbers: Int64Array = numbers
                    .map(|number| number.filter(|number| *number != i64::MIN))
                    .collect();
                let times = time
                    .decode_values(&numbers)
                    .map_err(|error| refused(&place(), &error))?;
                Ok(match are_dates {
                    // Timestamps are far fewer days than 2^31.
                    true => Arc::new(times.unary::<_, Date32Type>(|time| {
                        time.div_euclid(MICROSECONDS_PER_DAY) as i32
                    })),
                    false => Arc::new(times),
                })
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

/// Whether numbers of a type are decoded as times that are values.
fn is_counted_in(dtype: Dtype) -> bool {
    matches!(
        dtype,
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::I16 | Dtype::I32 | Dtype::I64
    )
}

/// The time that the numbers of a dataset count from, if they do.
pub(super) fn time(metadata: &DatasetMetadata) -> Result<Option<CfTime>, CfTimeError> {
    let attribute = |name| metadata.attrs.get(name).map(String::as_str);
    match attribute("units") {
        Some(units) => CfTime::parse(units, attribute("calendar")),
        None => Ok(None),
    }
}

/// The error for numbers that cannot become times.
pub(super) fn refused(place: &Place, error: &CfTimeError) -> Error {
    Error::malformed(
        place.clone(),
        error.field,
        error.found.clone(),
        format!("{} ({RAW_TIMES})", error.expected),
    )
}
