//! Chunk keys: the paths of chunk files within an array's directory.

use std::fmt::Write;

use serde_json::Value;

use crate::format::zarr::metadata::json::clipped;

/// Maximum length of a key's suffix in bytes.
const MAX_SUFFIX: usize = 64;

/// The chunk key encoding of an array: how a chunk's key is built from its indices.
///
/// | Encoding | Key of chunk `[1, 23]` |
/// | --- | --- |
/// | version 2 | `1.23` |
/// | version 2, separator `/` | `1/23` |
/// | version 3, `default` | `c/1/23` |
/// | version 3, `v2` with suffix `.tiff` | `1.23.tiff` |
///
/// A key consists of numbers, separators and a suffix without path separators, so that no key leads
/// out of the array's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChunkKeys {
    /// `true` if keys start with `c`, as in version 3.
    has_prefix: bool,
    separator: char,
    suffix: String,
}

impl ChunkKeys {
    /// Returns the keys of version 2, given its `dimension_separator`.
    ///
    /// # Errors
    /// Returns a message if the separator is neither `/` nor `.`.
    pub fn of_v2(separator: Option<&Value>) -> Result<Self, String> {
        Ok(Self {
            has_prefix: false,
            separator: self::separator(separator, '.')
                .map_err(|found| format!("dimension_separator is {found}"))?,
            suffix: String::new(),
        })
    }

    /// Returns the keys that a `chunk_key_encoding` describes: `default` or `v2`, possibly with a
    /// suffix.
    ///
    /// # Errors
    /// Returns a message if the encoding is malformed or not supported.
    pub fn of_v3(encoding: Option<&Value>) -> Result<Self, String> {
        let Some(encoding) = encoding else {
            return Self::named("default", &Value::Null);
        };
        let configuration = encoding.get("configuration").unwrap_or(&Value::Null);
        let keys = match name_of(encoding) {
            Some("suffix") => {
                let base = configuration.get("base-encoding");
                let base = base.or_else(|| configuration.get("base_encoding"));
                let keys = match base {
                    // The specification has no suffix of a suffix.
                    Some(base) if name_of(base) == Some("suffix") => {
                        Err(format!("base-encoding is {}", clipped(&base.to_string())))
                    }
                    base => Self::of_v3(base),
                };
                keys.and_then(|keys| keys.with_suffix(configuration.get("suffix")))
            }
            Some("zarrs.default_suffix" | "default_suffix") => {
                let keys = Self::named("default", configuration);
                keys.and_then(|keys| keys.with_suffix(configuration.get("suffix")))
            }
            Some(name) => Self::named(name, configuration),
            None => Err(clipped(&encoding.to_string())),
        };
        keys.map_err(|found| match found.starts_with("chunk_key_encoding") {
            true => found,
            false => format!("chunk_key_encoding: {found}"),
        })
    }

    fn named(name: &str, configuration: &Value) -> Result<Self, String> {
        let (has_prefix, usual) = match name {
            "default" => (true, '/'),
            "v2" => (false, '.'),
            _ => {
                return Err(format!(
                    "{:?}, expected default, v2 or suffix",
                    clipped(name)
                ));
            }
        };
        Ok(Self {
            has_prefix,
            separator: separator(configuration.get("separator"), usual)
                .map_err(|found| format!("separator is {found}"))?,
            suffix: String::new(),
        })
    }

    fn with_suffix(mut self, suffix: Option<&Value>) -> Result<Self, String> {
        let is_of_path = |char: char| matches!(char, '/' | '\\' | ':') || char.is_control();
        match suffix {
            Some(Value::String(text)) if text.len() <= MAX_SUFFIX && !text.contains(is_of_path) => {
                self.suffix.clone_from(text);
                Ok(self)
            }
            other => Err(format!(
                "suffix is {}, expected a short text without / and \\",
                other.map_or("absent".to_string(), |other| clipped(&other.to_string()))
            )),
        }
    }

    /// Returns the key of a chunk.
    pub fn key(&self, chunk: &[u64]) -> String {
        let mut key = String::from(if self.has_prefix { "c" } else { "" });
        for index in chunk {
            if !key.is_empty() {
                key.push(self.separator);
            }
            // Writing to a `String` never fails.
            let _ = write!(key, "{index}");
        }
        if key.is_empty() {
            key.push('0');
        }
        key + &self.suffix
    }
}

fn name_of(encoding: &Value) -> Option<&str> {
    encoding.as_str().or_else(|| encoding.get("name")?.as_str())
}

fn separator(found: Option<&Value>, usual: char) -> Result<char, String> {
    match found {
        None | Some(Value::Null) => Ok(usual),
        Some(Value::String(text)) if text == "/" => Ok('/'),
        Some(Value::String(text)) if text == "." => Ok('.'),
        Some(other) => Err(format!("{}, expected / or .", clipped(&other.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_of_chunks() {
        let v2 = |separator: Option<Value>| ChunkKeys::of_v2(separator.as_ref()).unwrap();
        assert_eq!(v2(None).key(&[1, 23]), "1.23");
        assert_eq!(v2(Some(json!("/"))).key(&[1, 23]), "1/23");
        assert_eq!(v2(None).key(&[]), "0");
        let v3 = |encoding: Value| ChunkKeys::of_v3(Some(&encoding)).unwrap();
        assert_eq!(v3(json!("default")).key(&[1, 23]), "c/1/23");
        assert_eq!(v3(json!({"name": "default"})).key(&[]), "c");
        let of_v2 = json!({"name": "v2", "configuration": {"separator": "/"}});
        assert_eq!(v3(of_v2.clone()).key(&[0]), "0");
        let suffixed = json!({"name": "suffix", "configuration": {
            "suffix": ".tiff", "base-encoding": of_v2,
        }});
        assert_eq!(v3(suffixed).key(&[1, 2]), "1/2.tiff");
        let suffixed = json!({"name": "zarrs.default_suffix", "configuration": {
            "separator": ".", "suffix": "..",
        }});
        assert_eq!(v3(suffixed).key(&[1, 2]), "c.1.2..");
        assert_eq!(ChunkKeys::of_v3(None).unwrap().key(&[7]), "c/7");
    }

    #[test]
    fn keys_that_would_leave_the_array_are_refused() {
        let suffix = |suffix: Value| json!({"name": "zarrs.default_suffix", "configuration": {"suffix": suffix}});
        for encoding in [
            json!("secret"),
            json!({"name": "../../x"}),
            json!({"name": "default", "configuration": {"separator": ".."}}),
            json!({"name": "v2", "configuration": {"separator": "/../"}}),
            suffix(json!("/../../../secret")),
            suffix(json!("\\..\\x")),
            suffix(json!("x".repeat(65))),
            suffix(json!(["/"])),
            json!({"name": "suffix", "configuration": {"suffix": "/.."}}),
            json!({"name": "suffix", "configuration": {"suffix": "a", "base-encoding": "suffix"}}),
            json!({}),
        ] {
            let error = ChunkKeys::of_v3(Some(&encoding)).unwrap_err();
            assert!(error.starts_with("chunk_key_encoding: "), "{error}");
        }
        ChunkKeys::of_v2(Some(&json!(".."))).unwrap_err();
    }
}
