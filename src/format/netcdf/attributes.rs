//! Converts attributes to text.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::format::array::{Dtype, FILL_ATTRIBUTES};
use crate::format::netcdf::element::{Element, NcType};
use crate::format::netcdf::header::Attribute;

/// The attribute that says whether integers are unsigned, whatever their type.
const UNSIGNED: &str = "_Unsigned";
/// The attribute that names the encoding of characters.
const ENCODING: &str = "_Encoding";
/// The attributes whose values are compared with stored cells.
const OF_CELLS: [&str; 6] = [
    "_FillValue",
    "missing_value",
    "fill_value",
    "valid_min",
    "valid_max",
    "valid_range",
];
/// Maximum number of numbers in an attribute. Attributes with more are left out.
const MAX_NUMBERS: usize = 65_536;

/// The encoding of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// UTF-8. Bytes that are not UTF-8 are read as Latin-1, which old files use.
    Utf8,
    Latin1,
}

impl Encoding {
    /// Returns the encoding that the attributes of a variable name, UTF-8 by default.
    pub fn of(attributes: &[Attribute]) -> Self {
        let named = attributes
            .iter()
            .find(|attribute| attribute.name == ENCODING);
        let named = named.map(|attribute| Self::Latin1.text(&attribute.bytes).to_ascii_lowercase());
        match named.as_deref() {
            Some("latin1" | "latin-1" | "iso-8859-1" | "iso8859-1" | "iso_8859-1") => Self::Latin1,
            _ => Self::Utf8,
        }
    }

    /// Decodes characters, without the zeros at their end.
    pub fn text(self, bytes: &[u8]) -> String {
        let bytes = without_padding(bytes);
        match (self, str::from_utf8(bytes)) {
            (Self::Utf8, Ok(text)) => text.to_string(),
            _ => bytes.iter().copied().map(char::from).collect(),
        }
    }
}

/// Returns bytes without the zeros at their end.
pub(super) fn without_padding(bytes: &[u8]) -> &[u8] {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    &bytes[..last.map_or(0, |last| last + 1)]
}

/// Returns the attributes of the file as text.
pub(super) fn of_file(
    attributes: &[Attribute],
    leave_out: &mut dyn FnMut(String),
) -> BTreeMap<String, String> {
    texts(attributes, leave_out, |attribute| Some(text(attribute)))
}

/// Returns the attributes of a variable as text, without `_Unsigned` if it is applied.
pub(super) fn of_variable(
    attributes: &[Attribute],
    element: Element,
    leave_out: &mut dyn FnMut(String),
) -> BTreeMap<String, String> {
    let is_unsigned = unsigned(attributes).is_some();
    texts(attributes, leave_out, |attribute| {
        let name = attribute.name.as_str();
        match element {
            // Strings that stand for null have the code for null. Codes are no values of the file.
            Element::Text(_) if FILL_ATTRIBUTES.contains(&name) => None,
            Element::Number(_) if OF_CELLS.contains(&name) => {
                cell_text(attribute, element, is_unsigned)
            }
            _ if name == UNSIGNED && is_unsigned && element.integers().is_some() => None,
            _ => Some(text(attribute)),
        }
    })
}

/// Returns the fill value of a variable without the attribute `_FillValue`. Where `_Unsigned` is applied,
/// every value may be in use.
pub(super) fn default_fill(attributes: &[Attribute], nc_type: NcType) -> Option<String> {
    let [fill, ..] = FILL_ATTRIBUTES;
    let has_fill = attributes.iter().any(|attribute| attribute.name == fill);
    let default = nc_type.default_fill()?;
    (!has_fill && unsigned(attributes).is_none()).then(|| default.to_string())
}

/// Returns the strings that stand for null in a variable of characters.
pub(super) fn null_texts(attributes: &[Attribute], encoding: Encoding) -> Vec<String> {
    let named = |name| attributes.iter().find(|attribute| attribute.name == name);
    let [fill, missing, other] = FILL_ATTRIBUTES.map(named);
    let other = other.filter(|_| fill.is_none() && missing.is_none());
    let found = [fill, missing, other].into_iter().flatten();
    let texts = found
        .filter(|attribute| attribute.nc_type == NcType::Char)
        .map(|attribute| encoding.text(&attribute.bytes));
    // Zeros pad strings, so that an empty string need not stand for null.
    texts.filter(|text| !text.is_empty()).collect()
}

/// Returns the value of the attribute `_Unsigned`.
pub(super) fn unsigned(attributes: &[Attribute]) -> Option<bool> {
    let unsigned = attributes
        .iter()
        .find(|attribute| attribute.name == UNSIGNED)?;
    match (unsigned.nc_type, without_padding(&unsigned.bytes)) {
        (NcType::Char, b"true") => Some(true),
        (NcType::Char, b"false") => Some(false),
        _ => None,
    }
}

