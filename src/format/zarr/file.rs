//! Zarr hierarchies as [`ArrayFile`]s.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{ArrayFile, Dataset, DatasetMetadata, Payload, StoredChunk};
use crate::format::io::storage::{Access, Storage};
use crate::format::zarr::MAX_CHUNK_BYTES;
use crate::format::zarr::hierarchy::ZarrHierarchy;
use crate::format::zarr::root::OutwardLinks;

/// The names of codecs that compress.
const COMPRESSORS: [&str; 6] = ["blosc", "zstd", "gzip", "zlib", "bz2", "lz4"];

/// An open hierarchy, whose arrays are datasets.
///
/// Chunks are always read into memory, so the access mode changes nothing.
#[derive(Debug)]
pub struct ZarrFile {
    folder: ZarrHierarchy,
    access: Access,
    datasets: Vec<Dataset>,
}

impl ZarrFile {
    /// Opens a hierarchy.
    ///
    /// # Errors
    /// Returns the errors of [`ZarrHierarchy::open_with`].
    pub fn open(path: impl AsRef<Path>, access: Access, links: OutwardLinks) -> Result<Self> {
        let folder = ZarrHierarchy::open_with(path, links)?;
        let arrays = folder.arrays().iter().enumerate();
        let datasets = arrays.map(|(number, array)| {
            let (shape, chunk_shape) = (array.shape(), array.chunk_shape());
            Dataset::new(number, array.name(), array.dtype(), shape, chunk_shape)
        });
        Ok(Self {
            datasets: datasets.collect(),
            folder,
            access,
        })
    }

    fn number(&self, dataset: &Dataset) -> Result<usize> {
        usize::try_from(dataset.id)
            .ok()
            .filter(|number| *number < self.datasets.len())
            .ok_or_else(|| self.no_such_dataset(&dataset.name))
    }
}

impl ArrayFile for ZarrFile {
    fn format(&self) -> &'static str {
        "zarr"
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn access(&self) -> Access {
        self.access
    }

    fn datasets(&self) -> &[Dataset] {
        &self.datasets
    }

    fn dataset(&self, name: &str) -> Option<&Dataset> {
        // The datasets are sorted by name.
        let found = self
            .datasets
            .binary_search_by(|dataset| dataset.name.as_str().cmp(name));
        found.ok().map(|number| &self.datasets[number])
    }

    fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata> {
        let number = self.number(dataset).ok()?;
        Some(self.folder.arrays()[number].metadata())
    }

    fn warnings(&self) -> &[String] {
        self.folder.warnings()
    }

    fn attributes_describe_cells(&self) -> bool {
        true
    }

    fn layout_version(&self) -> Option<u32> {
        let first = self.folder.arrays().first()?;
        Some(first.zarr_version().into())
    }

    fn chunk(&self, dataset: &Dataset, chunk: &[u64], _access: Access) -> Result<StoredChunk> {
        let number = self.number(dataset)?;
        let stored_bytes = self.folder.stored_bytes(number, chunk)?;
        let dtype = dataset.check(self.folder.path())?;
        let raw_bytes = dataset.chunk_bytes(dtype, chunk);
        if raw_bytes > MAX_CHUNK_BYTES {
            return Err(Error::malformed(
                ErrorLocation::chunk(self.folder.path(), &dataset.name, chunk),
                "chunk shape",
                format!("{:?} cells of type {dtype}", dataset.chunk_shape),
                format!("at most {MAX_CHUNK_BYTES} bytes"),
            ));
        }
        Ok(StoredChunk {
            raw_bytes,
            stored_bytes,
            payload: Payload::Encoded("zarr"),
        })
    }

    fn is_compressed(&self, dataset: &Dataset) -> Result<bool> {
        let codecs = self.folder.arrays()[self.number(dataset)?].codecs();
        Ok(COMPRESSORS.iter().any(|name| codecs.contains(name)))
    }

    fn storage(&self, dataset: &Dataset) -> Result<Arc<Storage>> {
        let message = format!(
            "dataset {:?} has chunks in files of their own",
            dataset.name
        );
        Err(Error::invalid(self.folder.path(), message))
    }

    fn decode(&self, dataset: &Dataset, chunk: &[u64], cells: &mut Vec<u8>) -> Result<()> {
        self.folder.read_chunk(self.number(dataset)?, chunk, cells)
    }
}
