//! References in Parquet: a directory that describes a Zarr hierarchy whose chunks are parts of other
//! files, in the layout of kerchunk and VirtualiZarr.
//!
//! ```text
//! refs.parq/
//!   .zmetadata                 {"metadata": {"t2m/.zarray": {...}, ...}, "record_size": 10000}
//!   t2m/refs.0.parq            the references of the first 10000 chunks of t2m, in row-major order
//!   t2m/refs.1.parq            those of the next 10000 chunks
//! ```
//!
//! A row of a partition has the columns `path`, `offset`, `size` and `raw`. The rows are decoded by a
//! function of the caller, because this module knows nothing about Parquet.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::io::remote::directory::references::{References, entries};
use crate::format::io::remote::directory::{Found, RemoteDirectory};
use crate::format::io::remote::part::Part;
use crate::format::io::remote::store::{Entries, RemotePlace};

/// The name of the document with the metadata of all arrays.
pub(crate) const METADATA: &str = ".zmetadata";
/// The maximum size of a partition in bytes.
const MAX_PARTITION_BYTES: u64 = 512 << 20;
/// The maximum number of references in one partition.
const MAX_RECORDS: u64 = 16 << 20;
/// The number of references that are kept in memory, at least those of one partition.
const MAX_KEPT_ROWS: usize = 1 << 20;

/// The decoded rows of a partition.
#[derive(Debug, Default)]
pub(crate) struct PartitionRows {
    /// The paths and URLs that rows refer to, each once.
    pub paths: Vec<String>,
    pub rows: Vec<PartitionRow>,
}

/// The reference of one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartitionRow {
    Absent,
    Inline(Bytes),
    /// A part of a file, or the whole file if the offset and the size are 0.
    Part {
        /// The index of the path.
        path: usize,
        offset: u64,
        size: u64,
    },
}

/// Decodes the rows of a partition, at most this many. The error says what is wrong.
pub(crate) type DecodePartition = fn(Bytes, u64) -> Result<PartitionRows, String>;

/// Returns the place of a file by its path or URL.
pub(crate) type PlaceOf = Box<dyn Fn(&str) -> Result<RemotePlace> + Send + Sync>;

/// The references in a directory of Parquet files. A partition is read when one of its chunks is needed.
pub(crate) struct ReferencePartitions {
    /// The directory itself.
    directory: RemoteDirectory,
    /// The objects in the metadata, by their keys.
    documents: HashMap<String, Bytes>,
    /// The number of chunks along each axis, by array.
    arrays: HashMap<String, Vec<u64>>,
    record_size: u64,
    decode: DecodePartition,
    place_of: PlaceOf,
    kept: Mutex<Kept>,
}

/// The partitions in memory, by array and number.
#[derive(Default)]
struct Kept {
    partitions: HashMap<(String, u64), Arc<Mutex<State>>>,
    rows: usize,
}

/// A partition. The lock is held while the partition is read, so that other readers wait for it.
enum State {
    Unread,
    Absent,
    Read(Arc<PartitionRows>),
}

impl Debug for ReferencePartitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReferencePartitions")
            .field("directory", &self.directory)
            .field("record_size", &self.record_size)
            .finish_non_exhaustive()
    }
}

impl ReferencePartitions {
    /// Returns `true` if this is the document [`METADATA`] of references, rather than that of a Zarr
    /// hierarchy.
    pub fn are_in(metadata: &[u8]) -> bool {
        let parsed: Result<Value, _> = serde_json::from_slice(metadata);
        parsed.is_ok_and(|value| value.get("record_size").is_some())
    }

