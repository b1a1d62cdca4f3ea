//! Arrays of strings: the strings of a chunk, and the codes that stand for them.

use std::collections::BTreeMap;

use crate::format::array::{Categories, DecodeContext, checked_product, next_indices};
use crate::format::zarr::hierarchy::ZarrHierarchy;
use crate::format::zarr::metadata::element::TextKind;

/// Maximum length of a string in bytes.
const MAX_TEXT: usize = 1024;
/// Maximum number of strings in all arrays of a hierarchy, since their codes are kept in memory.
const MAX_ALL_TEXTS: u64 = 4 << 20;
/// Maximum number of strings in an array, since they are read when the hierarchy is opened.
pub(super) const MAX_TEXTS: u64 = 65_536;

/// Returns `true` if readers accept an array of strings of this shape.
pub(super) fn is_readable(shape: &[u64]) -> bool {
    checked_product(shape).is_some_and(|count| count <= MAX_TEXTS)
}
/// The code for null. No string has it, since Zarr has no null strings.
pub(super) const MISSING: i64 = -1;

/// Returns the maximum size in bytes of a decoded chunk of `count` strings.
///
/// A chunk of variable-length strings starts with their count, and each has its length before it.
pub(super) fn most_bytes(kind: TextKind, count: u64) -> u64 {
    match kind.size() {
        Some(size) => count.saturating_mul(size),
        None => count.saturating_mul(MAX_TEXT as u64 + 4).saturating_add(4),
    }
}

/// Parses the strings of a decoded chunk.
///
/// # Errors
/// Returns a message if the bytes are malformed, or if a string is too long.
pub(super) fn parse(kind: TextKind, bytes: &[u8], count: u64) -> Result<Vec<String>, String> {
    let texts = match kind {
        TextKind::Variable => variable(bytes, count)?,
        TextKind::Utf32 {
            characters,
            is_big_endian,
        } => fixed(bytes, count, characters * 4)?
            .map(|text| utf32(text, is_big_endian))
            .collect::<Result<_, _>>()?,
        TextKind::Bytes { length } => fixed(bytes, count, length)?
            .map(|text| {
                let end = text
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |last| last + 1);
                utf8(&text[..end])
            })
            .collect::<Result<_, _>>()?,
    };
    match texts.iter().find(|text: &&String| text.len() > MAX_TEXT) {
        Some(text) => Err(format!(
            "a string of {} bytes, more than {MAX_TEXT}",
            text.len()
        )),
        None => Ok(texts),
    }
}

fn variable(bytes: &[u8], count: u64) -> Result<Vec<String>, String> {
    let mut rest = bytes;
    let number = |rest: &mut &[u8]| -> Result<u64, String> {
        let (number, after) = rest.split_first_chunk().ok_or("cut off within a length")?;
        *rest = after;
        Ok(u32::from_le_bytes(*number).into())
    };
    let stored = number(&mut rest)?;
    if stored != count {
        return Err(format!("{stored} strings, expected {count}"));
    }
    let mut texts = Vec::new();
    for _ in 0..count {
        let length = number(&mut rest)?;
        let text = rest
            .get(..length as usize)
            .ok_or("cut off within a string")?;
        texts.push(utf8(text)?);
        rest = &rest[length as usize..];
    }
    Ok(texts)
}

fn fixed(bytes: &[u8], count: u64, size: u64) -> Result<impl Iterator<Item = &[u8]>, String> {
    let expected = count.checked_mul(size);
    if expected != Some(bytes.len() as u64) {
        return Err(format!(
            "{} bytes, expected {count} strings of {size} bytes",
            bytes.len()
        ));
    }
    Ok(bytes.chunks_exact(size as usize))
}

fn utf32(bytes: &[u8], is_big_endian: bool) -> Result<String, String> {
    let (points, _) = bytes.as_chunks::<4>();
    let point = |bytes: &[u8; 4]| {
        if is_big_endian {
            u32::from_be_bytes(*bytes)
        } else {
            u32::from_le_bytes(*bytes)
        }
    };
    let end = points
        .iter()
        .rposition(|bytes| point(bytes) != 0)
        .map_or(0, |last| last + 1);
    let text = points[..end]
        .iter()
        .map(|bytes| char::from_u32(point(bytes)));
    text.collect::<Option<_>>()
        .ok_or_else(|| "an invalid code point".to_string())
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    match str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_string()),
        Err(_) => Err("a string that is not UTF-8".to_string()),
    }
}

/// Assigns codes to strings in the order of first appearance.
#[derive(Debug, Default)]
pub(super) struct Codes {
    codes: BTreeMap<String, i64>,
}

impl Codes {
    pub fn of(&mut self, text: &str) -> i64 {
        if let Some(code) = self.codes.get(text) {
            return *code;
        }
        let code = self.codes.len() as i64;
        self.codes.insert(text.to_string(), code);
        code
    }

    /// Returns the attributes that hold the string of each code.
    pub fn attributes(&self) -> Vec<(String, String)> {
        Categories::encode(&self.codes, MISSING, MAX_TEXT)
    }
}

