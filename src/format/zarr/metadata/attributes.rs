//! Converts attributes, dimension names and fill values from JSON to text.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Number, Value};

use crate::format::array::DatasetMetadata;
use crate::format::zarr::metadata::element::{CellKind, Element};
use crate::format::zarr::metadata::json::clipped;

/// The attribute that holds the fill value.
pub(crate) const FILL_VALUE: &str = "_FillValue";
/// The attribute that holds further values that stand for null.
const MISSING_VALUE: &str = "missing_value";
/// The attribute that overrides whether integers are unsigned.
const UNSIGNED: &str = "_Unsigned";
/// The attribute that holds the dimension names in version 2, by the convention of xarray.
pub(crate) const DIMENSIONS: &str = "_ARRAY_DIMENSIONS";

/// Returns attributes as texts, in the form of [`metadata`].
pub(crate) fn texts(attributes: &Value) -> BTreeMap<String, String> {
    let attributes = attributes.as_object().into_iter().flatten();
    attributes
        .filter_map(|(key, value)| Some((key.clone(), text(value)?)))
        .collect()
}

/// Builds an array's metadata from its attributes, its `dimension_names` (version 3) and its fill
/// value (version 2).
///
/// Text is kept, numbers and booleans are formatted as JSON, and null is left out. A list of one
/// element becomes that element, since attributes converted from NetCDF are such lists. Other
/// lists, and objects, become JSON.
pub(crate) fn metadata(
    attributes: &Value,
    dimension_names: Option<&Value>,
    fill: Option<&Value>,
    element: &Element,
    dimensions: usize,
) -> DatasetMetadata {
    let empty = Map::new();
    let attributes = attributes.as_object().unwrap_or(&empty);
    let mut metadata = DatasetMetadata::default();
    for (key, value) in attributes {
        if let Some(text) = text(value)
            && key != FILL_VALUE
            && key != DIMENSIONS
            && !(key == UNSIGNED && element.integers().is_some())
        {
            let missing = match key.as_str() {
                MISSING_VALUE => missing_text(value, element),
                _ => None,
            };
            metadata.attrs.insert(key.clone(), missing.unwrap_or(text));
        }
    }
    let fill = attributes
        .get(FILL_VALUE)
        .filter(|fill| !fill.is_null())
        .or(fill);
    if let Some(mut text) = fill.and_then(|fill| fill_text(fill, element)) {
        if attributes.contains_key(UNSIGNED) {
            // The fill value may be written for the stored type, which has the other sign.
            text = wrapped(text, element);
        }
        metadata.attrs.insert(FILL_VALUE.to_string(), text);
    }
    if let CellKind::Time { units, is_instant } = &element.kind {
        // These attributes follow from the element type, and override the array's own.
        metadata.attrs.insert("units".to_string(), units.clone());
        metadata.attrs.remove("calendar");
        if *is_instant {
            let calendar = "proleptic_gregorian".to_string();
            metadata.attrs.insert("calendar".to_string(), calendar);
            let kind = match units.starts_with("days") {
                true => "date32",
                false => "timestamp",
            };
            metadata
                .attrs
                .insert("arrow_type".to_string(), kind.to_string());
        }
        metadata
            .attrs
            .insert(FILL_VALUE.to_string(), i64::MIN.to_string());
    }
    let names = dimension_names.filter(|names| !names.is_null());
    let names = names.or_else(|| attributes.get(DIMENSIONS));
    metadata.dim_names = names
        .and_then(|names| distinct(names, dimensions))
        .unwrap_or_default();
    metadata
}

/// Applies the attribute `_Unsigned`, if there is one, to an element type.
pub(crate) fn with_sign(element: Element, attributes: &Value) -> Element {
    match attributes.get(UNSIGNED) {
        Some(unsigned) => element.with_unsigned(unsigned),
        None => element,
    }
}

