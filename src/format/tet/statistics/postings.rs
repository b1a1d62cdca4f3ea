//! Value postings (`INDEX.json`): for each value of a dataset with few distinct values, the chunks
//! that contain the value.
//!
//! Other kinds of entries are skipped, since the axis labels hold the same information.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::statistics::WORD;
use crate::format::array::{Dataset, DatasetPostings, ValueIndex};
use crate::format::io::storage::Access;
use crate::format::tet::statistics::document::{Document, Each, Failure, Key, ListReader};
use crate::format::tet::statistics::entry::{Coordinates, DescribedFile, EntryDataset, Hex};

/// Maximum number of distinct values in an indexed dataset.
const MAX_VALUES: usize = 64;

/// The value postings of a file.
#[derive(Debug)]
pub struct ValuePostings {
    datasets: BTreeMap<u64, DatasetPostings>,
}

impl ValuePostings {
    /// Reads and checks the value postings of `file`.
    pub(crate) fn read(
        document: &Document<'_>,
        file: DescribedFile<'_>,
        access: Access,
    ) -> Result<Self> {
        let mut builder = Builder {
            path: document.path(),
            file,
            datasets: BTreeMap::new(),
            chunks: 0,
        };
        document.read(access, &mut builder)?;
        let datasets = builder.datasets;
        Ok(Self { datasets })
    }
}

impl ValueIndex for ValuePostings {
    fn of(&self, dataset: &Dataset) -> Option<&DatasetPostings> {
        self.datasets.get(&dataset.id())
    }
}

struct Builder<'a> {
    path: &'a Path,
    file: DescribedFile<'a>,
    datasets: BTreeMap<u64, DatasetPostings>,
    /// Total number of chunks of these datasets.
    chunks: u64,
}

impl ListReader for Builder<'_> {
    const KEY: Key = Key::Indexes;

    fn read<'de, A: SeqAccess<'de>>(
        &mut self,
        mut rows: A,
        failure: &Failure,
    ) -> Result<(), A::Error> {
        loop {
            let index = IndexSeed {
                builder: self,
                failure,
            };
            if rows.next_element_seed(index)?.is_none() {
                return Ok(());
            }
        }
    }
}

impl<'a> Builder<'a> {
    /// Checks the head of a dataset's entry. Returns the dataset and its number of chunks.
    fn start(&mut self, id: u64, dtype_tag: u64) -> Result<(EntryDataset<'a>, u64)> {
        let Some(subject) = EntryDataset::of(self.path, self.file, id)? else {
            return Err(Error::malformed(
                ErrorLocation::file(self.path),
                "dataset_id",
                id,
                "a dataset that can be read",
            ));
        };
        if self.datasets.contains_key(&id) {
            let found = "two entries of value postings of this dataset";
            return Err(subject.malformed(None, "indexes", found, "one"));
        }
        let tag = subject.dataset.dtype_tag;
        if dtype_tag != u64::from(tag) {
            let expected = format!("{tag} as in the dataset's record");
            return Err(subject.malformed(None, "dtype", dtype_tag, expected));
        }
        let rows = self.file.chunk_rows;
        let count = subject.dataset.chunk_count();
        let chunks = count.and_then(|count| count.checked_add(self.chunks));
        // This check bounds the memory of the bitmaps: a record can claim any number of chunks.
        let (Some(count), Some(chunks)) = (count, chunks.filter(|chunks| *chunks <= rows)) else {
            return Err(Error::malformed(
                ErrorLocation::dataset(self.path, subject.dataset.name()),
                "indexes",
                "for more chunks than the file has",
                format!("at most the {rows} of the chunk index"),
            ));
        };
        self.chunks = chunks;
        Ok((subject, count))
    }
}

