//! Zarr hierarchies as [`ArrayFile`]s.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorLocation, Result};
#[cfg(feature = "remote")]
use crate::format::array::LocatedChunk;
use crate::format::array::{
    ArrayFile, Dataset, DatasetMetadata, DecodeContext, DescribedAxis, GroupAttributes, Listing,
    Payload, StoredChunk,
};
use crate::format::io::identity::FileIdentity;
#[cfg(feature = "remote")]
use crate::format::io::remote::RemoteDirectory;
use crate::format::io::storage::{Access, Storage};
use crate::format::zarr::MAX_CHUNK_BYTES;
use crate::format::zarr::hierarchy::ZarrHierarchy;
use crate::format::zarr::root::OutwardLinks;

/// The names of codecs that compress.
const COMPRESSORS: [&str; 6] = ["blosc", "zstd", "gzip", "zlib", "bz2", "lz4"];

/// An open hierarchy, whose arrays are datasets.
///
/// Under [`Access::Mmap`], uncompressed and zstd-compressed chunks in files of 256 KiB or more are
/// memory-mapped. All other chunks are read into memory.
#[derive(Debug)]
pub struct ZarrFile {
    /// The name of the format that opens the path: `zarr`, or `kerchunk` for references.
    format: &'static str,
    listing: Listing,
    folder: ZarrHierarchy,
}

impl ZarrFile {
    /// Opens a hierarchy.
    ///
    /// # Errors
    /// Returns the errors of [`ZarrHierarchy::open_with`].
    pub fn open(path: impl AsRef<Path>, access: Access, links: OutwardLinks) -> Result<Self> {
        let folder = ZarrHierarchy::open_with(path, links)?;
        Ok(Self::new("zarr", folder, access))
    }

    /// Opens a hierarchy in an object store.
    ///
    /// # Errors
    /// Returns the errors of [`ZarrHierarchy::open_remote`].
    #[cfg(feature = "remote")]
    pub fn open_remote(directory: RemoteDirectory) -> Result<Self> {
        let format = match directory.has_references() {
            true => "kerchunk",
            false => "zarr",
        };
        let folder = ZarrHierarchy::open_remote(directory)?;
        Ok(Self::new(format, folder, Access::Pread))
    }

    fn new(format: &'static str, mut folder: ZarrHierarchy, access: Access) -> Self {
        let mut listing = Listing::new(folder.path(), access);
        for (number, array) in folder.arrays().iter().enumerate() {
            let (shape, chunk_shape) = (array.shape(), array.chunk_shape());
            let dataset = Dataset::new(number, array.name(), array.dtype(), shape, chunk_shape);
            listing.push(dataset);
        }
        listing.set_warnings(folder.take_warnings());
        Self {
            format,
            listing,
            folder,
        }
    }

    /// Returns the size of a chunk's cells in bytes, which must not be too large.
    fn raw_bytes(&self, dataset: &Dataset, chunk: &[u64]) -> Result<u64> {
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
        Ok(raw_bytes)
    }

    fn number(&self, dataset: &Dataset) -> Result<usize> {
        usize::try_from(dataset.id)
            .ok()
            .filter(|number| *number < self.folder.arrays().len())
            .ok_or_else(|| self.listing.no_such_dataset(&dataset.name))
    }
}

