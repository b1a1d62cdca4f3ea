//! Open array files of any format.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::array::dataset::Dataset;
use crate::format::array::decoding::DecodeContext;
use crate::format::array::listing::Listing;
#[cfg(feature = "remote")]
use crate::format::array::located::{ChunkBytes, LocatedChunk};
use crate::format::array::metadata::DatasetMetadata;
use crate::format::array::metadata::described::DescribedAxis;
use crate::format::array::metadata::memory_budget::MemoryBudget;
use crate::format::array::metadata::provenance::{FileMetadata, HistoryRow};
use crate::format::array::statistics::{ChunkStatistics, ValueIndex};
use crate::format::io::identity::FileIdentity;
use crate::format::io::storage::{Access, Storage};

/// The attributes of groups, by the path of the group without a leading slash, which is empty for the
/// file itself.
pub type GroupAttributes = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the paths of the groups that a dataset or a group is in: the empty path of the file itself,
/// `a` and `a/b` for `a/b/name`.
#[cfg(any(feature = "cli", feature = "zarr"))]
pub(crate) fn groups_of(name: &str) -> impl Iterator<Item = &str> {
    let slashes = name.match_indices('/');
    std::iter::once("").chain(slashes.map(|(slash, _)| &name[..slash]))
}

/// An open file of n-dimensional arrays ("datasets"), each cut into a regular grid of chunks.
///
/// Chunks at the border are clipped to the shape. Cells are row-major and little-endian.
pub trait ArrayFile: Debug + Send + Sync {
    /// Returns the short name of the format, such as `tet`, as EXPLAIN shows it.
    fn format(&self) -> &'static str;

    /// Returns the datasets, and how the file was opened.
    fn listing(&self) -> &Listing;

    /// Returns the path as the caller gave it.
    fn path(&self) -> &Path {
        self.listing().path()
    }

    /// Returns the access mode with which the file was opened.
    fn access(&self) -> Access {
        self.listing().access()
    }

    /// Returns the datasets; the id of each is its index. Names may repeat.
    fn datasets(&self) -> &[Dataset] {
        self.listing().datasets()
    }

    /// Returns the dataset with this exact name; if there are several, the first.
    fn dataset(&self, name: &str) -> Option<&Dataset> {
        self.listing().dataset(name)
    }

    /// Returns the metadata of a dataset.
    fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata>;

    /// Returns a description of each axis of a dataset; empty if the metadata of the file describes none.
    fn described_axes(&self, _dataset: &Dataset) -> &[DescribedAxis] {
        &[]
    }

    /// Returns the dataset that has the same cells under its own name, if `dataset` is another name, such as
    /// a soft link.
    fn link_target(&self, _dataset: &Dataset) -> Option<&Dataset> {
        None
    }

    /// Returns the attributes of all groups; `None` if the format has no such attributes.
    fn groups(&self) -> Option<&GroupAttributes> {
        None
    }

    /// Returns the attributes of a group, or of the file itself if the path of the group is empty.
    /// `None` if there are none, or the format has no such attributes.
    fn group_attributes(&self, group: &str) -> Option<&BTreeMap<String, String>> {
        self.groups()?.get(group)
    }

    /// Returns the warnings raised while opening the file.
    fn warnings(&self) -> &[String] {
        self.listing().warnings()
    }

    /// Returns `true` if the CF attributes `scale_factor`, `add_offset` and `missing_value`
    /// describe the cells as stored.
    ///
    /// In formats that data is converted to, these attributes may be left over from before the data
    /// was unpacked.
    fn attributes_describe_cells(&self) -> bool {
        false
    }

    /// Returns the version of the format, if the file states one.
    fn layout_version(&self) -> Option<u32> {
        None
    }

    /// Returns the generation, if the file is a package.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// Returns the program that wrote the file, if the file states it.
    fn file_metadata(&self) -> Option<&FileMetadata> {
        None
    }

    /// Returns the steps of the file's provenance, oldest first.
    fn history(&self) -> &[HistoryRow] {
        &[]
    }

    /// Returns `true` if the file holds statistics of its chunks, without reading them. `None` if
    /// the format has none.
    fn has_chunk_statistics(&self) -> Option<bool> {
        None
    }

    /// Returns the memory budget that the file's writer suggests for queries.
    fn memory_budget(&self) -> MemoryBudget {
        MemoryBudget::default()
    }

    /// Returns `true` if the file stores a dataset in chunks, `false` if its chunk grid only divides
    /// reads.
    fn has_chunks(&self, _dataset: &Dataset) -> bool {
        true
    }

    /// Returns the number of chunks that the file lists over all datasets, if it lists them.
    ///
    /// The shapes of a broken file can claim far more chunks.
    fn listed_chunks(&self) -> Option<u64> {
        None
    }

    /// Returns the identity of the file as far as a dataset depends on it.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or has changed since it was opened.
    fn identity(&self, dataset: &Dataset) -> Result<FileIdentity>;

    /// Returns how a chunk is stored.
    ///
    /// # Errors
    /// Fails if the chunk is missing, or its record breaks a rule of the format.
    fn chunk(&self, dataset: &Dataset, chunk: &[u64], access: Access) -> Result<StoredChunk>;

