//! Zone maps (`ZONE.json`): the min, max and null count of each chunk.
//!
//! A null is a NaN or the fill value. Nothing in the format ties a zone map to the cells it
//! describes. Therefore everything that can be checked without reading cells is checked, and one
//! wrong entry makes all zone maps unusable.

use std::path::Path;

use serde::Deserialize;
use serde::de::SeqAccess;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{ChunkStatistics, ChunkSummary, Dataset};
use crate::format::io::storage::Access;
use crate::format::tet::statistics::document::{Document, Failure, Key, ListReader};
use crate::format::tet::statistics::entry::{Coordinates, DescribedFile, EntryDataset, Hex};

/// The zone maps of a file.
#[derive(Debug)]
pub struct ZoneMaps {
    /// For each dataset, its entries in ascending chunk order.
    datasets: Vec<Vec<Entry>>,
}

/// The zone of one chunk. If all cells are null, the bit patterns are 0 and have no meaning.
#[derive(Debug, Clone, Copy)]
struct Entry {
    ordinal: u64,
    nulls: u64,
    min: u64,
    max: u64,
}

impl ChunkStatistics for ZoneMaps {
    fn summary(&self, dataset: &Dataset, chunk: &[u64]) -> Option<ChunkSummary> {
        let entries = self.entries(dataset);
        if entries.is_empty() || chunk.len() != dataset.shape().len() {
            return None;
        }
        let ordinal = dataset.chunk_ordinal(chunk)?;
        // If no entry is absent, the index of each entry is the ordinal of its chunk.
        let direct = usize::try_from(ordinal).ok();
        let direct = direct.and_then(|position| entries.get(position));
        let entry = match direct {
            Some(entry) if entry.ordinal == ordinal => entry,
            _ => {
                let found = entries.binary_search_by_key(&ordinal, |entry| entry.ordinal);
                &entries[found.ok()?]
            }
        };
        let elements = dataset.chunk_cells(chunk);
        Some(ChunkSummary {
            elements,
            nulls: entry.nulls,
            range: (entry.nulls < elements).then_some((entry.min, entry.max)),
        })
    }

    fn is_complete(&self, dataset: &Dataset) -> bool {
        dataset.chunk_count() == Some(self.entries(dataset).len() as u64)
    }
}

impl ZoneMaps {
    /// Reads and checks the zone maps of `file`.
    pub(crate) fn read(
        document: &Document<'_>,
        file: DescribedFile<'_>,
        access: Access,
    ) -> Result<Self> {
        let mut builder = Builder::new(document.path(), file);
        document.read(access, &mut builder)?;
        builder.finish()
    }

    fn entries(&self, dataset: &Dataset) -> &[Entry] {
        let position = usize::try_from(dataset.id()).ok();
        let entries = position.and_then(|id| self.datasets.get(id));
        entries.map_or(&[], Vec::as_slice)
    }
}

/// An entry as stored in the document.
#[derive(Debug, Deserialize)]
struct StoredZone {
    dataset_id: u64,
    chunk_index: Coordinates,
    element_count: u64,
    null_count: u64,
    min_le: Option<Hex>,
    max_le: Option<Hex>,
}

struct Builder<'a> {
    path: &'a Path,
    file: DescribedFile<'a>,
    datasets: Vec<Vec<Entry>>,
    count: u64,
    /// The dataset of the previous entry. The next entry usually describes the same dataset.
    subject: Option<EntryDataset<'a>>,
}

impl ListReader for Builder<'_> {
    const KEY: Key = Key::Chunks;

    fn read<'de, A: SeqAccess<'de>>(
        &mut self,
        mut rows: A,
        failure: &Failure,
    ) -> Result<(), A::Error> {
        while let Some(stored) = rows.next_element()? {
            self.add(&stored).map_err(|error| failure.note(error))?;
        }
        Ok(())
    }
}

impl<'a> Builder<'a> {
    fn new(path: &'a Path, file: DescribedFile<'a>) -> Self {
        Self {
            path,
            file,
            datasets: vec![Vec::new(); file.datasets.len()],
            count: 0,
            subject: None,
        }
    }

