//! The header of a `.npy` file (NEP 1): magic, version, and a Python dictionary with element type,
//! order and shape.

use std::path::Path;

use crate::error::{Error, ErrorLocation, Result};

const MAGIC: [u8; 6] = *b"\x93NUMPY";
/// Offset of the dictionary's length, which follows the magic and the version.
const VERSION_END: usize = 8;
/// Maximum length of a header in bytes; NumPy's own headers stay below 64 KiB.
pub(super) const MAX_HEADER: usize = 1 << 20;
/// Maximum number of dimensions, as in NumPy.
pub(super) const MAX_DIMENSIONS: usize = 64;
/// Alignment of the first cell in bytes.
const ALIGNMENT: usize = 64;
/// Number of characters of a header that an error message quotes.
const MAX_QUOTED: usize = 80;

/// The contents of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// The element type, such as `<f4`.
    pub descr: String,
    /// `true` for column-major order, in which the first axis varies fastest.
    pub fortran_order: bool,
    pub shape: Vec<u64>,
    /// Offset of the first cell.
    pub cells_offset: u64,
}

impl Header {
    /// Parses a header. `start` holds the first [`MAX_HEADER`] bytes of the file, or all of a
    /// shorter one.
    pub fn parse(path: &Path, dataset: &str, start: &[u8]) -> Result<Self> {
        let malformed = |field, found: String, expected: &str| {
            Error::malformed(
                ErrorLocation::dataset(path, dataset),
                field,
                found,
                expected,
            )
        };
        if !start.starts_with(&MAGIC) {
            let found = start[..start.len().min(MAGIC.len())].escape_ascii();
            return Err(malformed(
                "npy magic",
                format!("\"{found}\""),
                "\"\\x93NUMPY\"",
            ));
        }
        let too_short = || {
            let found = format!("{} bytes", start.len());
            malformed("npy header", found, "a whole header")
        };
        let (major, minor) = match start.get(MAGIC.len()..VERSION_END) {
            Some([major, minor]) => (*major, *minor),
            _ => return Err(too_short()),
        };
        let length_bytes = match major {
            1 => 2,
            2 | 3 => 4,
            _ => {
                let found = format!("{major}.{minor}");
                return Err(malformed("npy version", found, "1.0, 2.0 or 3.0"));
            }
        };
        let dictionary_start = VERSION_END + length_bytes;
        let length = start
            .get(VERSION_END..dictionary_start)
            .ok_or_else(too_short)?
            .iter()
            .rev()
            .fold(0usize, |length, byte| length << 8 | usize::from(*byte));
        let end = dictionary_start + length;
        let Some(dictionary) = start.get(dictionary_start..end) else {
            let found = format!("{length} bytes long");
            return Err(malformed(
                "npy header",
                found,
                "at most 1 MiB, within the file",
            ));
        };
        let text = String::from_utf8_lossy(dictionary);
        let unreadable = |what: &str| {
            let shown: String = text.trim().chars().take(MAX_QUOTED).collect();
            malformed("npy header", format!("{shown:?}"), what)
        };
        let value = |key: &str| value_of(&text, key);
        let descr = value("descr").ok_or_else(|| unreadable("a dictionary with descr"))?;
        let Some(descr) = unquoted(descr) else {
            let found = descr.chars().take(MAX_QUOTED).collect();
            let expected = "one element type; records of several fields are not supported";
            return Err(malformed("descr", found, expected));
        };
        let fortran_order = match value("fortran_order").map(first_word) {
            Some("True") => true,
            Some("False") => false,
            _ => return Err(unreadable("fortran_order as True or False")),
        };
        let shape = value("shape")
            .and_then(extents)
            .ok_or_else(|| unreadable("shape as a tuple of whole numbers"))?;
        if shape.len() > MAX_DIMENSIONS {
            let found = format!("of {} dimensions", shape.len());
            return Err(malformed("shape", found, "at most 64, as NumPy has"));
        }
        Ok(Self {
            descr: descr.to_string(),
            fortran_order,
            shape,
            cells_offset: end as u64,
        })
    }

