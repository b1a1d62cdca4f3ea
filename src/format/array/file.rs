//! An open file of arrays, whatever its format.

use std::fmt::{self, Debug};
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::array::dataset::Dataset;
use crate::format::array::metadata::DatasetMetadata;
use crate::format::io::storage::{Access, Storage};
use crate::format::tet::{Footer, MemoryBudget, ValuePostings, ZoneMaps};

/// An open file that holds arrays ("datasets"), each cut into a regular grid of chunks. Chunks at the border are clipped to
/// the shape; cells are row-major and little-endian.
pub trait ArrayFile: Debug + Send + Sync {
    /// Short name of the format, as EXPLAIN shows it: `tet`.
    fn format(&self) -> &'static str;

    /// The path as it was given.
    fn path(&self) -> &Path;

    /// How its bytes were read while opening.
    fn access(&self) -> Access;

    /// The datasets, each with its position as its number. Names may repeat.
    fn datasets(&self) -> &[Dataset];

    /// The dataset of this exact name; of several, the first.
    fn dataset(&self, name: &str) -> Option<&Dataset>;

    /// What the file says of a dataset.
    fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata>;

    /// What was odd on opening without standing in the way.
    fn warnings(&self) -> &[String];

    /// Returns `true` if the attributes of the CF conventions (`scale_factor`, `add_offset`, `missing_value`) describe
    /// the cells as they are stored. Those of formats that are converted to may be left over from data that was
    /// unpacked since.
    fn attributes_describe_cells(&self) -> bool {
        false
    }

    /// The version of the format that the file is written in, where it says one.
    fn layout_version(&self) -> Option<u32> {
        None
    }

    /// The generation of a package.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// What the file says of itself, if its format has a place for that.
    fn footer(&self) -> Option<&Footer> {
        None
    }

    /// The memory that the file's writer suggests for queries.
    fn memory_budget(&self) -> MemoryBudget {
        MemoryBudget::default()
    }

    /// Whether the file itself is cut into chunks, and not only what is read of it at once.
    fn has_chunks(&self) -> bool {
        true
    }

    /// Chunks that the file has, over all datasets, if it lists them: shapes can claim far more.
    fn listed_chunks(&self) -> Option<u64> {
        None
    }

    /// How a chunk is stored.
    ///
    /// # Errors
    /// If it is missing, or what the file says of it breaks a rule of the format.
    fn chunk(&self, dataset: &Dataset, chunk: &[u64], access: Access) -> Result<StoredChunk>;

    /// Whether the chunks of a dataset are compressed, as far as its first one tells.
    ///
    /// # Errors
    /// As [`Self::chunk`].
    fn is_compressed(&self, dataset: &Dataset) -> Result<bool> {
        if dataset.shape.contains(&0) {
            return Ok(false);
        }
        let first = vec![0; dataset.shape.len()];
        let stored = self.chunk(dataset, &first, self.access())?;
        Ok(matches!(stored.payload, Payload::Zstd(_)))
    }

    /// The file with the payloads of a dataset that are [`Payload::Raw`] or [`Payload::Zstd`].
    ///
    /// # Errors
    /// If it cannot be opened.
    fn storage(&self, dataset: &Dataset) -> Result<Arc<Storage>>;

    /// The cells of a chunk that is [`Payload::Encoded`], in place of what the vector holds.
    ///
    /// # Errors
    /// If the chunk cannot be read.
    fn decode(&self, dataset: &Dataset, chunk: &[u64], _cells: &mut Vec<u8>) -> Result<()> {
        let message = format!(
            "dataset {:?} has no chunk {chunk:?} to decode",
            dataset.name
        );
        Err(Error::invalid(self.path(), message))
    }

    /// The zone maps, if there are any. The first call reads them.
    ///
    /// # Errors
    /// If they cannot be read, or do not fit the datasets.
    fn zone_maps(&self, _access: Access) -> Result<Option<Arc<ZoneMaps>>> {
        Ok(None)
    }

    /// The value postings, if there are any. The first call reads them.
    ///
    /// # Errors
    /// If they cannot be read, or do not fit the datasets.
    fn value_postings(&self, _access: Access) -> Result<Option<Arc<ValuePostings>>> {
        Ok(None)
    }

    /// The error for a dataset name that the file does not have.
    fn no_such_dataset(&self, name: &str) -> Error {
        let names = self.datasets().iter();
        let names: Vec<_> = names.map(|dataset| format!("{:?}", dataset.name)).collect();
        Error::NoSuchDataset {
            path: self.path().to_path_buf(),
            name: name.to_string(),
            available: if names.is_empty() {
                "none".to_string()
            } else {
                names.join(", ")
            },
        }
    }
}

/// How one chunk is stored. What is said has been checked against the shape and the length of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredChunk {
    /// Bytes of the cells.
    pub raw_bytes: u64,
    /// Bytes in the file.
    pub stored_bytes: u64,
    /// What they are.
    pub payload: Payload,
}

/// The stored bytes of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// The cells themselves, from this offset of the file.
    Raw(u64),
    /// Zstd frames, from this offset of the file.
    Zstd(u64),
    /// What only the format knows to decode, under this name.
    Encoded(&'static str),
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw(_) => "raw",
            Self::Zstd(_) => "zstd",
            Self::Encoded(name) => name,
        })
    }
}