/// Encodes a chunk of variable-length strings, the inverse of [`parse`].
pub(super) fn encode<'a>(texts: impl ExactSizeIterator<Item = &'a str>) -> Vec<u8> {
    let mut bytes = (texts.len() as u32).to_le_bytes().to_vec();
    for text in texts {
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// The reason why an array of strings cannot be read.
pub(super) struct Unread {
    pub found: String,
    /// `true` if the array is damaged, `false` if it is beyond a limit or not supported.
    pub is_damage: bool,
}

impl Unread {
    fn damaged(found: impl ToString) -> Self {
        Self {
            found: found.to_string(),
            is_damage: true,
        }
    }
}

impl From<String> for Unread {
    fn from(found: String) -> Self {
        Self {
            found,
            is_damage: false,
        }
    }
}

/// Reads an array of strings: the codes of the cells as bytes, and the attributes that hold the strings.
pub(super) fn read(
    hierarchy: &ZarrHierarchy,
    array: usize,
    kind: TextKind,
    total: &mut u64,
) -> Result<(Vec<u8>, BTreeMap<String, String>), Unread> {
    let described = &hierarchy.arrays()[array].description;
    let (shape, chunk_shape) = (&described.shape, &described.chunk_shape);
    let count = checked_product(shape).unwrap_or(u64::MAX);
    if count > MAX_TEXTS {
        return Err(format!("{count} strings, more than {MAX_TEXTS}").into());
    }
    if shape.len() > 1 && described.chain.has_transposed_texts() {
        return Err("strings whose dimensions are transposed".to_string().into());
    }
    *total += count;
    if *total > MAX_ALL_TEXTS {
        return Err(format!("more than {MAX_ALL_TEXTS} strings in the hierarchy").into());
    }
    let mut codes = Codes::default();
    let mut cells = vec![0; count as usize * size_of::<i64>()];
    if cells.is_empty() {
        // A string for a code makes the cells strings.
        codes.of(&described.fill_text);
        return Ok((cells, codes.attributes().into_iter().collect()));
    }
    let stored = checked_product(chunk_shape).unwrap_or(u64::MAX);
    let most_bytes = most_bytes(kind, stored);
    let axes = || shape.iter().zip(chunk_shape);
    let chunks: Vec<u64> = axes()
        .map(|(extent, size)| extent.div_ceil(*size))
        .collect();
    let decoded = checked_product(&chunks).and_then(|chunks| chunks.checked_mul(stored));
    if decoded.is_none_or(|decoded| decoded > MAX_ALL_TEXTS.saturating_add(stored)) {
        return Err(format!("more than {MAX_ALL_TEXTS} strings in its chunks").into());
    }
    let mut context = DecodeContext::default();
    let mut chunk = vec![0; shape.len()];
    loop {
        let is_present = hierarchy
            .decode(array, &chunk, Some(most_bytes), &mut context)
            .map_err(Unread::damaged)?;
        let texts = is_present
            .then(|| parse(kind, &context.cells, stored))
            .transpose()
            .map_err(|found| Unread::damaged(format!("chunk {chunk:?} has {found}")))?;
        let extents: Vec<u64> = axes()
            .zip(&chunk)
            .map(|((extent, size), chunk)| (extent - chunk * size).min(*size))
            .collect();
        let mut inside = vec![0; shape.len()];
        loop {
            let (mut from, mut to) = (0, 0);
            for ((extent, size), (inside, chunk)) in axes().zip(inside.iter().zip(&chunk)) {
                from = from * size + inside;
                to = to * extent + chunk * size + inside;
            }
            let text = texts.as_ref().map(|texts| texts[from as usize].as_str());
            let code = codes.of(text.unwrap_or(&described.fill_text));
            cells.as_chunks_mut().0[to as usize] = code.to_le_bytes();
            if !next_indices(&mut inside, &extents) {
                break;
            }
        }
        if !next_indices(&mut chunk, &chunks) {
            break;
        }
    }
    Ok((cells, codes.attributes().into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_each_kind() {
        let texts = ["rain", "", "S\u{e4}\u{1f327}"];
        let bytes = encode(texts.iter().copied());
        assert_eq!(parse(TextKind::Variable, &bytes, 3).unwrap(), texts);
        for end in 0..bytes.len() {
            parse(TextKind::Variable, &bytes[..end], 3).unwrap_err();
        }
        parse(TextKind::Variable, &bytes, 2).unwrap_err();
        parse(TextKind::Variable, &[1, 0, 0, 0, 255, 255, 255, 255, 65], 1).unwrap_err();
        for is_big_endian in [false, true] {
            let kind = TextKind::Utf32 {
                characters: 4,
                is_big_endian,
            };
            let point = |c: u32| {
                if is_big_endian {
                    c.to_be_bytes()
                } else {
                    c.to_le_bytes()
                }
            };
            let padded = |text: &str| {
                let mut points: Vec<u32> = text.chars().map(u32::from).collect();
                points.resize(4, 0);
                points.into_iter().flat_map(point).collect::<Vec<u8>>()
            };
            let bytes: Vec<u8> = texts.iter().flat_map(|text| padded(text)).collect();
            assert_eq!(parse(kind, &bytes, 3).unwrap(), texts);
            parse(kind, &bytes[1..], 3).unwrap_err();
            parse(kind, &[0xff; 16], 1).unwrap_err();
        }
        let kind = TextKind::Bytes { length: 3 };
        assert_eq!(parse(kind, b"ab\0\0\0\0", 2).unwrap(), ["ab", ""]);
        parse(kind, b"\xff\0\0", 1).unwrap_err();
    }

    #[test]
    fn codes_by_first_appearance() {
        let mut codes = Codes::default();
        assert_eq!(["b", "a", "b", ""].map(|text| codes.of(text)), [0, 1, 0, 2]);
        let attributes: BTreeMap<_, _> = codes.attributes().into_iter().collect();
        let categories = Categories::of(&attributes).unwrap().unwrap();
        assert_eq!(
            (categories.text(1), categories.missing()),
            (Some("a"), Some(-1))
        );
    }
}