/// Converts the values of `missing_value` to text, as a JSON list if there are several.
///
/// Returns `None` if none of them can be read.
fn missing_text(value: &Value, element: &Element) -> Option<String> {
    let Value::Array(list) = value else {
        return fill_text(value, element);
    };
    let texts = list.iter().filter_map(|value| fill_text(value, element));
    let texts: Vec<String> = texts.collect();
    match texts.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("[{}]", several.join(","))),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(list) if list.len() == 1 && !list[0].is_array() => text(&list[0]),
        other => Some(other.to_string()),
    }
}

/// Returns the dimension names, if every dimension has one and they are distinct.
fn distinct(names: &Value, dimensions: usize) -> Option<Vec<String>> {
    let names = names.as_array()?;
    let names: Vec<String> = names
        .iter()
        .map(|name| Some(name.as_str()?.to_string()))
        .collect::<Option<_>>()?;
    let different: HashSet<_> = names.iter().collect();
    let is_usable = names.len() == dimensions
        && different.len() == names.len()
        && names.iter().all(|name| !name.is_empty());
    is_usable.then_some(names)
}

/// Converts a fill value to text.
///
/// Returns `None` for NaN, which needs no fill value, and for strings, which are never null. For
/// integer types, a whole float such as `-9999.0` becomes an integer.
fn fill_text(fill: &Value, element: &Element) -> Option<String> {
    if matches!(element.kind, CellKind::Text(_)) {
        return None;
    }
    match fill {
        Value::Bool(fill) => Some(u8::from(*fill).to_string()),
        Value::Number(number) => Some(integer_text(number, element).unwrap_or(number.to_string())),
        Value::String(fill) => {
            let value = match fill.parse::<f64>() {
                Ok(value) => value,
                // xarray writes a float as the base64 of its eight bytes.
                Err(_) => f64::from_le_bytes(base64(fill)?.try_into().ok()?),
            };
            match Number::from_f64(value) {
                // An integer's text may have more digits than an `f64` holds, so it is kept.
                Some(_) if fill.parse::<i128>().is_ok() => Some(fill.clone()),
                Some(number) => Some(integer_text(&number, element).unwrap_or(number.to_string())),
                None if value.is_nan() => None,
                None => Some(value.to_string()),
            }
        }
        Value::Array(list) if list.len() == 1 && !list[0].is_array() => {
            fill_text(&list[0], element)
        }
        other => Some(clipped(&other.to_string())),
    }
}

/// Returns a number without a fraction as the text of an integer, if the cells are integers.
fn integer_text(number: &Number, element: &Element) -> Option<String> {
    element.integers()?;
    let value: i128 = match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(value), ..) => value.into(),
        (_, Some(value), _) => value.into(),
        (.., Some(value)) if value.fract() == 0.0 && value.abs() < 2e19 => value as i128,
        _ => return None,
    };
    Some(value.to_string())
}

