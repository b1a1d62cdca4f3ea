//! Streaming readers of the JSON documents with chunk statistics: zone maps and the secondary
//! index.
//!
//! A document is embedded in the file, or lies beside it in a package. It can be far longer than
//! the data, so it is read as a stream, on first use.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::storage::{Access, Storage};
use crate::format::tet::footer::Spill;

/// The only supported version of both documents.
const VERSION: u64 = 1;
/// Number of bytes read at a time.
const READ_BYTES: usize = 64 << 10;
/// Maximum length of a string in a document, in bytes. The longest meaningful strings are labels,
/// which have at most 1024 bytes.
const MAX_TEXT: u64 = 64 << 10;
/// Maximum number of characters kept of a JSON error message, which may quote the input.
const MAX_MESSAGE: usize = 200;

/// A document that is read on first use.
///
/// The outcome is cached, success or failure, except for I/O errors: the next call tries again.
#[derive(Debug)]
pub(crate) struct Lazy<T>(Mutex<Option<Result<Option<Arc<T>>>>>);

impl<T> Default for Lazy<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Lazy<T> {
    pub fn get(&self, read: impl FnOnce() -> Result<Option<T>>) -> Result<Option<Arc<T>>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            match read() {
                Err(error @ Error::Io { .. }) => return Err(error),
                result => *kept = Some(result.map(|document| document.map(Arc::new))),
            }
        }
        match kept.as_ref() {
            Some(Ok(document)) => Ok(document.as_ref().map(Arc::clone)),
            Some(Err(error)) => Err(error.clone()),
            // Unreachable: the value was set above.
            None => Ok(None),
        }
    }
}

/// The values that a document beside a file must contain to belong to that file.
#[derive(Debug)]
pub(crate) struct Seal {
    pub generation: u64,
    pub packed_sha256: Option<String>,
}

/// The location of a document, and its seal if it lies beside the file.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    storage: DocumentStorage<'a>,
    range: Range<u64>,
    seal: Option<Seal>,
}

#[derive(Debug)]
enum DocumentStorage<'a> {
    Embedded(&'a Storage),
    Beside(Storage),
}

/// A receiver for the main list of a document, which holds zone maps or index entries.
pub(crate) trait ListReader {
    /// The key of the list.
    const KEY: Key;

    /// Reads the whole list.
    fn read<'de, A: SeqAccess<'de>>(&mut self, rows: A, failure: &Failure) -> Result<(), A::Error>;
}

/// The top-level keys of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
pub(crate) enum Key {
    Version,
    Generation,
    #[serde(rename = "packed_sha256")]
    Checksum,
    Chunks,
    Indexes,
    #[serde(other)]
    Other,
}

/// Carries an [`Error`] through serde, whose own errors hold only text.
#[derive(Default)]
pub(crate) struct Failure(Cell<Option<Error>>);

impl Failure {
    /// Stores `error`, and returns a serde error that stops the parser.
    pub fn note<E: de::Error>(&self, error: Error) -> E {
        self.0.set(Some(error));
        E::custom("see the error that was kept")
    }
}

impl<'a> Document<'a> {
    /// Returns the document in this region of a file. `field` is the footer field that names the region, for errors.
    ///
    /// # Errors
    /// Fails if the region exceeds the file.
    pub fn embedded(storage: &'a Storage, region: Spill, field: &'static str) -> Result<Self> {
        let Spill { offset, len } = region;
        let end = offset.checked_add(len);
        let Some(end) = end.filter(|end| *end <= storage.length()) else {
            return Err(Error::malformed(
                ErrorLocation::file(storage.path()),
                field,
                format!("{len} bytes at {offset}"),
                format!("a region within the {} bytes of the file", storage.length()),
            ));
        };
        Ok(Self {
            storage: DocumentStorage::Embedded(storage),
            range: offset..end,
            seal: None,
        })
    }

    /// Returns the document that fills `storage`, a file beside the described one.
    pub fn beside(storage: Storage, seal: Seal) -> Self {
        Self {
            range: 0..storage.length(),
            storage: DocumentStorage::Beside(storage),
            seal: Some(seal),
        }
    }

    fn storage(&self) -> &Storage {
        match &self.storage {
            DocumentStorage::Embedded(storage) => storage,
            DocumentStorage::Beside(storage) => storage,
        }
    }

    /// The path of the file that contains the document.
    pub fn path(&self) -> &Path {
        self.storage().path()
    }

    /// Reads and checks the whole document. Passes its main list to `rows`.
    pub fn read<R: ListReader>(&self, access: Access, rows: &mut R) -> Result<()> {
        let failure = Failure::default();
        let source = Source {
            storage: self.storage(),
            access,
            range: self.range.clone(),
            text: None,
            escaped: false,
            failure: &failure,
        };
        let reader = BufReader::with_capacity(READ_BYTES, source);
        let mut json = serde_json::Deserializer::from_reader(reader);
        let head = json
            .deserialize_map(DocumentVisitor {
                rows,
                failure: &failure,
            })
            .and_then(|head| json.end().map(|()| head));
        let head = head.map_err(|error| {
            let kept = failure.0.take();
            kept.unwrap_or_else(|| self.unreadable(&error))
        })?;
        self.check(&head)
    }