/// Reads one entry of the index.
struct IndexSeed<'b, 'a> {
    builder: &'b mut Builder<'a>,
    failure: &'b Failure,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum IndexKey {
    Kind,
    DatasetId,
    Dtype,
    Postings,
    #[serde(other)]
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
enum IndexKind {
    #[serde(rename = "value_postings")]
    ValuePostings,
    #[serde(other)]
    Other,
}

impl<'de> DeserializeSeed<'de> for IndexSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for IndexSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an index")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut kind, mut dataset_id, mut dtype) = (None, None, None);
        let mut is_read = false;
        while let Some(key) = map.next_key()? {
            match (key, kind, dataset_id, dtype) {
                (IndexKey::Kind, None, ..) => kind = Some(map.next_value::<IndexKind>()?),
                (_, Some(IndexKind::Other), ..) => {
                    map.next_value::<IgnoredAny>()?;
                }
                (IndexKey::DatasetId, _, None, _) => dataset_id = Some(map.next_value::<u64>()?),
                (IndexKey::Dtype, _, _, None) => dtype = Some(map.next_value::<u64>()?),
                (IndexKey::Postings, Some(_), Some(id), Some(dtype)) if !is_read => {
                    is_read = true;
                    let started = self.builder.start(id, dtype);
                    let (subject, count) = started.map_err(|error| self.failure.note(error))?;
                    let mut postings = DatasetPostings::default();
                    map.next_value_seed(PostingsSeed {
                        subject: &subject,
                        count,
                        postings: &mut postings,
                        failure: self.failure,
                    })?;
                    self.builder.datasets.insert(id, postings);
                }
                // Skip postings while `kind`, `dataset_id` or `dtype` is unknown. If the entry
                // turns out to hold value postings, the check below fails.
                (IndexKey::Postings, ..) if !is_read => {
                    map.next_value::<IgnoredAny>()?;
                }
                (IndexKey::Other, ..) => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => return Err(de::Error::custom("duplicate key in an index entry")),
            }
        }
        match kind {
            None => Err(de::Error::missing_field("kind")),
            Some(IndexKind::ValuePostings) if !is_read => Err(de::Error::custom(
                "value_postings without postings after dataset_id and dtype",
            )),
            Some(_) => Ok(()),
        }
    }
}

/// Reads the list of a dataset's values with their chunks.
struct PostingsSeed<'b, 'a> {
    subject: &'b EntryDataset<'a>,
    /// The number of chunks of the dataset.
    count: u64,
    postings: &'b mut DatasetPostings,
    failure: &'b Failure,
}

impl<'de> DeserializeSeed<'de> for PostingsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for PostingsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of postings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let subject = self.subject;
        let refuse = |found: String, expected: String| {
            let error = subject.malformed(None, "value_le", found, expected);
            self.failure.note(error)
        };
        while let Some((value, chunks)) = list.next_element_seed(PostingSeed {
            subject,
            count: self.count,
            failure: self.failure,
        })? {
            let bits = subject.bits(None, "value_le", &value);
            let bits = bits.map_err(|error| self.failure.note(error))?;
            if self.postings.values().len() == MAX_VALUES {
                let found = format!("more than {MAX_VALUES} values");
                return Err(refuse(found, format!("at most {MAX_VALUES}")));
            }
            if !self.postings.insert(bits, chunks) {
                let found = format!("{value} for a second time");
                return Err(refuse(found, "every value once".to_string()));
            }
        }
        Ok(())
    }
}

/// Reads one value and the chunks that contain it.
struct PostingSeed<'b, 'a> {
    subject: &'b EntryDataset<'a>,
    count: u64,
    failure: &'b Failure,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum PostingKey {
    ValueLe,
    Chunks,
    #[serde(other)]
    Other,
}

impl<'de> DeserializeSeed<'de> for PostingSeed<'_, '_> {
    type Value = (Hex, Vec<u64>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PostingSeed<'_, '_> {
    type Value = (Hex, Vec<u64>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a posting")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut value, mut chunks) = (None, None);
        while let Some(key) = map.next_key()? {
            match key {
                PostingKey::ValueLe if value.is_none() => value = Some(map.next_value()?),
                PostingKey::Chunks if chunks.is_none() => {
                    // One bit per chunk. `Builder::start` limits the count to the rows of the chunk
                    // index.
                    let mut bits = vec![0; self.count.div_ceil(WORD) as usize];
                    map.next_value_seed(Each::new(self.failure, |chunk: Coordinates| {
                        let ordinal = self.subject.ordinal("chunks", chunk.as_slice())?;
                        bits[(ordinal / WORD) as usize] |= 1 << (ordinal % WORD);
                        Ok(())
                    }))?;
                    chunks = Some(bits);
                }
                PostingKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => return Err(de::Error::custom("duplicate key in a posting")),
            }
        }
        match (value, chunks) {
            (Some(value), Some(chunks)) => Ok((value, chunks)),
            (None, _) => Err(de::Error::missing_field("value_le")),
            (_, None) => Err(de::Error::missing_field("chunks")),
        }
    }
}

#[cfg(test)]
mod tests;
