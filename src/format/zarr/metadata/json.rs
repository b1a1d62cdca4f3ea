//! Reads the JSON documents of a hierarchy, which may contain NaN and infinities as Python writes
//! them.

use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::handles::Identity;
use crate::format::zarr::root::Root;

/// Maximum length of a document in bytes. Consolidated metadata is the longest kind.
pub(crate) const MAX_BYTES: u64 = 64 << 20;
/// Maximum number of characters of a file's text, or of a parser's message, in an error message.
const MAX_MESSAGE: usize = 200;

/// Reads a document, and returns its bytes and the identity of its file; `None` if there is no
/// file.
pub(crate) fn read(root: &Root, path: &Path) -> Result<Option<(Vec<u8>, Identity)>> {
    let Some((file, metadata)) = root.open_document(path)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(Error::io(path, "read"))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::malformed(
            ErrorLocation::file(path),
            "metadata",
            format!("longer than {MAX_BYTES} bytes"),
            "a shorter document",
        ));
    }
    Ok(Some((bytes, Identity::of(&metadata))))
}

/// Returns `true` if an error means that a file does not exist.
///
/// This includes a path in which a file stands where a directory should be.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Parses a document, which must be an object. `path` is for error messages.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Value> {
    let malformed = |found: String| {
        Err(Error::malformed(
            ErrorLocation::file(path),
            "metadata",
            found,
            "a JSON object",
        ))
    };
    match serde_json::from_slice::<Value>(&quote_non_finite(bytes)) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(value) => malformed(clipped(&value.to_string())),
        Err(error) => malformed(format!("unreadable ({})", clipped(&error.to_string()))),
    }
}

/// Quotes NaN and the infinities, which Python writes as bare words. Zarr writes fill values as
/// such strings.
fn quote_non_finite(bytes: &[u8]) -> Vec<u8> {
    const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let mut result = Vec::with_capacity(bytes.len() + 16);
    let mut rest = bytes;
    let mut in_text = false;
    while let Some(&byte) = rest.first() {
        if in_text {
            // Skips an escaped character with its backslash, so that no escaped quote ends the
            // string.
            let length = if byte == b'\\' { rest.len().min(2) } else { 1 };
            in_text = byte != b'"';
            result.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        if let Some(word) = WORDS.iter().find(|word| rest.starts_with(word)) {
            result.push(b'"');
            result.extend_from_slice(word);
            result.push(b'"');
            rest = &rest[word.len()..];
            continue;
        }
        in_text = byte == b'"';
        result.push(byte);
        rest = &rest[1..];
    }
    result
}

/// Returns the beginning of a text from a file, for error messages.
pub(crate) fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_does_not_have() {
        let text = br#"{"a": NaN, "b": [-Infinity, Infinity], "NaN": "NaN \" NaN \\", "c": -1}"#;
        let value = parse(Path::new("x"), text).unwrap();
        let expected = serde_json::json!({
            "a": "NaN", "b": ["-Infinity", "Infinity"], "NaN": "NaN \" NaN \\", "c": -1,
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [&b""[..], b"[1]", b"{\"a\": nan}", b"\"\\", b"{\"a", b"\xff"] {
            let message = parse(Path::new("x"), text).unwrap_err().to_string();
            assert!(message.contains("expected a JSON object"), "{message}");
        }
        let deep = "{\"a\":".repeat(1 << 20);
        parse(Path::new("x"), deep.as_bytes()).unwrap_err();
    }
}
