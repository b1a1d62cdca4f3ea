//! Zone maps (`ZONE.json`): the least and greatest value and the number of nulls of each chunk.
//!
//! A null is a NaN or the fill value. Nothing in the format ties a zone map to the cells that it is about, so what can be
//! checked without reading them is checked, and one wrong entry makes all of them unusable.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::SeqAccess;

use crate::error::{Error, Place, Result};
use crate::format::array::Dataset;
use crate::format::io::storage::Access;
use crate::format::tet::file::TetFile;
use crate::format::tet::statistics::document::{Failure, Key, Rows};
use crate::format::tet::statistics::entry::{Coordinates, Hex, Subject};

/// What the zone maps say of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Cells within the shape.
    pub elements: u64,
    /// Those of them that are NaN or the fill value.
    pub nulls: u64,
    /// The bit patterns, zero-extended, of the least and the greatest of the others. Integers are ordered by size,
    /// floats by the total order of IEEE 754, in which -0 comes before +0.
    pub range: Option<(u64, u64)>,
}

/// The zone maps of a file.
#[derive(Debug)]
pub struct ZoneMaps {
    /// By dataset; ascending by chunk.
    datasets: Vec<Vec<Entry>>,
}

/// A chunk's zone. Without values, if all cells are nulls.
#[derive(Debug, Clone, Copy)]
struct Entry {
    ordinal: u64,
    nulls: u64,
    least: u64,
    greatest: u64,
}

impl TetFile {
    /// The zone maps, embedded in the file or beside it in a package; `None` if it has none. They are read on the first
    /// call, and what came of it is kept.
    ///
    /// # Errors
    /// If they cannot be read, or do not fit the file. Then none of them is to be trusted; the cells are not affected.
    pub fn zone_maps(&self, access: Access) -> Result<Option<Arc<ZoneMaps>>> {
        self.kept_zone_maps().get(|| {
            let embedded = self.footer().zone_maps;
            let document = self.document(embedded, "zone_maps_ref", "ZONE.json")?;
            let Some(document) = document else {
                return Ok(None);
            };
            let mut builder = Builder::new(document.path(), self);
            document.read(access, &mut builder)?;
            builder.finish().map(Some)
        })
    }
}

impl ZoneMaps {
    /// The zone of a chunk of one of the file's datasets, if it is known.
    pub fn zone(&self, dataset: &Dataset, chunk: &[u64]) -> Option<Zone> {
        let entries = self.entries(dataset);
        if entries.is_empty() || chunk.len() != dataset.shape().len() {
            return None;
        }
        let ordinal = dataset.chunk_ordinal(chunk)?;
        // Where no entry is missing, they lie at their chunks' positions.
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
        Some(Zone {
            elements,
            nulls: entry.nulls,
            range: (entry.nulls < elements).then_some((entry.least, entry.greatest)),
        })
    }

    /// Whether the zones of all chunks of one of the file's datasets are known.
    pub fn is_complete(&self, dataset: &Dataset) -> bool {
        dataset.chunk_count() == Some(self.entries(dataset).len() as u64)
    }

    fn entries(&self, dataset: &Dataset) -> &[Entry] {
        let position = usize::try_from(dataset.id()).ok();
        let entries = position.and_then(|id| self.datasets.get(id));
        entries.map_or(&[], Vec::as_slice)
    }
}

/// An entry as it stands in the document.
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
    file: &'a TetFile,
    datasets: Vec<Vec<Entry>>,
    count: u64,
    /// The dataset of the last entry; the next one is usually about the same.
    subject: Option<Subject<'a>>,
}

impl Rows for Builder<'_> {
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
    fn new(path: &'a Path, file: &'a TetFile) -> Self {
        Self {
            path,
            file,
            datasets: vec![Vec::new(); file.datasets().len()],
            count: 0,
            subject: None,
        }
    }

    fn subject(&mut self, id: u64) -> Result<Option<Subject<'a>>> {
        match self.subject {
            Some(subject) if subject.dataset.id() == id => Ok(Some(subject)),
            _ => {
                let subject = Subject::of(self.path, self.file, id)?;
                self.subject = subject;
                Ok(subject)
            }
        }
    }

    fn add(&mut self, stored: &StoredZone) -> Result<()> {
        // What bounds the memory that entries take.
        if self.count == self.file.chunk_rows() {
            return Err(Error::malformed(
                Place::file(self.path),
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
        // The dataset is one of the file's, as many as there are lists.
        self.datasets[stored.dataset_id as usize].push(entry);
        Ok(())
    }

    fn finish(mut self) -> Result<ZoneMaps> {
        for (dataset, entries) in self.file.datasets().iter().zip(&mut self.datasets) {
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
                    Place::chunk(self.path, dataset.name(), &chunk),
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

/// Compares an entry with what is known of its chunk, and with itself.
fn check(subject: &Subject<'_>, stored: &StoredZone) -> Result<Entry> {
    let Subject { dataset, dtype, .. } = *subject;
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
    let (least, greatest) = match (&stored.min_le, &stored.max_le) {
        (None, None) if nulls == cells => (0, 0),
        (Some(min), Some(max)) if nulls < cells => {
            let least = subject.bits(Some(chunk), "min_le", min)?;
            let greatest = subject.bits(Some(chunk), "max_le", max)?;
            if dtype.order(least) > dtype.order(greatest) {
                let expected = "in ascending order".to_string();
                return malformed("min_le and max_le", format!("{min} and {max}"), expected);
            }
            (least, greatest)
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
        least,
        greatest,
    })
}

#[cfg(test)]
mod tests;