impl ArrayFile for ZarrFile {
    fn format(&self) -> &'static str {
        self.format
    }

    fn listing(&self) -> &Listing {
        &self.listing
    }

    fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata> {
        let number = self.number(dataset).ok()?;
        Some(self.folder.arrays()[number].metadata())
    }

    fn described_axes(&self, dataset: &Dataset) -> &[DescribedAxis] {
        match self.number(dataset) {
            Ok(number) => self.folder.arrays()[number].described_axes(),
            Err(_) => &[],
        }
    }

    fn groups(&self) -> Option<&GroupAttributes> {
        Some(self.folder.groups())
    }

    fn attributes_describe_cells(&self) -> bool {
        true
    }

    fn layout_version(&self) -> Option<u32> {
        let first = self.folder.arrays().first()?;
        Some(first.zarr_version().into())
    }

    fn identity(&self, dataset: &Dataset) -> Result<FileIdentity> {
        self.folder.identity(self.number(dataset)?)
    }

    fn chunk(&self, dataset: &Dataset, chunk: &[u64], _access: Access) -> Result<StoredChunk> {
        let number = self.number(dataset)?;
        let stored_bytes = self.folder.stored_bytes(number, chunk)?;
        let raw_bytes = self.raw_bytes(dataset, chunk)?;
        Ok(StoredChunk {
            raw_bytes,
            stored_bytes,
            payload: Payload::Encoded("zarr"),
        })
    }

    fn codec(&self, dataset: &Dataset, payload: Payload) -> String {
        match (payload, self.number(dataset)) {
            (Payload::Encoded(_), Ok(number)) => self.folder.arrays()[number].codecs().to_string(),
            _ => payload.to_string(),
        }
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

    fn mapped_chunk(
        &self,
        dataset: &Dataset,
        chunk: &[u64],
    ) -> Result<Option<(StoredChunk, Arc<Storage>)>> {
        let found = self.folder.mapped_chunk(self.number(dataset)?, chunk)?;
        let Some((payload, stored_bytes, storage)) = found else {
            return Ok(None);
        };
        let raw_bytes = dataset.chunk_bytes(dataset.check(self.folder.path())?, chunk);
        let stored = StoredChunk {
            raw_bytes,
            stored_bytes,
            payload,
        };
        Ok(Some((stored, storage)))
    }

    #[cfg(feature = "remote")]
    fn is_remote(&self) -> bool {
        self.folder.is_remote()
    }

    #[cfg(feature = "remote")]
    fn locate(&self, dataset: &Dataset, chunk: &[u64]) -> Result<LocatedChunk> {
        let bytes = self.folder.locate(self.number(dataset)?, chunk)?;
        let stored = StoredChunk {
            raw_bytes: self.raw_bytes(dataset, chunk)?,
            stored_bytes: 0,
            payload: Payload::Encoded("zarr"),
        };
        Ok(LocatedChunk { stored, bytes })
    }

    #[cfg(feature = "remote")]
    fn decode_fetched(
        &self,
        dataset: &Dataset,
        chunk: &[u64],
        bytes: Option<&[u8]>,
        context: &mut DecodeContext,
    ) -> Result<()> {
        let number = self.number(dataset)?;
        self.folder.decode_fetched(number, chunk, bytes, context)
    }

    fn decode(&self, dataset: &Dataset, chunk: &[u64], context: &mut DecodeContext) -> Result<()> {
        let number = self.number(dataset)?;
        self.folder.read_chunk_in(number, chunk, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::array::ChunkReader;

    /// Chunks are located by their indices, so opening an array takes the same time for any number
    /// of chunks.
    #[test]
    fn an_array_of_59_million_chunks_without_files() {
        let folder = tempfile::tempdir().unwrap();
        let document = r#"{
            "zarr_format": 3, "node_type": "array",
            "shape": [1622400, 37, 721, 1440], "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1, 721, 1440]}},
            "chunk_key_encoding": {"name": "default"}, "fill_value": 1.5,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": 0, "checksum": false}}]}"#;
        std::fs::write(folder.path().join("zarr.json"), document).unwrap();
        let file = ZarrFile::open(folder.path(), Access::Mmap, OutwardLinks::Follow).unwrap();
        let dataset = file.datasets()[0].clone();
        assert_eq!(dataset.chunk_count(), Some(60_028_800));
        let last = [1_622_399, 36, 0, 0];
        let mut reader = ChunkReader::new(Arc::new(file), Access::Mmap);
        let stored = reader.open(&dataset, &last).unwrap();
        assert_eq!((stored.stored_bytes, stored.raw_bytes), (0, 721 * 1440 * 4));
        while !reader.advance().unwrap() {}
        assert_eq!(
            reader.cells(0..8).unwrap(),
            [1.5f32.to_le_bytes(); 2].concat()
        );
    }
}
