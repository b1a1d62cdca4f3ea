//! References of kerchunk and VirtualiZarr: a JSON document that describes a Zarr hierarchy whose
//! chunks are parts of other files.
//!
//! ```text
//! {"version": 1,
//!  "templates": {"u": "s3://bucket/data.nc"},
//!  "refs": {".zgroup": "{\"zarr_format\": 2}",                  the content of an object
//!           "t2m/0.0": ["{{u}}", 20480, 1048576],               a part of a file
//!           "t2m/0.1": "base64:AAAA..."}}                       binary content
//! ```

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::path::Path;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::remote::directory::Found;
use crate::format::io::remote::part::Part;
use crate::format::io::remote::store::{Entries, RemotePlace};

/// The prefix of binary content.
const BASE64: &str = "base64:";
/// Keys of which a document of references has at least one near its start.
const SIGNS: [&str; 4] = ["\"refs\"", "\".zgroup\"", "\".zmetadata\"", "\".zattrs\""];

/// The objects of a hierarchy that are parts of other files.
pub(crate) trait References: Debug + Send + Sync {
    /// Returns where an object is. May wait for a request, if the references have to be read first.
    ///
    /// # Errors
    /// Fails if the references cannot be read.
    fn find(&self, key: &str) -> Result<Found>;

    /// Returns the names of the directories and objects right below a directory. Objects that are found only
    /// by their keys, such as chunks, may be left out.
    fn entries(&self, directory: &str) -> Entries;
}

/// The references of a JSON document: the objects of a hierarchy, by their keys.
#[derive(Debug)]
pub struct ReferenceDocument {
    objects: HashMap<String, Reference>,
    /// The files that objects are parts of.
    files: Vec<RemotePlace>,
}

#[derive(Debug)]
enum Reference {
    Inline(Bytes),
    /// A part of the file with this number.
    Part(usize, Part),
}

impl ReferenceDocument {
    /// Returns `true` if a document is likely one of references, judging by its first bytes.
    pub fn are_in(start: &[u8]) -> bool {
        let text = String::from_utf8_lossy(start);
        text.trim_start().starts_with('{') && SIGNS.iter().any(|sign| text.contains(sign))
    }

    /// Parses a document. `place_of` returns the place of a file by its path or URL.
    ///
    /// # Errors
    /// Fails if the document is malformed, or a file has no place.
    pub fn parse(
        path: &Path,
        bytes: &[u8],
        mut place_of: impl FnMut(&str) -> Result<RemotePlace>,
    ) -> Result<Self> {
        let malformed = |field, found: String, expected: &str| {
            Error::malformed(ErrorLocation::file(path), field, found, expected)
        };
        let value: Value = serde_json::from_slice(bytes).map_err(|error| {
            malformed(
                "references",
                format!("unreadable ({error})"),
                "a JSON object",
            )
        })?;
        if value
            .get("gen")
            .is_some_and(|list| *list != Value::Array(Vec::new()))
        {
            let found = "a list of generated references".to_string();
            return Err(malformed("gen", found, "references in \"refs\""));
        }
        let none = Map::new();
        let templates = value.get("templates").and_then(Value::as_object);
        let templates = templates.unwrap_or(&none);
        // Version 0 is the object of the references itself.
        let refs = value
            .get("refs")
            .unwrap_or(&value)
            .as_object()
            .unwrap_or(&none);
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut found = Self {
            objects: HashMap::with_capacity(refs.len()),
            files: Vec::new(),
        };
        for (key, reference) in refs {
            let broken = || {
                let text = reference.to_string();
                let text: String = text.chars().take(200).collect();
                let expected = "a text, [file] or [file, offset, length]";
                malformed("reference", format!("{key:?}: {text}"), expected)
            };
            let reference = match reference {
                Value::String(text) => match text.strip_prefix(BASE64) {
                    Some(digits) => Reference::Inline(decoded(digits).ok_or_else(broken)?.into()),
                    None => Reference::Inline(Bytes::from(text.clone())),
                },
                Value::Object(_) => Reference::Inline(reference.to_string().into()),
                Value::Array(list) => {
                    let file = list.first().and_then(Value::as_str).ok_or_else(broken)?;
                    let file = filled(file, templates);
                    let number = match numbers.get(&file) {
                        Some(number) => *number,
                        None => {
                            let number = found.files.len();
                            found.files.push(place_of(&file)?);
                            numbers.insert(file, number);
                            number
                        }
                    };
                    let part = match &list[1..] {
                        [] => Part::Whole,
                        [offset, length] => {
                            let offset = offset.as_u64().ok_or_else(broken)?;
                            let length = length.as_u64().ok_or_else(broken)?;
                            let end = offset.checked_add(length).ok_or_else(broken)?;
                            Part::Range(offset, end)
                        }
                        _ => return Err(broken()),
                    };
                    Reference::Part(number, part)
                }
                _ => return Err(broken()),
            };
            found.objects.insert(key.clone(), reference);
        }
        Ok(found)
    }
}

