//! Decodes stored cells to the values of a column: texts, times and packed numbers.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, Float64Type, Int64Type, TimeUnit};

use crate::error::{Error, ErrorLocation};
use crate::format::array::{Categories, DatasetMetadata, Dtype, FILL_ATTRIBUTES};
use crate::grid::{CfDuration, CfTime, CfTimeError};
use crate::provider::adapters::arrays::values;
use crate::provider::catalog::settings::options::ArrayOptions;

/// Attributes that define the meaning of cells or coordinates, besides fill values. They are kept
/// first when space is short.
pub(in crate::provider) const MEANINGFUL: [&str; 7] = [
    "units",
    "calendar",
    "scale_factor",
    "add_offset",
    "coordinates",
    ARROW_TYPE,
    NUMPY_TYPE,
];

/// The attribute that marks the values of a dataset as times and gives their Arrow type. CF units
/// alone cannot tell dates from timestamps, nor times from durations.
pub(in crate::provider) const ARROW_TYPE: &str = "arrow_type";
/// The attribute by which xarray marks durations, with a NumPy type such as `timedelta64[ns]`.
pub(in crate::provider) const NUMPY_TYPE: &str = "dtype";
pub(in crate::provider) const DATE: &str = "date32";
pub(in crate::provider) const TIMESTAMP: &str = "timestamp";
/// Advice for numbers that cannot become timestamps.
pub(super) const RAW_TIMES: &str = "to read the numbers undecoded, set the option decode_times to false, or pass \
                         --no-decode-times to tet-sql";
/// The attributes that unpack stored numbers (CF section 8.1).
pub(in crate::provider) const UNPACK_ATTRIBUTES: [&str; 2] = ["scale_factor", "add_offset"];
/// Attributes whose numbers are packed like the cells.
const PACKED_ALIKE: [&str; 3] = ["valid_min", "valid_max", "valid_range"];
const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// The conversion of stored numbers to the values of the column.
#[derive(Debug, Clone)]
pub(super) enum Decoding {
    /// The stored numbers are the values.
    None,
    /// The stored numbers are codes of texts.
    Text(Arc<Categories>),
    /// The stored numbers are times in CF units (section 4.4). They become dates if the flag is
    /// `true`, else timestamps.
    Time(CfTime, bool),
    /// The stored numbers are durations in a unit of time.
    Duration(CfDuration),
    /// The stored numbers are packed (CF section 8.1): a value is `number * scale + offset`.
    Unpack {
        /// The attribute `scale_factor`.
        scale: f64,
        /// The attribute `add_offset`.
        offset: f64,
    },
}

