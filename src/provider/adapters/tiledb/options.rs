//! Options of TileDB tables.

use std::collections::BTreeMap;
use std::path::Path;

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::prelude::SessionConfig;

use crate::error::{Error, Result};
use crate::format::tiledb::{EncryptionKey, OpenOptions};

/// The last timestamp to read: a time, or milliseconds since 1970.
pub(super) const TIMESTAMP: &str = "timestamp";
/// The first timestamp to read.
pub(super) const TIMESTAMP_START: &str = "timestamp_start";
/// The path of a file with the key of encrypted arrays.
const KEY_FILE: &str = "key_file";
/// The cells of dense arrays.
const EXTENT: &str = "extent";

/// The names of the options.
pub(super) const NAMES: [&str; 4] = [TIMESTAMP, TIMESTAMP_START, KEY_FILE, EXTENT];

/// The cells of a dense array that are rows of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All cells of the current domain or, if there is none, of the domain.
    Domain,
    /// The smallest box with all cells that were ever written.
    Written,
}

/// The options of TileDB tables, parsed.
#[derive(Debug, Clone)]
pub(super) struct TileDbOptions {
    pub open: OpenOptions,
    pub extent: Extent,
}

impl TileDbOptions {
    /// Parses options. If they name no key, the key is the one of the session's configuration, if
    /// there is one.
    ///
    /// # Errors
    /// Returns an error that names `path` if a value is invalid, or if the file with the key cannot
    /// be read.
    pub fn parse(
        path: &Path,
        options: &BTreeMap<String, String>,
        session: &SessionConfig,
    ) -> Result<Self> {
        let invalid = |message: String| Error::invalid(path, message);
        let time = |name: &str| match options.get(name) {
            None => Ok(None),
            Some(text) => match milliseconds(text) {
                Some(time) => Ok(Some(time)),
                None => Err(invalid(format!(
                    "option {name} is '{text}', expected a time such as 2024-05-01T00:00:00Z, or milliseconds since \
                     1970"
                ))),
            },
        };
        let open = OpenOptions {
            timestamp_start: time(TIMESTAMP_START)?.unwrap_or(0),
            timestamp_end: time(TIMESTAMP)?,
            key: match options.get(KEY_FILE) {
                Some(file) => Some(EncryptionKey::read(Path::new(file))?),
                None => session
                    .get_extension::<EncryptionKey>()
                    .map(|key| key.as_ref().clone()),
            },
        };
        if let Some(end) = open.timestamp_end
            && end < open.timestamp_start
        {
            let start = open.timestamp_start;
            return Err(invalid(format!(
                "option {TIMESTAMP} is {end} ms, expected at least {TIMESTAMP_START}, which is {start} ms"
            )));
        }
        Ok(Self {
            open,
            extent: match options.get(EXTENT).map(String::as_str) {
                None | Some("domain") => Extent::Domain,
                Some("written") => Extent::Written,
                Some(other) => {
                    return Err(invalid(format!(
                        "option {EXTENT} is '{other}', expected domain or written"
                    )));
                }
            },
        })
    }
}

/// Returns the milliseconds since 1970 of a time; `None` if the text is neither a time nor a number.
fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let nanoseconds = string_to_timestamp_nanos(text).ok()?;
    u64::try_from(nanoseconds.div_euclid(1_000_000)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1714521600000", Some(1_714_521_600_000)),
            ("2024-05-01T00:00:00Z", Some(1_714_521_600_000)),
            ("2024-05-01T02:00:00.5+02:00", Some(1_714_521_600_500)),
            ("2024-05-01", Some(1_714_521_600_000)),
            ("1969-12-31", None),
            ("-1", None),
            ("99999999999999999999", None),
            ("yesterday", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
        assert_eq!(milliseconds(""), None);
    }

    #[test]
    fn keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = "0123456789abcdef0123456789abcdef";
        for (content, is_key) in [
            (key.to_string(), true),
            (format!("{key}\n"), true),
            (format!("{key}\r\n"), true),
            (format!("{key}0"), false),
            (key[1..].to_string(), false),
        ] {
            std::fs::write(&path, &content).unwrap();
            let found = EncryptionKey::read(&path);
            assert_eq!(found.is_ok(), is_key, "{content:?}");
            assert!(!format!("{found:?}").contains("0123"));
        }
    }
}
