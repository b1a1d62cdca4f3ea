//! Compares the label entries of a secondary index with the axis labels. Queries here ignore these
//! entries, but other readers may use them.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde::de::SeqAccess;

use crate::error::Result;
use crate::format::array::Dataset;
use crate::format::io::storage::Access;
use crate::format::tet::file::TetFile;
use crate::format::tet::statistics::document::{Failure, Key, ListReader};
use crate::format::tet::statistics::entry::Coordinates;

/// An index entry. Only the fields about labels are kept.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Entry {
    SortedAxisRange {
        dataset_id: u64,
        axis: usize,
        segments: Vec<Segment>,
    },
    CoordLabelPostings {
        dataset_id: u64,
        axis: usize,
        postings: Vec<Posting>,
    },
    #[serde(other)]
    Other,
}

/// The range of the numeric labels along some chunks. Both ends are 64-bit floats in hexadecimal.
#[derive(Deserialize)]
struct Segment {
    lo_le: String,
    hi_le: String,
    chunks: Vec<Coordinates>,
}

/// The chunks along which a label occurs.
#[derive(Deserialize)]
struct Posting {
    label: String,
    chunks: Vec<Coordinates>,
}

/// Returns the problems of all label entries, each with the name of its dataset.
///
/// # Errors
/// Fails if the index cannot be read.
pub(super) fn check(file: &TetFile, access: Access) -> Result<Vec<(String, String)>> {
    let embedded = file.footer().secondary_index;
    let Some(document) = file.document(embedded, "secondary_index_ref", "INDEX.json")? else {
        return Ok(Vec::new());
    };
    let mut entries = Entries {
        file,
        found: Vec::new(),
    };
    document.read(access, &mut entries)?;
    Ok(entries.found)
}

struct Entries<'a> {
    file: &'a TetFile,
    found: Vec<(String, String)>,
}

impl ListReader for Entries<'_> {
    const KEY: Key = Key::Indexes;

    fn read<'de, A: SeqAccess<'de>>(&mut self, mut rows: A, _: &Failure) -> Result<(), A::Error> {
        while let Some(entry) = rows.next_element::<Entry>()? {
            let (id, axis) = match &entry {
                Entry::SortedAxisRange {
                    dataset_id, axis, ..
                }
                | Entry::CoordLabelPostings {
                    dataset_id, axis, ..
                } => (*dataset_id, *axis),
                Entry::Other => continue,
            };
            let dataset = usize::try_from(id)
                .ok()
                .and_then(|id| self.file.datasets().get(id));
            let (name, message) = match dataset {
                None => (String::new(), Some(format!("there is no dataset {id}"))),
                Some(dataset) => {
                    let axis = Axis::of(self.file, dataset, axis);
                    (
                        dataset.name().to_string(),
                        axis.and_then(|axis| axis.check(&entry)).err(),
                    )
                }
            };
            self.found.extend(message.map(|message| (name, message)));
        }
        Ok(())
    }
}

/// An axis of a dataset, with its labels.
struct Axis<'a> {
    dataset: &'a Dataset,
    number: usize,
    labels: &'a [String],
    /// Number of chunks of the dataset per chunk index along this axis.
    others: u64,
}

impl<'a> Axis<'a> {
    fn of(file: &'a TetFile, dataset: &'a Dataset, number: usize) -> Result<Self, String> {
        let checked = dataset.check(file.storage().path());
        checked.map_err(|error| error.to_string())?;
        let metadata = file.metadata(dataset);
        let labels = metadata.and_then(|metadata| {
            let shape = dataset.shape();
            (number < shape.len()).then(|| metadata.labels(&metadata.dim_names, number, shape))?
        });
        let extent = dataset.shape().get(number).copied().unwrap_or_default();
        let labels = labels.filter(|(labels, _)| labels.len() as u64 == extent);
        let (Some((labels, _)), Some(count)) = (labels, dataset.chunk_count()) else {
            return Err(format!("axis {number} has a label index, but no labels"));
        };
        let along = dataset.chunk_grid()[number].max(1);
        Ok(Self {
            dataset,
            number,
            labels,
            others: count / along,
        })
    }