    /// Encodes a header of version 1, or of version 2 if it is long, padded to align the cells.
    pub fn encode(&self) -> Vec<u8> {
        let shape: Vec<_> = self.shape.iter().map(u64::to_string).collect();
        let comma = if shape.len() == 1 { "," } else { "" };
        let order = if self.fortran_order { "True" } else { "False" };
        let mut text = format!(
            "{{'descr': '{}', 'fortran_order': {order}, 'shape': ({}{comma}), }}",
            self.descr,
            shape.join(", ")
        );
        let is_short = text.len() + ALIGNMENT < usize::from(u16::MAX);
        let before = VERSION_END + if is_short { 2 } else { 4 };
        // A line feed ends the header.
        let end = (before + text.len() + 1).next_multiple_of(ALIGNMENT);
        text.extend(std::iter::repeat_n(' ', end - before - text.len() - 1));
        text.push('\n');
        let mut bytes = MAGIC.to_vec();
        if is_short {
            bytes.extend([1, 0]);
            bytes.extend((text.len() as u16).to_le_bytes());
        } else {
            bytes.extend([2, 0]);
            bytes.extend((text.len() as u32).to_le_bytes());
        }
        bytes.extend(text.bytes());
        bytes
    }
}

/// Returns the rest of the dictionary after a key and its colon.
fn value_of<'a>(dictionary: &'a str, key: &str) -> Option<&'a str> {
    ['\'', '"'].into_iter().find_map(|quote| {
        let (_, rest) = dictionary.split_once(&format!("{quote}{key}{quote}"))?;
        Some(rest.trim_start().strip_prefix(':')?.trim_start())
    })
}

fn first_word(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_ascii_alphabetic());
    &text[..end.unwrap_or(text.len())]
}

fn unquoted(text: &str) -> Option<&str> {
    let quote = text
        .chars()
        .next()
        .filter(|quote| ['\'', '"'].contains(quote))?;
    Some(text[1..].split_once(quote)?.0)
}

fn extents(text: &str) -> Option<Vec<u64>> {
    let (inside, _) = text.strip_prefix('(')?.split_once(')')?;
    let extents = inside.split(',').map(str::trim);
    // Python 2 wrote long integers with a trailing `L`.
    extents
        .filter(|extent| !extent.is_empty())
        .map(|extent| extent.trim_end_matches('L').parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Header> {
        Header::parse(Path::new("a.npy"), "a", bytes)
    }

    fn with_dictionary(text: &str) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.bytes());
        bytes
    }

    #[test]
    fn headers_are_read_as_they_are_written() {
        for (descr, fortran_order, shape) in [
            ("<f4", false, vec![2, 3]),
            ("|b1", true, vec![7]),
            (">M8[ns]", false, vec![]),
            ("<u8", false, vec![u64::MAX; 64]),
        ] {
            let mut header = Header {
                descr: descr.to_string(),
                fortran_order,
                shape,
                cells_offset: 0,
            };
            let bytes = header.encode();
            assert_eq!(bytes.len() % ALIGNMENT, 0);
            header.cells_offset = bytes.len() as u64;
            assert_eq!(parse(&bytes).unwrap(), header);
        }
    }

    #[test]
    fn other_spellings() {
        let header = parse(&with_dictionary(
            "{\"shape\": (3L,), 'fortran_order':False,'descr' : \"<i2\"}",
        ))
        .unwrap();
        assert_eq!(header.shape, [3]);
        assert_eq!(header.descr, "<i2");
    }

    #[test]
    fn malformed_headers_are_refused() {
        let whole = with_dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }");
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).is_err(), "{length}");
        }
        for (text, expected) in [
            ("{}", "with descr"),
            (
                "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
                "several fields",
            ),
            (
                "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3,)}",
                "True or False",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
                "whole numbers",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
                "a tuple",
            ),
        ] {
            let error = parse(&with_dictionary(text)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let shape = "1, ".repeat(65);
        let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape})}}");
        let error = parse(&with_dictionary(&text)).unwrap_err().to_string();
        assert!(error.contains("of 65 dimensions"), "{error}");
        let error = parse(b"\x93NUMPY\x09\x00\x01\x00 ")
            .unwrap_err()
            .to_string();
        assert!(error.contains("npy version is 9.0"), "{error}");
    }
}