impl Decoding {
    /// Chooses the decoding of a dataset's values. `describe_cells` is `true` if the attributes
    /// describe the stored cells, `false` if they may be stale. Codes without readable texts stay
    /// codes, with a warning.
    pub fn of(
        metadata: &DatasetMetadata,
        dtype: Dtype,
        options: &ArrayOptions,
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
                        "a JSON object that maps texts to codes".to_string(),
                        "the codes are not decoded",
                    ),
                }
            } else {
                warn(
                    Categories::ATTRIBUTE,
                    format!("on a dataset of {dtype}"),
                    "a dataset of i64".to_string(),
                    "the values are not decoded",
                );
            }
        }
        let kind = metadata.attrs.get(ARROW_TYPE).map(String::as_str);
        if options.decode_times
            && let Some(kind @ (DATE | TIMESTAMP)) = kind
            && is_counted_in(dtype)
        {
            match time(metadata) {
                Ok(Some(time)) if time.has_timestamps() => {
                    return Self::Time(time, kind == DATE);
                }
                Ok(Some(_)) => warn(
                    "calendar",
                    format!(
                        "{:?}",
                        metadata.attrs.get("calendar").map_or("", String::as_str)
                    ),
                    "standard, gregorian, proleptic_gregorian, noleap or 365_day, since values in \
                     other calendars cannot become timestamps"
                        .to_string(),
                    "the values are not decoded",
                ),
                Ok(None) => {}
                Err(error) => not_decoded(error, warn),
            }
        }
        if options.decode_times {
            match duration(metadata) {
                Ok(Some(duration)) => return Self::Duration(duration),
                Ok(None) => {}
                Err(error) => not_decoded(error, warn),
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
                        "the attribute is ignored",
                    );
                    (default, false)
                }
            },
        };
        let [scale, offset] = UNPACK_ATTRIBUTES;
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
            Self::Duration(duration) => DataType::Duration(duration.time_unit()),
            Self::Unpack { .. } => DataType::Float64,
        }
    }

    /// Returns `true` if an attribute of the dataset also applies to the decoded values, rather
    /// than to the stored numbers only.
    pub fn keeps(&self, attribute: &str) -> bool {
        let is_of_storage = UNPACK_ATTRIBUTES.contains(&attribute)
            || PACKED_ALIKE.contains(&attribute)
            || FILL_ATTRIBUTES.contains(&attribute);
        !match self {
            Self::Unpack { .. } => is_of_storage,
            Self::Duration(_) => ["units", NUMPY_TYPE].contains(&attribute),
            Self::Time(..) => is_of_storage,
            Self::None | Self::Text(_) => false,
        }
    }

    /// Returns `true` if a stored number that is not null may decode to null.
    pub fn can_be_null(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Time(..) | Self::Duration(_))
    }

    /// Decodes stored numbers to the values of the column.
    pub fn decode(
        &self,
        stored: ArrayRef,
        location: impl FnOnce() -> ErrorLocation,
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
                                location(),
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
                let times = time
                    .decode_values(&stored)
                    .map_err(|error| refused(&location(), &error))?;
                Ok(match are_dates {
                    // The days of a timestamp in microseconds fit into 32 bits.
                    true => Arc::new(times.unary::<_, Date32Type>(|time| {
                        time.div_euclid(MICROSECONDS_PER_DAY) as i32
                    })),
                    false => Arc::new(times),
                })
            }
            Self::Duration(duration) => duration
                .decode(&stored)
                .map_err(|error| refused(&location(), &error)),
            Self::Unpack { scale, offset } => {
                // Every stored type casts to Float64.
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

/// Returns `true` if numbers of a type can be decoded to times.
fn is_counted_in(dtype: Dtype) -> bool {
    matches!(
        dtype,
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64
    )
}

/// Parses the CF time that the numbers of a dataset count from; `None` if they are not times.
pub(super) fn time(metadata: &DatasetMetadata) -> Result<Option<CfTime>, CfTimeError> {
    let attribute = |name| metadata.attrs.get(name).map(String::as_str);
    match attribute("units") {
        Some(units) => CfTime::parse(units, attribute("calendar")),
        None => Ok(None),
    }
}

/// Parses the unit of a dataset's durations; `None` if its numbers are not durations.
pub(super) fn duration(metadata: &DatasetMetadata) -> Result<Option<CfDuration>, CfTimeError> {
    let attribute = |name| metadata.attrs.get(name).map(String::as_str);
    // Packed numbers are not counts of the unit.
    let is_packed = attribute("scale_factor")
        .or(attribute("add_offset"))
        .is_some();
    match attribute("units").filter(|_| !is_packed) {
        Some(units) => CfDuration::parse(units, attribute(NUMPY_TYPE)),
        None => Ok(None),
    }
}

/// Warns that values stay numbers.
fn not_decoded(error: CfTimeError, warn: &mut dyn FnMut(&'static str, String, String, &str)) {
    let CfTimeError {
        field,
        found,
        expected,
    } = error;
    warn(field, found, expected, "the values are not decoded");
}

/// The error for numbers that cannot become times.
pub(super) fn refused(location: &ErrorLocation, error: &CfTimeError) -> Error {
    Error::malformed(
        location.clone(),
        error.field,
        error.found.clone(),
        format!("{} ({RAW_TIMES})", error.expected),
    )
}