    fn subject(&mut self, id: u64) -> Result<Option<EntryDataset<'a>>> {
        match self.subject {
            Some(subject) if subject.dataset.id() == id => Ok(Some(subject)),
            _ => {
                let subject = EntryDataset::of(self.path, self.file, id)?;
                self.subject = subject;
                Ok(subject)
            }
        }
    }

    fn add(&mut self, stored: &StoredZone) -> Result<()> {
        // This check bounds the memory that the entries take.
        if self.count == self.file.chunk_rows {
            return Err(Error::malformed(
                ErrorLocation::file(self.path),
                "chunks",
                format!("more than {} entries", self.count),
                "at most one for each row of the chunk index",
            ));
        }
        self.count += 1;
        let Some(subject) = self.subject(stored.dataset_id)? else {
            return Ok(());
        };
        let entry = check(&subject, stored)?;
        // In bounds: `subject` has found the dataset, and there is one list per dataset.
        self.datasets[stored.dataset_id as usize].push(entry);
        Ok(())
    }

    fn finish(mut self) -> Result<ZoneMaps> {
        for (dataset, entries) in self.file.datasets.iter().zip(&mut self.datasets) {
            entries.shrink_to_fit();
            if !entries.is_sorted_by(|a, b| a.ordinal < b.ordinal) {
                entries.sort_unstable_by_key(|entry| entry.ordinal);
            }
            let twice = entries
                .windows(2)
                .find(|two| two[0].ordinal == two[1].ordinal);
            if let Some([entry, _]) = twice {
                let chunk = dataset.chunk_at(entry.ordinal);
                return Err(Error::malformed(
                    ErrorLocation::chunk(self.path, dataset.name(), &chunk),
                    "chunks",
                    "two entries of this chunk",
                    "one",
                ));
            }
        }
        Ok(ZoneMaps {
            datasets: self.datasets,
        })
    }
}

/// Checks an entry against its dataset, and its fields against each other.
fn check(subject: &EntryDataset<'_>, stored: &StoredZone) -> Result<Entry> {
    let EntryDataset { dataset, dtype, .. } = *subject;
    let chunk = stored.chunk_index.as_slice();
    let ordinal = subject.ordinal("chunk_index", chunk)?;
    let malformed = |field, found: String, expected: String| {
        Err(subject.malformed(Some(chunk), field, found, expected))
    };
    let cells = dataset.chunk_cells(chunk);
    if stored.element_count != cells {
        let expected = format!("{cells}, the chunk's cells within the shape");
        return malformed("element_count", stored.element_count.to_string(), expected);
    }
    let nulls = stored.null_count;
    if nulls > cells {
        let expected = format!("at most the {cells} cells of the chunk");
        return malformed("null_count", nulls.to_string(), expected);
    }
    if nulls > 0 && !dtype.is_float() && subject.fill.is_none() {
        let expected = "0, since integers without a fill value are never null";
        return malformed("null_count", nulls.to_string(), expected.to_string());
    }
    let (min, max) = match (&stored.min_le, &stored.max_le) {
        (None, None) if nulls == cells => (0, 0),
        (Some(min_hex), Some(max_hex)) if nulls < cells => {
            let min = subject.bits(Some(chunk), "min_le", min_hex)?;
            let max = subject.bits(Some(chunk), "max_le", max_hex)?;
            if dtype.order(min) > dtype.order(max) {
                let found = format!("{min_hex} and {max_hex}");
                let expected = "in ascending order".to_string();
                return malformed("min_le and max_le", found, expected);
            }
            (min, max)
        }
        (min, max) => {
            let state = |value: &Option<Hex>| if value.is_some() { "present" } else { "absent" };
            let both = if nulls < cells { "present" } else { "absent" };
            return malformed(
                "min_le and max_le",
                format!("{} and {}", state(min), state(max)),
                format!("both {both}, since {nulls} of {cells} cells are null"),
            );
        }
    };
    Ok(Entry {
        ordinal,
        nulls,
        min,
        max,
    })
}

#[cfg(test)]
mod tests;