/// Wraps an integer that is out of the range of the cells into that range.
fn wrapped(text: String, element: &Element) -> String {
    match (element.integers(), text.parse::<i128>()) {
        (Some((min, _, count)), Ok(value)) => (min + (value - min).rem_euclid(count)).to_string(),
        _ => text,
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes base64 with padding.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 || !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for digit in digits.bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

/// Encodes bytes as base64 with padding.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let byte = |n: usize| u32::from(part.get(n).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            if digit <= part.len() {
                let value = bits >> (18 - 6 * digit) & 63;
                text.push(char::from(DIGITS[value as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn element(name: &str) -> Element {
        Element::of_v3(&json!(name), false).unwrap()
    }

    #[test]
    fn bytes_in_base64() {
        for bytes in [&b""[..], b"f", b"fo", b"foo", b"foob", b"\xff\x00\xfe\x7f"] {
            assert_eq!(base64(&to_base64(bytes)).unwrap(), bytes);
        }
        assert_eq!(to_base64(b"foob"), "Zm9vYg==");
        assert_eq!(base64("AAAAAAAA+H8=").unwrap(), f64::NAN.to_le_bytes());
        for text in ["A", "AA", "AAA", "A===", "AA=A", "\u{b5}\u{b5}", "A A="] {
            assert_eq!(base64(text), None, "{text}");
        }
    }

    #[test]
    fn fill_values() {
        let fill = |value: Value, name: &str| fill_text(&value, &element(name));
        let encoded = json!(to_base64(&(-999.5f64).to_le_bytes()));
        assert_eq!(fill(encoded, "float32").unwrap(), "-999.5");
        assert_eq!(fill(json!("AAAAAAAA+H8="), "float32"), None);
        assert_eq!(fill(json!("NaN"), "float64"), None);
        assert_eq!(fill(json!("-Infinity"), "float64").unwrap(), "-inf");
        assert_eq!(fill(json!([-32768]), "int16").unwrap(), "-32768");
        assert_eq!(
            fill(json!(u64::MAX), "uint64").unwrap(),
            u64::MAX.to_string()
        );
        assert_eq!(
            fill(json!("18446744073709551615"), "uint64").unwrap(),
            u64::MAX.to_string()
        );
        assert_eq!(fill(json!(true), "bool").unwrap(), "1");
        assert_eq!(fill(json!("x"), "float64"), None);
        assert_eq!(fill(json!(""), "string"), None);
    }

    #[test]
    fn missing_integers() {
        let attributes = |attributes: Value, name: &str| {
            let element = with_sign(element(name), &attributes);
            let attrs = metadata(&attributes, None, None, &element, 1).attrs;
            let of = |key: &str| attrs.get(key).cloned().unwrap_or_default();
            [FILL_VALUE, MISSING_VALUE].map(of)
        };
        let floats = json!({"_FillValue": -9999.0, "missing_value": [-1.0, 7, "NaN"]});
        assert_eq!(attributes(floats.clone(), "int16"), ["-9999", "[-1,7]"]);
        assert_eq!(attributes(floats, "float32"), ["-9999.0", "[-1.0,7]"]);
        assert_eq!(
            attributes(json!({"_FillValue": 0.5, "missing_value": [3.0]}), "uint8"),
            ["0.5", "3"]
        );
        let both = |unsigned: &str| {
            json!({
                "_Unsigned": unsigned, "_FillValue": -1, "missing_value": -1,
            })
        };
        // `missing_value` is not wrapped, as in xarray.
        assert_eq!(attributes(both("true"), "int8"), ["255", "-1"]);
        assert_eq!(attributes(both("false"), "uint16"), ["-1", "-1"]);
    }

    #[test]
    fn attributes_as_text() {
        let attributes = json!({
            "units": "K", "scale_factor": 0.5, "n": 3, "yes": true, "none": null, "one": [1.5],
            "many": [1, 2], "texts": ["a b", "c"], "object": {"a": 1},
            "_ARRAY_DIMENSIONS": ["x", "y"],
        });
        let metadata = metadata(&attributes, None, Some(&json!(0)), &element("int16"), 2);
        let attrs: Vec<_> = metadata
            .attrs
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            attrs,
            [
                ("_FillValue", "0"),
                ("many", "[1,2]"),
                ("n", "3"),
                ("object", "{\"a\":1}"),
                ("one", "1.5"),
                ("scale_factor", "0.5"),
                ("texts", "[\"a b\",\"c\"]"),
                ("units", "K"),
                ("yes", "true"),
            ]
        );
        assert_eq!(metadata.dim_names, ["x", "y"]);
    }

    #[test]
    fn unusable_dimension_names_are_ignored() {
        for names in [
            json!(["a", "a"]),
            json!(["a"]),
            json!(["a", null]),
            json!(["a", ""]),
            json!("ab"),
        ] {
            assert_eq!(distinct(&names, 2), None, "{names}");
        }
    }
}
