//! Arrays of strings, whose cells are codes of the strings.

use std::collections::BTreeMap;

use hdf5_reader::datatype_api::StringPadding;

use crate::format::array::Categories;
use crate::format::hdf5::metadata::attributes::fixed_text;
use crate::format::hdf5::metadata::element::ElementKind;
use crate::format::hdf5::metadata::heaps::Heaps;
use crate::format::hdf5::source::{Found, Source};

/// Maximum length of a string in bytes.
const MAX_TEXT: usize = 1024;
/// Maximum number of strings in an array, since they are read when the file is opened.
pub(super) const MAX_TEXTS: u64 = 1 << 16;
/// The code of null strings.
pub(super) const NULL_CODE: i64 = -1;

/// The codes of an array of strings, and the attributes that hold the string of each code.
#[derive(Debug, Default)]
pub(super) struct Texts {
    pub codes: Vec<i64>,
    pub attributes: Vec<(String, String)>,
}

/// Decodes the elements of an array of strings. Codes are assigned in the order of first appearance.
/// `count` is the number of elements, whose size may be 0. The strings `nulls` have the code for null.
///
/// # Errors
/// Returns a message if a string cannot be read or is too long.
pub(super) fn decode(
    source: &Source,
    heaps: &mut Heaps,
    kind: ElementKind,
    elements: &[u8],
    count: usize,
    nulls: &[String],
) -> Found<Texts> {
    let mut known = BTreeMap::new();
    let mut codes = Vec::with_capacity(count);
    let size = elements.len().checked_div(count).unwrap_or(0);
    for number in 0..count {
        let element = &elements[number * size..][..size];
        let text = match kind {
            ElementKind::VariableText => {
                let text = heaps.value(source, element, 1, MAX_TEXT)?;
                fixed_text(&text, StringPadding::NullTerminate)
            }
            ElementKind::FixedText(padding) => fixed_text(element, padding),
            _ => return Err("elements that are no strings".to_string()),
        };
        if text.len() > MAX_TEXT {
            return Err(format!(
                "a string of {} bytes, more than {MAX_TEXT}",
                text.len()
            ));
        }
        if nulls.contains(&text) {
            codes.push(NULL_CODE);
            continue;
        }
        let next = known.len() as i64;
        codes.push(*known.entry(text).or_insert(next));
    }
    Ok(Texts {
        codes,
        attributes: Categories::encode(&known, NULL_CODE, MAX_TEXT),
    })
}