    fn check(&self, entry: &Entry) -> Result<(), String> {
        match entry {
            Entry::SortedAxisRange { segments, .. } => self.check_segments(segments),
            Entry::CoordLabelPostings { postings, .. } => self.check_postings(postings),
            Entry::Other => Ok(()),
        }
    }

    /// Returns the chunk indices of `chunks` along this axis. Fails unless `chunks` are all chunks
    /// of the dataset with these indices.
    fn along(&self, chunks: &[Coordinates], what: &str) -> Result<BTreeSet<u64>, String> {
        let mut different = BTreeSet::new();
        let mut along = BTreeSet::new();
        for chunk in chunks {
            let is_fitting = chunk.as_slice().len() == self.dataset.shape().len();
            let ordinal = self.dataset.chunk_ordinal(chunk.as_slice());
            let ordinal = ordinal.filter(|_| is_fitting);
            let ordinal = ordinal.ok_or_else(|| {
                format!(
                    "{what} lists chunk {:?}, which does not exist",
                    chunk.as_slice()
                )
            })?;
            different.insert(ordinal);
            along.insert(chunk.as_slice()[self.number]);
        }
        match different.len() as u64 == self.others.saturating_mul(along.len() as u64) {
            true => Ok(along),
            false => Err(format!(
                "{what} lists {} chunks, expected all {} along each label of axis {}",
                different.len(),
                self.others,
                self.number
            )),
        }
    }

    fn check_postings(&self, postings: &[Posting]) -> Result<(), String> {
        let extent = self.dataset.chunk_shape()[self.number];
        let mut expected: HashMap<&str, BTreeSet<u64>> = HashMap::new();
        for (label, position) in self.labels.iter().zip(0u64..) {
            let along = expected.entry(label).or_default();
            along.insert(position / extent);
        }
        for Posting { label, chunks } in postings {
            let along = self.along(chunks, &format!("the label {label:?}"))?;
            if expected.remove(label.as_str()) != Some(along) {
                return Err(format!(
                    "the index lists the wrong chunks for the label {label:?} of axis {}",
                    self.number
                ));
            }
        }
        match expected.keys().min() {
            None => Ok(()),
            Some(label) => Err(format!("the index does not contain the label {label:?}")),
        }
    }

    fn check_segments(&self, segments: &[Segment]) -> Result<(), String> {
        let numbers = self.labels.iter().map(|label| label.trim().parse::<f64>());
        let numbers: Vec<f64> = numbers
            .collect::<Result<_, _>>()
            .map_err(|_| format!("axis {} has labels that are no numbers", self.number))?;
        let extent = usize::try_from(self.dataset.chunk_shape()[self.number]);
        let parts: Vec<&[f64]> = numbers.chunks(extent.unwrap_or(usize::MAX)).collect();
        let mut left: BTreeSet<u64> = (0..parts.len() as u64).collect();
        for segment in segments {
            let along = self.along(&segment.chunks, "a range")?;
            let values = along.iter().flat_map(|chunk| parts[*chunk as usize]);
            let min = values.clone().copied().fold(f64::INFINITY, f64::min);
            let max = values.copied().fold(f64::NEG_INFINITY, f64::max);
            let ends = [&segment.lo_le, &segment.hi_le].map(|text| float(text));
            let [Some(low), Some(high)] = ends else {
                return Err("a range has an end that is no 64-bit float".to_string());
            };
            if (low.min(high), low.max(high)) != (min, max) {
                return Err(format!(
                    "a range goes from {low} to {high}, expected {min} to {max} from the labels of axis {}",
                    self.number
                ));
            }
            left.retain(|chunk| !along.contains(chunk));
        }
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "the ranges do not cover all chunks along axis {}",
                self.number
            )),
        }
    }
}

/// Parses a 64-bit float from the hexadecimal digits of its little-endian bytes.
fn float(digits: &str) -> Option<f64> {
    let bits = u64::from_str_radix(digits, 16)
        .ok()
        .filter(|_| digits.len() == 16)?;
    Some(f64::from_bits(bits.swap_bytes()))
}
