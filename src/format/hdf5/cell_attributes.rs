//! The attributes that describe cells: fill values, limits, and the names of values.

use crate::format::array::{DatasetMetadata, Dtype, FILL_ATTRIBUTES, Fill};
use crate::format::hdf5::metadata::attributes::{Attributes, Number, Value};
use crate::format::hdf5::metadata::dimensions;
use crate::format::hdf5::metadata::element::{Element, ElementKind};

/// The attributes of the NetCDF conventions that are converted to the type of the cells.
const FILL_VALUE: &str = "_FillValue";
const MISSING_VALUE: &str = "missing_value";
/// Further attributes whose values are cells.
const VALID_MIN: &str = "valid_min";
const VALID_MAX: &str = "valid_max";
const VALID_RANGE: &str = "valid_range";
/// The attribute that overrides whether integers are unsigned.
pub(super) const UNSIGNED: &str = "_Unsigned";
/// The CF attributes for enumerations.
const FLAG_VALUES: &str = "flag_values";
const FLAG_MEANINGS: &str = "flag_meanings";

/// Returns the strings that stand for null in an array of strings.
pub(super) fn null_texts(attributes: &Attributes, kind: ElementKind) -> Vec<String> {
    let [fill, missing, other] = FILL_ATTRIBUTES.map(|name| attributes.get(name));
    let other = other.filter(|_| fill.is_none() && missing.is_none());
    let values = [fill, missing, other].into_iter().flatten();
    let texts = values.flat_map(|value| match value {
        Value::Texts(texts) => texts.as_slice(),
        _ => &[],
    });
    // Zeros pad strings of fixed length, so that an empty one need not stand for null.
    let can_be_empty = matches!(kind, ElementKind::VariableText);
    let texts = texts.filter(|text| can_be_empty || !text.is_empty());
    texts.cloned().collect()
}

/// Converts the attributes of a dataset to text.
///
/// Fill values become values of the cells. `fill` is the stored element of missing cells, which is compared
/// with NetCDF's default fill value; `None` for coordinates, which are never null, and if the sign of `fill`
/// is unknown. `has_sign` is `true` if an attribute gives the sign of the cells, so that fill values may be
/// written for the other sign.
pub(super) fn metadata(
    attributes: &Attributes,
    element: &Element,
    fill: Option<&[u8]>,
    has_sign: bool,
) -> DatasetMetadata {
    let mut metadata = DatasetMetadata::default();
    for attribute in &attributes.list {
        let name = attribute.name.as_str();
        let is_sign = name == UNSIGNED && element.integers().is_some();
        if dimensions::is_hidden(name) || is_sign {
            continue;
        }
        let text = match name {
            VALID_MIN | VALID_MAX | VALID_RANGE if has_sign => {
                fill_text(&attribute.value, element, has_sign)
            }
            FILL_VALUE | MISSING_VALUE => fill_text(&attribute.value, element, has_sign),
            _ => attribute.value.text(),
        };
        if let Some(text) = text {
            metadata.attrs.insert(name.to_string(), text);
        }
    }
    if let Some(default) = fill.and_then(|fill| default_fill(element, fill))
        && !metadata.attrs.contains_key(FILL_VALUE)
    {
        metadata.default_fill = Some(default);
    }
    if !element.names.is_empty() && !metadata.attrs.contains_key(FLAG_MEANINGS) {
        let values: Vec<_> = element
            .names
            .iter()
            .map(|(_, value)| value.to_string())
            .collect();
        // Meanings are separated by spaces.
        let words = element
            .names
            .iter()
            .map(|(name, _)| name.replace(char::is_whitespace, "_"));
        let words: Vec<_> = words.collect();
        metadata
            .attrs
            .insert(FLAG_VALUES.to_string(), format!("[{}]", values.join(",")));
        metadata
            .attrs
            .insert(FLAG_MEANINGS.to_string(), words.join(" "));
    }
    metadata
}

/// Returns the stored element for the cells beyond the end of a variable whose header has no fill value:
/// `_FillValue`, else NetCDF's default fill value, else `None`.
pub(super) fn fill_beyond(
    attributes: &Attributes,
    element: &Element,
    has_sign: bool,
) -> Option<Vec<u8>> {
    let text = match attributes.get(FILL_VALUE) {
        Some(value) => fill_text(value, element, has_sign)?,
        None => default_text(element.dtype)?.to_string(),
    };
    stored(element, &text)
}

/// Returns NetCDF's default fill value of this type, if `fill` is that value. Readers of NetCDF treat it
/// as null even without the attribute `_FillValue`.
fn default_fill(element: &Element, fill: &[u8]) -> Option<String> {
    let text = default_text(element.dtype)?;
    (stored(element, text)? == fill).then(|| text.to_string())
}

/// Returns NetCDF's default fill value; `None` for types of one byte, where every value is usually data, and
/// for half-precision floats, which NetCDF does not have.
fn default_text(dtype: Dtype) -> Option<&'static str> {
    Some(match dtype {
        Dtype::I16 => "-32767",
        Dtype::I32 => "-2147483647",
        Dtype::I64 => "-9223372036854775806",
        Dtype::U16 => "65535",
        Dtype::U32 => "4294967295",
        Dtype::U64 => "18446744073709551614",
        Dtype::F32 | Dtype::F64 => "9.969209968386869e36",
        Dtype::I8 | Dtype::U8 | Dtype::F16 => return None,
    })
}

/// Returns the element that stores a value; `None` if the text is not a value of its type, or only some bits of
/// the element are used.
fn stored(element: &Element, text: &str) -> Option<Vec<u8>> {
    let bits = Fill::parse(text, element.dtype)?.bits();
    let mut bytes = bits.to_le_bytes()[..element.dtype.size() as usize].to_vec();
    match element.kind {
        ElementKind::Plain => {}
        ElementKind::Swapped => bytes.reverse(),
        _ => return None,
    }
    Some(bytes)
}

/// Converts fill values to text, as a JSON list if there are several. Returns `None` for NaN, which needs
/// no fill value, and for strings, whose codes are no values of the file.
fn fill_text(value: &Value, element: &Element, has_sign: bool) -> Option<String> {
    if element.kind.is_text() {
        return None;
    }
    let number_text = |number: &Number| -> Option<String> {
        let Some((min, max)) = element.integers() else {
            return (!number.is_nan()).then(|| number.text());
        };
        let value = number.integer()?;
        let value = match has_sign {
            true => min + (value - min).rem_euclid(max - min + 1),
            false => value,
        };
        Some(value.to_string())
    };
    let numbers: Vec<Number> = match value {
        Value::Numbers(numbers) => numbers.clone(),
        // Some writers store the number as text.
        Value::Texts(texts) => {
            let texts = texts.iter().filter_map(|text| text.trim().parse().ok());
            texts.map(Number::Double).collect()
        }
        Value::References(_) => Vec::new(),
    };
    let texts: Vec<String> = numbers.iter().filter_map(number_text).collect();
    match texts.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("[{}]", several.join(","))),
    }
}