    fn check(&self, head: &Head) -> Result<()> {
        let malformed = |field, found: String, expected: String| {
            Err(Error::malformed(
                ErrorLocation::file(self.path()),
                field,
                found,
                expected,
            ))
        };
        if head.version != VERSION {
            let expected = VERSION.to_string();
            return malformed("version", head.version.to_string(), expected);
        }
        let Some(seal) = &self.seal else {
            return Ok(());
        };
        if head.generation != Some(seal.generation) {
            let found = match head.generation {
                Some(generation) => generation.to_string(),
                None => "absent".to_string(),
            };
            let expected = format!("{}, the opened one", seal.generation);
            return malformed("generation", found, expected);
        }
        match (&head.packed_sha256, &seal.packed_sha256) {
            (Some(found), Some(expected)) if found != expected => {
                let expected = format!("\"{expected}\" as in MANIFEST.json");
                malformed("packed_sha256", format!("\"{found}\""), expected)
            }
            _ => Ok(()),
        }
    }

    fn unreadable(&self, error: &serde_json::Error) -> Error {
        let message: String = error.to_string().chars().take(MAX_MESSAGE).collect();
        Error::malformed(
            ErrorLocation::file(self.path()),
            "JSON",
            format!("unreadable ({message})"),
            "a document of zone maps or indexes",
        )
    }
}

/// Reads the bytes of a document in order.
struct Source<'a> {
    storage: &'a Storage,
    access: Access,
    /// The range that has not been read yet.
    range: Range<u64>,
    /// The file offset at which the currently open string starts.
    text: Option<u64>,
    escaped: bool,
    failure: &'a Failure,
}

impl Source<'_> {
    /// Tracks where strings start and end, and rejects a string that is too long. The parser holds
    /// each string in memory, so a hostile file could exhaust the memory otherwise.
    fn follow(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        let mut position = self.range.start;
        while let Some((byte, behind)) = rest.split_first() {
            rest = behind;
            position += 1;
            if self.escaped {
                self.escaped = false;
            } else if *byte == b'"' {
                self.text = match self.text {
                    Some(_) => None,
                    None => Some(position),
                };
            } else if *byte == b'\\' {
                self.escaped = self.text.is_some();
            }
        }
        match self.text {
            Some(start) if position - start > MAX_TEXT => {
                let message = format!("a string of more than {MAX_TEXT} bytes at offset {start}");
                Err(io::Error::other(message))
            }
            _ => Ok(()),
        }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.range.end - self.range.start;
        let count = (buffer.len() as u64).min(left) as usize;
        if count == 0 {
            return Ok(0);
        }
        let buffer = &mut buffer[..count];
        let result = self
            .storage
            .copy_range(self.access, self.range.start, buffer);
        if let Err(error) = result {
            self.failure.0.set(Some(error));
            return Err(io::ErrorKind::Other.into());
        }
        self.follow(buffer)?;
        self.range.start += count as u64;
        Ok(count)
    }
}

/// The fields of a document other than its main list.
struct Head {
    version: u64,
    generation: Option<u64>,
    packed_sha256: Option<String>,
}

struct DocumentVisitor<'a, R> {
    rows: &'a mut R,
    failure: &'a Failure,
}

impl<'de, R: ListReader> Visitor<'de> for DocumentVisitor<'_, R> {
    type Value = Head;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head, A::Error> {
        let (mut version, mut generation, mut packed_sha256) = (None, None, None);
        let mut is_read = false;
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Version => version = Some(map.next_value()?),
                Key::Generation => generation = map.next_value()?,
                Key::Checksum => packed_sha256 = map.next_value()?,
                key if key == R::KEY => {
                    if is_read {
                        return Err(de::Error::custom("duplicate list of entries"));
                    }
                    is_read = true;
                    map.next_value_seed(RowsSeed {
                        rows: &mut *self.rows,
                        failure: self.failure,
                    })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if !is_read {
            return Err(de::Error::custom("no list of entries"));
        }
        Ok(Head {
            version: version.ok_or_else(|| de::Error::missing_field("version"))?,
            generation,
            packed_sha256,
        })
    }
}

struct RowsSeed<'a, R> {
    rows: &'a mut R,
    failure: &'a Failure,
}

impl<'de, R: ListReader> DeserializeSeed<'de> for RowsSeed<'_, R> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, R: ListReader> Visitor<'de> for RowsSeed<'_, R> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, rows: A) -> Result<(), A::Error> {
        self.rows.read(rows, self.failure)
    }
}

/// Calls a function for each element of a JSON list.
pub(crate) struct Each<'a, T, F> {
    take: F,
    failure: &'a Failure,
    element: PhantomData<T>,
}

impl<'a, T, F: FnMut(T) -> Result<()>> Each<'a, T, F> {
    pub fn new(failure: &'a Failure, take: F) -> Self {
        Self {
            take,
            failure,
            element: PhantomData,
        }
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<()>> DeserializeSeed<'de> for Each<'_, T, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<()>> Visitor<'de> for Each<'_, T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            (self.take)(element).map_err(|error| self.failure.note(error))?;
        }
        Ok(())
    }
}