fn texts(
    attributes: &[Attribute],
    leave_out: &mut dyn FnMut(String),
    text: impl Fn(&Attribute) -> Option<String>,
) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for attribute in attributes {
        let count = attribute.bytes.len() / attribute.nc_type.size() as usize;
        if attribute.nc_type != NcType::Char && count > MAX_NUMBERS {
            leave_out(format!(
                "attribute {:?} has {count} numbers, expected at most {MAX_NUMBERS}; it is left out",
                attribute.name
            ));
        } else if let Some(text) = text(attribute) {
            texts.insert(attribute.name.clone(), text);
        }
    }
    texts
}

/// Converts an attribute to text: characters are kept, a single number is formatted in decimal, and
/// several become a JSON list.
fn text(attribute: &Attribute) -> String {
    match attribute.nc_type {
        NcType::Char => Encoding::Utf8.text(&attribute.bytes),
        _ => joined(numbers(attribute).map(|number| number.text())),
    }
}

/// Converts an attribute whose numbers are compared with cells. Returns `None` if all are NaN.
///
/// For cells of integers, whole floats become integers. If `_Unsigned` was applied, numbers of the
/// other sign are wrapped.
fn cell_text(attribute: &Attribute, element: Element, wrap: bool) -> Option<String> {
    if attribute.nc_type == NcType::Char {
        return Some(text(attribute).trim().to_string());
    }
    let numbers = numbers(attribute).filter(|number| !number.is_nan());
    let texts = numbers.map(|number| {
        // The cells hold what a number of four bytes is in eight bytes.
        let number = match (number, element) {
            (Number::Single(value), Element::Number(Dtype::F64)) => Number::Double(value.into()),
            (number, _) => number,
        };
        match (element.integers(), number.whole()) {
            (Some((min, count)), Some(value)) if wrap => {
                (min + (value - min).rem_euclid(count)).to_string()
            }
            (Some(_), Some(value)) => value.to_string(),
            _ => number.text(),
        }
    });
    let texts: Vec<_> = texts.collect();
    (!texts.is_empty() || attribute.bytes.is_empty()).then(|| joined(texts.into_iter()))
}

/// Returns a single text as it is, and any other number of texts as a JSON list.
fn joined(mut texts: impl Iterator<Item = String>) -> String {
    let first = texts.next().unwrap_or_default();
    match texts.next() {
        None if !first.is_empty() => first,
        second => {
            let mut list = format!("[{first}");
            for text in second.into_iter().chain(texts) {
                list.push(',');
                list.push_str(&text);
            }
            list.push(']');
            list
        }
    }
}

/// A number in an attribute.
#[derive(Debug, Clone, Copy)]
enum Number {
    Integer(i128),
    Single(f32),
    Double(f64),
}

impl Number {
    fn text(self) -> String {
        // The shortest decimal that is read as the same float, with an exponent if it is long.
        let shortest = |float: &dyn std::fmt::Debug| format!("{float:?}");
        let integer = |integer: &dyn Display| integer.to_string();
        match self {
            Self::Integer(value) => integer(&value),
            Self::Single(value) => shortest(&value),
            Self::Double(value) => shortest(&value),
        }
    }

    fn is_nan(self) -> bool {
        match self {
            Self::Integer(_) => false,
            Self::Single(value) => value.is_nan(),
            Self::Double(value) => value.is_nan(),
        }
    }

    /// Returns the value if it is an integer of up to 64 bits.
    fn whole(self) -> Option<i128> {
        let float = match self {
            Self::Integer(value) => return Some(value),
            Self::Single(value) => f64::from(value),
            Self::Double(value) => value,
        };
        (float.fract() == 0.0 && float.abs() < 2e19).then_some(float as i128)
    }
}