    /// Creates the references of a directory with this document [`METADATA`].
    ///
    /// # Errors
    /// Fails if the document is malformed.
    pub fn parse(
        directory: RemoteDirectory,
        metadata: Bytes,
        decode: DecodePartition,
        place_of: PlaceOf,
    ) -> Result<Self> {
        let path = directory.place(METADATA).path().to_path_buf();
        let malformed = |field: &'static str, found: String, expected: &str| {
            Error::malformed(ErrorLocation::file(&path), field, found, expected)
        };
        let value: Value = serde_json::from_slice(&metadata).map_err(|error| {
            let found = format!("unreadable ({error})");
            malformed("references", found, "a JSON object")
        })?;
        let record_size = value["record_size"].as_u64().unwrap_or(0);
        if record_size == 0 || record_size > MAX_RECORDS {
            let expected = format!("a number from 1 to {MAX_RECORDS}");
            return Err(malformed(
                "record_size",
                value["record_size"].to_string(),
                &expected,
            ));
        }
        let Some(entries) = value["metadata"].as_object() else {
            return Err(malformed("metadata", "absent".to_string(), "an object"));
        };
        let mut documents = HashMap::with_capacity(entries.len() + 1);
        let mut arrays = HashMap::new();
        for (key, document) in entries {
            documents.insert(key.clone(), Bytes::from(document.to_string()));
            if let Some(name) = key.strip_suffix("/.zarray") {
                // The grid of an array with malformed metadata has no chunk.
                let counts = chunk_counts(document).unwrap_or_else(|| vec![0]);
                arrays.insert(name.to_string(), counts);
            }
        }
        documents.insert(METADATA.to_string(), metadata);
        Ok(Self {
            directory,
            documents,
            arrays,
            record_size,
            decode,
            place_of,
            kept: Mutex::default(),
        })
    }

    /// Returns the array of a chunk, and the number of the chunk in row-major order; `None` if the key is
    /// not that of a chunk.
    fn chunk<'a>(&self, key: &'a str) -> Option<(&'a str, u64)> {
        let slashes = key.match_indices('/').map(|(at, _)| at);
        let mut names = slashes.rev().map(|at| (&key[..at], &key[at + 1..]));
        let (array, counts, indices) =
            names.find_map(|(name, rest)| Some((name, self.arrays.get(name)?, rest)))?;
        let indices = indices.split(['.', '/']).map(str::parse::<u64>);
        let indices = indices.collect::<Result<Vec<_>, _>>().ok()?;
        // An array without axes has the chunk 0.
        let counts: &[u64] = match counts.as_slice() {
            [] => &[1],
            counts => counts,
        };
        if indices.len() != counts.len() {
            return None;
        }
        let mut number = 0u64;
        for (index, count) in indices.iter().zip(counts) {
            if index >= count {
                return None;
            }
            number = number.checked_mul(*count)?.checked_add(*index)?;
        }
        Some((array, number))
    }

    /// Returns a partition, which is read on first use; `None` if there is no such file.
    fn partition(&self, array: &str, number: u64) -> Result<Option<Arc<PartitionRows>>> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let state = {
            let mut kept = lock();
            let key = (array.to_string(), number);
            let state = kept.partitions.entry(key);
            Arc::clone(state.or_insert_with(|| Arc::new(Mutex::new(State::Unread))))
        };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Absent => return Ok(None),
            State::Read(rows) => return Ok(Some(Arc::clone(rows))),
            State::Unread => {}
        }
        let key = format!("{array}/refs.{number}.parq");
        let read = self
            .directory
            .read(&key, Part::Whole, None, MAX_PARTITION_BYTES)?;
        let Some(answer) = read else {
            *state = State::Absent;
            return Ok(None);
        };
        let rows = (self.decode)(answer.bytes, self.record_size).map_err(|found| {
            let place = self.directory.place(&key);
            let expected = "a Parquet file with the columns path, offset, size and raw";
            Error::malformed(
                ErrorLocation::file(place.path()),
                "references",
                found,
                expected,
            )
        })?;
        let mut kept = lock();
        if kept.rows + rows.rows.len() > MAX_KEPT_ROWS {
            *kept = Kept::default();
        }
        kept.rows += rows.rows.len();
        drop(kept);
        let rows = Arc::new(rows);
        *state = State::Read(Arc::clone(&rows));
        Ok(Some(rows))
    }
}

impl References for ReferencePartitions {
    fn find(&self, key: &str) -> Result<Found> {
        if let Some(document) = self.documents.get(key) {
            return Ok(Found::Inline(document.clone()));
        }
        let Some((array, number)) = self.chunk(key) else {
            return Ok(Found::Absent);
        };
        let Some(partition) = self.partition(array, number / self.record_size)? else {
            return Ok(Found::Absent);
        };
        let row = usize::try_from(number % self.record_size).ok();
        Ok(match row.and_then(|row| partition.rows.get(row)) {
            None | Some(PartitionRow::Absent) => Found::Absent,
            Some(PartitionRow::Inline(bytes)) => Found::Inline(bytes.clone()),
            Some(PartitionRow::Part { path, offset, size }) => {
                let part = match (offset, size) {
                    (0, 0) => Part::Whole,
                    (_, 0) => return Ok(Found::Inline(Bytes::new())),
                    (offset, size) => Part::Range(*offset, offset.saturating_add(*size)),
                };
                // The decoder has checked the index.
                Found::At((self.place_of)(&partition.paths[*path])?, part)
            }
        })
    }

    fn entries(&self, directory: &str) -> Entries {
        entries(self.documents.keys(), directory)
    }
}