impl References for ReferenceDocument {
    fn find(&self, key: &str) -> Result<Found> {
        Ok(match self.objects.get(key) {
            None => Found::Absent,
            Some(Reference::Inline(bytes)) => Found::Inline(bytes.clone()),
            Some(Reference::Part(file, part)) => Found::At(self.files[*file].clone(), *part),
        })
    }

    fn entries(&self, directory: &str) -> Entries {
        entries(self.objects.keys(), directory)
    }
}

/// Returns the names of the directories and objects right below a directory. The objects of the whole store
/// have these keys.
pub fn entries<'a>(keys: impl Iterator<Item = &'a String>, directory: &str) -> Entries {
    let prefix = match directory {
        "" => String::new(),
        directory => format!("{directory}/"),
    };
    let below = keys.filter_map(|key| key.strip_prefix(&prefix));
    let mut directories = BTreeSet::new();
    let mut objects = Vec::new();
    for rest in below {
        match rest.split_once('/') {
            Some((name, _)) => {
                directories.insert(name);
            }
            None => objects.push(rest.to_string()),
        }
    }
    Entries {
        directories: directories.into_iter().map(str::to_string).collect(),
        objects,
    }
}

/// Replaces `{{name}}` by the templates of this name.
fn filled(text: &str, templates: &Map<String, Value>) -> String {
    if !text.contains("{{") {
        return text.to_string();
    }
    let mut filled = text.to_string();
    for (name, value) in templates {
        if let Some(value) = value.as_str() {
            filled = filled.replace(&format!("{{{{{name}}}}}"), value);
        }
    }
    filled
}

/// Decodes base64 with the standard alphabet; `None` if there is another character.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'\r' | b'\n' => continue,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;
    use object_store::path::Path as ObjectPath;

    use super::*;
    use crate::format::io::remote::RemoteStore;

    fn parsed(text: &str) -> Result<ReferenceDocument> {
        let store = RemoteStore::new(Arc::new(InMemory::new()));
        ReferenceDocument::parse(Path::new("r.json"), text.as_bytes(), |file| {
            Ok(RemotePlace::new(
                store.clone(),
                ObjectPath::from(file),
                file,
            ))
        })
    }

    #[test]
    fn objects_are_inline_or_parts_of_files() {
        let text = r#"{"version": 1, "templates": {"u": "s3://b/x"}, "refs": {
            ".zgroup": "{}", ".zattrs": {"a": 1}, "a/0": ["{{u}}.nc", 5, 10],
            "a/1": ["other"], "g/b/0": "base64:AQID/w=="}}"#;
        assert!(ReferenceDocument::are_in(text.as_bytes()));
        let refs = parsed(text).unwrap();
        let inline = |key: &str| match refs.find(key).unwrap() {
            Found::Inline(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(inline(".zgroup"), b"{}");
        assert_eq!(inline(".zattrs"), br#"{"a":1}"#);
        assert_eq!(inline("g/b/0"), [1, 2, 3, 255]);
        let Found::At(place, part) = refs.find("a/0").unwrap() else {
            panic!("a part of a file");
        };
        assert_eq!(
            (place.path(), part),
            (Path::new("s3://b/x.nc"), Part::Range(5, 15))
        );
        assert!(matches!(
            refs.find("a/1").unwrap(),
            Found::At(_, Part::Whole)
        ));
        assert!(matches!(refs.find("none").unwrap(), Found::Absent));
        let mut root = refs.entries("");
        root.objects.sort();
        assert_eq!(root.directories, ["a", "g"]);
        assert_eq!(root.objects, [".zattrs", ".zgroup"]);
        assert_eq!(refs.entries("g").directories, ["b"]);
    }

    #[test]
    fn malformed_references() {
        for text in [
            "[",
            r#"{"refs": {"a": [1, 2, 3]}}"#,
            r#"{"refs": {"a": ["u", 1]}}"#,
            r#"{"refs": {"a": ["u", -1, 2]}}"#,
            r#"{"refs": {"a": "base64:?"}}"#,
            r#"{"gen": [{}], "refs": {}}"#,
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.starts_with("r.json: "), "{error}");
        }
    }
}