/// Returns the numbers of an attribute; none for characters.
fn numbers(attribute: &Attribute) -> impl Iterator<Item = Number> {
    let nc_type = attribute.nc_type;
    let values = attribute.bytes.chunks_exact(nc_type.size() as usize);
    values.filter_map(move |bytes| {
        let bits = bytes
            .iter()
            .fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        Some(match nc_type {
            NcType::Char => return None,
            NcType::Byte => Number::Integer((bits as i8).into()),
            NcType::Short => Number::Integer((bits as i16).into()),
            NcType::Int => Number::Integer((bits as i32).into()),
            NcType::Int64 => Number::Integer((bits as i64).into()),
            NcType::Ubyte | NcType::Ushort | NcType::Uint | NcType::Uint64 => {
                Number::Integer(bits.into())
            }
            NcType::Float => Number::Single(f32::from_bits(bits as u32)),
            NcType::Double => Number::Double(f64::from_bits(bits)),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::netcdf::testing::attribute;

    fn of(attributes: &[Attribute], nc_type: NcType) -> Vec<(String, String)> {
        let element = Element::of(nc_type, unsigned(attributes), 4);
        let mut left_out = Vec::new();
        let mut leave_out = |what| left_out.push(what);
        let texts = of_variable(attributes, element, &mut leave_out);
        assert_eq!(left_out, [] as [String; 0]);
        texts.into_iter().collect()
    }

    fn pairs(texts: &[(&str, &str)]) -> Vec<(String, String)> {
        let texts = texts.iter();
        texts
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect()
    }

    #[test]
    fn attributes_become_text() {
        let attributes = [
            attribute("units", NcType::Char, b"K\0\0"),
            attribute("degrees", NcType::Char, b"\xb0C"),
            attribute("empty", NcType::Char, b""),
            attribute("none", NcType::Short, b""),
            attribute("one", NcType::Float, &0.1f32.to_be_bytes()),
            attribute("two", NcType::Byte, &[255, 1]),
            attribute("large", NcType::Double, &1e20f64.to_be_bytes()),
            attribute("nan", NcType::Double, &f64::NAN.to_be_bytes()),
            attribute("id", NcType::Uint64, &u64::MAX.to_be_bytes()),
        ];
        let expected = pairs(&[
            ("degrees", "\u{b0}C"),
            ("empty", ""),
            ("id", "18446744073709551615"),
            ("large", "1e20"),
            ("nan", "NaN"),
            ("none", "[]"),
            ("one", "0.1"),
            ("two", "[-1,1]"),
            ("units", "K"),
        ]);
        assert_eq!(of(&attributes, NcType::Byte), expected);
        let mut no_warning = |_| unreachable!();
        let of_file: Vec<_> = of_file(&attributes, &mut no_warning).into_iter().collect();
        assert_eq!(of_file, expected);
    }

    #[test]
    fn fill_values_have_the_type_of_the_cells() {
        let fill = |nc_type, bytes: &[u8]| attribute("_FillValue", nc_type, bytes);
        let text = |attributes: &[Attribute], nc_type| {
            let texts: BTreeMap<_, _> = of(attributes, nc_type).into_iter().collect();
            texts.get("_FillValue").cloned()
        };
        let some = |text: &str| Some(text.to_string());
        let float = fill(NcType::Float, &(-9999f32).to_be_bytes());
        assert_eq!(text(&[float], NcType::Short), some("-9999"));
        let float = || fill(NcType::Float, &0.1f32.to_be_bytes());
        assert_eq!(text(&[float()], NcType::Float), some("0.1"));
        let widened = text(&[float()], NcType::Double).unwrap();
        assert_eq!(widened.parse(), Ok(f64::from(0.1f32)));
        let nan = || fill(NcType::Double, &f64::NAN.to_be_bytes());
        assert_eq!(text(&[nan()], NcType::Double), None);
        assert_eq!(text(&[], NcType::Double), None);
        assert_eq!(
            default_fill(&[], NcType::Double),
            some("9.969209968386869e36")
        );
        assert_eq!(default_fill(&[], NcType::Ubyte), None);
        assert_eq!(default_fill(&[float()], NcType::Double), None);
        assert_eq!(text(&[fill(NcType::Char, b" ")], NcType::Char), None);
        assert_eq!(text(&[fill(NcType::Char, b"-1 ")], NcType::Int), some("-1"));
    }

    #[test]
    fn numbers_are_wrapped_if_the_attribute_unsigned_is_applied() {
        let attributes = |text: &[u8]| {
            [
                attribute("_Unsigned", NcType::Char, text),
                attribute("_FillValue", NcType::Byte, &[255]),
                attribute("missing_value", NcType::Byte, &[254, 3]),
            ]
        };
        let wrapped = pairs(&[("_FillValue", "255"), ("missing_value", "[254,3]")]);
        assert_eq!(of(&attributes(b"true"), NcType::Byte), wrapped);
        let signed = pairs(&[("_FillValue", "-1"), ("missing_value", "[-2,3]")]);
        assert_eq!(of(&attributes(b"false"), NcType::Ubyte), signed);
        let unknown = of(&attributes(b"yes"), NcType::Byte);
        assert_eq!(
            unknown[2],
            ("missing_value".to_string(), "[-2,3]".to_string())
        );
        assert_eq!(unknown[1], ("_Unsigned".to_string(), "yes".to_string()));
        assert_eq!(of(&attributes(b"true")[..1], NcType::Short), []);
        assert_eq!(default_fill(&attributes(b"true")[..1], NcType::Short), None);
    }

    #[test]
    fn attributes_with_many_numbers_are_left_out() {
        let long = [attribute("list", NcType::Byte, &[0; MAX_NUMBERS + 1])];
        let mut left_out = Vec::new();
        let texts = of_file(&long, &mut |what| left_out.push(what));
        assert!(texts.is_empty() && left_out[0].contains("65537 numbers"));
    }

    #[test]
    fn characters_in_the_named_encoding() {
        let named = |name: &[u8]| Encoding::of(&[attribute("_Encoding", NcType::Char, name)]);
        assert_eq!(
            named(b"ISO-8859-1").text("\u{e9}".as_bytes()),
            "\u{c3}\u{a9}"
        );
        assert_eq!(named(b"utf-8").text("\u{e9}\0".as_bytes()), "\u{e9}");
        assert_eq!(Encoding::of(&[]).text(b"a\0b\xe9\0\0"), "a\0b\u{e9}");
    }
}