/// Returns the number of chunks along each axis; `None` if the array's metadata is malformed.
fn chunk_counts(array: &Value) -> Option<Vec<u64>> {
    let numbers = |field: &str| -> Option<Vec<u64>> {
        array
            .get(field)?
            .as_array()?
            .iter()
            .map(Value::as_u64)
            .collect()
    };
    let (shape, chunks) = (numbers("shape")?, numbers("chunks")?);
    let counts = shape.iter().zip(&chunks);
    let is_valid = shape.len() == chunks.len() && !chunks.contains(&0);
    is_valid.then(|| {
        counts
            .map(|(extent, chunk)| extent.div_ceil(*chunk))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::path::Path as ObjectPath;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::*;
    use crate::format::io::remote::RemoteStore;

    /// Decodes partitions of lines: `path offset size`, `raw=...` or an empty line.
    fn decode(bytes: Bytes, most: u64) -> Result<PartitionRows, String> {
        let text = String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())?;
        let mut decoded = PartitionRows::default();
        for line in text.lines() {
            decoded
                .rows
                .push(match line.split(' ').collect::<Vec<_>>()[..] {
                    [path, offset, size] => {
                        decoded.paths.push(path.to_string());
                        PartitionRow::Part {
                            path: decoded.paths.len() - 1,
                            offset: offset.parse().map_err(|_| "no offset".to_string())?,
                            size: size.parse().map_err(|_| "no size".to_string())?,
                        }
                    }
                    _ => match line.strip_prefix("raw=") {
                        Some(raw) => PartitionRow::Inline(Bytes::from(raw.to_string())),
                        None => PartitionRow::Absent,
                    },
                });
        }
        assert!(decoded.rows.len() as u64 <= most);
        Ok(decoded)
    }

    fn references(metadata: &str, store: &Arc<InMemory>) -> Result<ReferencePartitions> {
        let inner: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(store);
        let place = RemotePlace::new(RemoteStore::new(inner), ObjectPath::from("r"), "m:///r");
        let of = place.clone();
        let place_of: PlaceOf = Box::new(move |path| {
            Ok(RemotePlace::new(
                of.store.clone(),
                ObjectPath::from(path),
                path,
            ))
        });
        let metadata = Bytes::from(metadata.to_string());
        ReferencePartitions::parse(RemoteDirectory::new(place), metadata, decode, place_of)
    }

    #[tokio::test]
    async fn chunks_are_rows_of_partitions() {
        let store = Arc::new(InMemory::new());
        for (key, content) in [
            ("r/a/refs.0.parq", "x 5 10\nraw=abc\n"),
            ("r/a/refs.1.parq", "\ny 0 0\n"),
            ("r/g/s/refs.0.parq", "z 7 0\n"),
            ("r/b/refs.0.parq", "x 5 ?\n"),
        ] {
            store
                .put(&ObjectPath::from(key), content.into())
                .await
                .unwrap();
        }
        let metadata = r#"{"record_size": 2, "metadata": {".zgroup": {"zarr_format": 2},
            "a/.zarray": {"shape": [3, 4], "chunks": [2, 2]}, "b/.zarray": {"shape": [1], "chunks": [1]},
            "g/s/.zarray": {"shape": [], "chunks": []}, "broken/.zarray": {"shape": [1], "chunks": [0]}}}"#;
        assert!(ReferencePartitions::are_in(metadata.as_bytes()));
        assert!(!ReferencePartitions::are_in(br#"{"metadata": {}}"#));
        let refs = references(metadata, &store).unwrap();
        let found = |key: &str| match refs.find(key).unwrap() {
            Found::Absent => "absent".to_string(),
            Found::Inline(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Found::At(place, part) => format!("{} {part}", place.path().display()),
        };
        for (key, expected) in [
            (".zmetadata", metadata),
            (".zgroup", r#"{"zarr_format":2}"#),
            ("a/0.0", "x 5-15"),
            ("a/0.1", "abc"),
            ("a/1.0", "absent"),
            ("a/1/1", "y all"),
            ("a/2.0", "absent"),
            ("a/0", "absent"),
            ("a/.zattrs", "absent"),
            ("a/zarr.json", "absent"),
            ("g/s/0", ""),
            ("broken/0", "absent"),
            ("none/0", "absent"),
            ("zarr.json", "absent"),
        ] {
            assert_eq!(found(key), expected, "{key}");
        }
        assert_eq!(refs.entries("").directories, ["a", "b", "broken", "g"]);
        let error = refs.find("b/0").unwrap_err().to_string();
        assert!(
            error.contains("b/refs.0.parq") && error.contains("no size"),
            "{error}"
        );
        // Partitions are read once.
        store
            .delete(&ObjectPath::from("r/a/refs.0.parq"))
            .await
            .unwrap();
        assert_eq!(found("a/0.0"), "x 5-15");
    }

    #[test]
    fn malformed_metadata() {
        let store = Arc::new(InMemory::new());
        for text in [
            "[",
            r#"{"metadata": {}}"#,
            r#"{"metadata": {}, "record_size": 0}"#,
            r#"{"metadata": {}, "record_size": 1000000000}"#,
            r#"{"metadata": [], "record_size": 10}"#,
        ] {
            let error = references(text, &store).unwrap_err().to_string();
            assert!(error.starts_with("m:///r/.zmetadata: "), "{error}");
        }
    }
}