    /// Returns the name of the codecs of a chunk: `raw`, `zstd`, or as the format writes them.
    fn codec(&self, _dataset: &Dataset, payload: Payload) -> String {
        payload.to_string()
    }

    /// Returns `true` if a dataset is compressed, judging by its first chunk.
    ///
    /// # Errors
    /// Returns the errors of [`Self::chunk`].
    fn is_compressed(&self, dataset: &Dataset) -> Result<bool> {
        if dataset.shape.contains(&0) {
            return Ok(false);
        }
        let first = vec![0; dataset.shape.len()];
        let stored = self.chunk(dataset, &first, self.access())?;
        Ok(matches!(stored.payload, Payload::Zstd(_)))
    }

    /// Verifies the checksums that reads skip, and returns an error for each mismatch.
    fn verify_checksums(&self) -> Vec<Error> {
        Vec::new()
    }

    /// Returns the storage that holds the raw or zstd-compressed chunks of a dataset.
    ///
    /// It serves chunks with a [`Payload::Raw`] or [`Payload::Zstd`].
    ///
    /// # Errors
    /// Fails if the storage cannot be opened.
    fn storage(&self, dataset: &Dataset) -> Result<Arc<Storage>>;

    /// Decodes a chunk with a [`Payload::Encoded`], and leaves its cells in `context`.
    ///
    /// # Errors
    /// Fails if the chunk cannot be read or decoded.
    fn decode(&self, dataset: &Dataset, chunk: &[u64], _context: &mut DecodeContext) -> Result<()> {
        let message = format!(
            "dataset {:?} has no chunk {chunk:?} to decode",
            dataset.name
        );
        Err(Error::invalid(self.path(), message))
    }

    /// Returns `true` if the chunks are in an object store. Readers then [locate](Self::locate)
    /// several chunks, fetch their bytes at the same time, and decode them as they arrive.
    #[cfg(feature = "remote")]
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns where the bytes of a chunk in an object store are. May wait for a request, if an
    /// index has to be read first.
    ///
    /// # Errors
    /// Fails if the chunk cannot be located.
    #[cfg(feature = "remote")]
    fn locate(&self, dataset: &Dataset, chunk: &[u64]) -> Result<LocatedChunk> {
        let stored = self.chunk(dataset, chunk, Access::Pread)?;
        let storage = self.storage(dataset)?;
        match (stored.payload, storage.object()) {
            (Payload::Raw(start) | Payload::Zstd(start), Some(object)) => {
                // The file has checked that the payload lies within it.
                let range = start..start + stored.stored_bytes;
                let bytes = ChunkBytes::InFile(Arc::clone(object), range);
                Ok(LocatedChunk { stored, bytes })
            }
            _ => Err(Error::invalid(
                self.path(),
                format!("dataset {:?} has no chunks to fetch", dataset.name),
            )),
        }
    }

    /// Decodes a chunk with a [`Payload::Encoded`] from its fetched bytes, `None` if it is absent,
    /// and leaves its cells in `context`.
    ///
    /// # Errors
    /// Fails if the chunk cannot be decoded.
    #[cfg(feature = "remote")]
    fn decode_fetched(
        &self,
        dataset: &Dataset,
        chunk: &[u64],
        _bytes: Option<&[u8]>,
        context: &mut DecodeContext,
    ) -> Result<()> {
        self.decode(dataset, chunk, context)
    }

    /// Returns a chunk with a [`Payload::Encoded`] as a [`Payload::Raw`] or [`Payload::Zstd`] in a
    /// memory-mapped file. Returns `None` if its stored bytes are neither, or too few to be worth a
    /// memory map.
    ///
    /// # Errors
    /// Fails if the chunk cannot be found, or its file cannot be opened.
    fn mapped_chunk(
        &self,
        _dataset: &Dataset,
        _chunk: &[u64],
    ) -> Result<Option<(StoredChunk, Arc<Storage>)>> {
        Ok(None)
    }

    /// Returns the zone maps, if there are any. The first call reads them.
    ///
    /// # Errors
    /// Fails if the zone maps cannot be read, or do not fit the datasets.
    fn chunk_statistics(&self, _access: Access) -> Result<Option<Arc<dyn ChunkStatistics>>> {
        Ok(None)
    }

    /// Returns the value postings, if there are any. The first call reads them.
    ///
    /// # Errors
    /// Fails if the value postings cannot be read, or do not fit the datasets.
    fn value_index(&self, _access: Access) -> Result<Option<Arc<dyn ValueIndex>>> {
        Ok(None)
    }
}

/// The stored form of one chunk, checked against the shape and the length of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredChunk {
    /// Length of the decoded cells in bytes.
    pub raw_bytes: u64,
    /// Length of the stored payload in bytes.
    pub stored_bytes: u64,
    /// The encoding and offset of the payload.
    pub payload: Payload,
}

/// The encoding of a chunk's stored bytes, and their offset in the file where callers need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// The cells themselves, starting at this offset of the file.
    Raw(u64),
    /// Zstd frames, starting at this offset of the file.
    Zstd(u64),
    /// An encoding that only the format can decode, with its name.
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
