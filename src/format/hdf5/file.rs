//! An open HDF5 file.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{
    ArrayFile, Dataset, DatasetMetadata, DecodeContext, GroupAttributes, Listing, Payload,
    StoredChunk,
};
#[cfg(feature = "remote")]
use crate::format::array::{ChunkBytes, LocatedChunk};
use crate::format::hdf5::MAX_CHUNK_BYTES;
use crate::format::hdf5::array::{Hdf5Array, Opened};
use crate::format::hdf5::cached_tables::CachedTables;
use crate::format::hdf5::open;
use crate::format::hdf5::source::Source;
use crate::format::io::cache::CacheDirectory;
use crate::format::io::identity::FileIdentity;
#[cfg(feature = "remote")]
use crate::format::io::remote::RemoteObject;
use crate::format::io::storage::{Access, Storage};

/// An open HDF5 file, whose datasets are named by their paths: `group/name`.
///
/// | HDF5 type | Dataset type |
/// | --- | --- |
/// | integers of 8, 16, 32 and 64 bits, in either byte order | the same type |
/// | integers in some of the bits of an element | the next larger type |
/// | IEEE 754 floats of 16, 32 and 64 bits, in either byte order | the same type |
/// | booleans of h5py | `u8` |
/// | enumerations | the integers, with the attributes `flag_values` and `flag_meanings` |
/// | strings of fixed and variable length | `i64` codes with [categories](crate::format::array::Categories) |
///
/// Datasets of other types, such as compounds and references, are left out with a warning. The same goes
/// for datasets with filters that are not supported, and datasets whose elements are in other files.
///
/// Opening reads the headers of all groups and datasets, and the elements of string arrays. The chunk
/// index of a dataset is read on first use. Cells are used in place if they are little-endian, and
/// neither filtered nor clipped. All other chunks are decoded.
///
/// # Examples
/// ```no_run
/// use tet_sql::Access;
/// use tet_sql::format::array::ArrayFile;
/// use tet_sql::format::hdf5::Hdf5File;
///
/// let file = Hdf5File::open("air.nc", Access::Mmap)?;
/// for dataset in file.datasets() {
///     println!("{} {:?}", dataset.name(), dataset.shape());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Hdf5File {
    listing: Listing,
    storage: Arc<Storage>,
    source: Source,
    tables: Option<CachedTables>,
    arrays: Vec<Hdf5Array>,
    /// The attributes of groups, by path.
    groups: GroupAttributes,
    /// The index of the dataset that each soft link leads to.
    link_targets: HashMap<usize, usize>,
}

impl Hdf5File {
    /// Opens a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not HDF5, or has a root group that cannot be read. Other groups
    /// and datasets that cannot be read are left out with a warning.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        Self::open_cached(path.as_ref(), access, None)
    }

    /// Opens a file like [`Self::open`]. Chunk indexes that were read before are taken from `cache`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub(crate) fn open_cached(
        path: &Path,
        access: Access,
        cache: Option<Arc<CacheDirectory>>,
    ) -> Result<Self> {
        let storage = Arc::new(Storage::open(path)?);
        let tables = cache.and_then(|cache| CachedTables::of(&storage, cache));
        Self::read(path, storage, access, tables)
    }

    /// Opens a file in an object store.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    #[cfg(feature = "remote")]
    pub fn open_remote(object: Arc<RemoteObject>) -> Result<Self> {
        let path = object.path().to_path_buf();
        Self::read(
            &path,
            Arc::new(Storage::remote(object)),
            Access::Pread,
            None,
        )
    }

    fn read(
        path: &Path,
        storage: Arc<Storage>,
        access: Access,
        tables: Option<CachedTables>,
    ) -> Result<Self> {
        let source = Source::open(&storage)?;
        let contents = open::open(&Opened {
            path,
            source: &source,
            storage: &storage,
            tables: tables.as_ref(),
        })?;
        let mut listing = Listing::new(path, access);
        for dataset in contents.datasets {
            listing.push(dataset);
        }
        listing.set_warnings(contents.warnings);
        Ok(Self {
            listing,
            storage,
            source: source.without_cache(),
            tables,
            arrays: contents.arrays,
            groups: contents.groups,
            link_targets: contents.link_targets,
        })
    }

    fn opened(&self) -> Opened<'_> {
        Opened {
            path: self.listing.path(),
            source: &self.source,
            storage: &self.storage,
            tables: self.tables.as_ref(),
        }
    }

    fn array(&self, dataset: &Dataset) -> Result<&Hdf5Array> {
        self.listing.of(dataset, &self.arrays)
    }

    /// Checks that a dataset has a chunk, and that the chunk is not too large.
    fn check_chunk(&self, dataset: &Dataset, chunk: &[u64]) -> Result<()> {
        self.listing.check_chunk(dataset, chunk)?;
        let dtype = dataset.check(self.listing.path())?;
        if dataset.chunk_bytes(dtype, chunk) > MAX_CHUNK_BYTES {
            return Err(Error::malformed(
                ErrorLocation::chunk(self.listing.path(), dataset.name(), chunk),
                "chunk shape",
                format!("{:?} cells of type {dtype}", dataset.chunk_shape()),
                format!("at most {MAX_CHUNK_BYTES} bytes"),
            ));
        }
        Ok(())
    }
}

impl ArrayFile for Hdf5File {
    fn format(&self) -> &'static str {
        "hdf5"
    }

    fn listing(&self) -> &Listing {
        &self.listing
    }

    fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata> {
        self.array(dataset).ok().map(|array| &array.metadata)
    }

    fn link_target(&self, dataset: &Dataset) -> Option<&Dataset> {
        let number = usize::try_from(dataset.id()).ok()?;
        let target = self.link_targets.get(&number)?;
        self.listing.datasets().get(*target)
    }

    fn groups(&self) -> Option<&GroupAttributes> {
        Some(&self.groups)
    }

    fn attributes_describe_cells(&self) -> bool {
        true
    }

    fn layout_version(&self) -> Option<u32> {
        Some(self.source.version.into())
    }

    fn has_chunks(&self, dataset: &Dataset) -> bool {
        self.array(dataset).is_ok_and(Hdf5Array::has_chunks)
    }

    fn identity(&self, _dataset: &Dataset) -> Result<FileIdentity> {
        self.storage.identity()
    }

    fn chunk(&self, dataset: &Dataset, chunk: &[u64], _access: Access) -> Result<StoredChunk> {
        self.check_chunk(dataset, chunk)?;
        let array = self.array(dataset)?;
        if array.element.kind.is_text() {
            let bytes = dataset.chunk_cells(chunk) * size_of::<i64>() as u64;
            return Ok(StoredChunk {
                raw_bytes: bytes,
                stored_bytes: bytes,
                payload: Payload::Encoded("hdf5"),
            });
        }
        array.chunk(&self.opened(), dataset, chunk)
    }

    fn is_compressed(&self, dataset: &Dataset) -> Result<bool> {
        Ok(self.array(dataset)?.is_compressed())
    }

    fn storage(&self, _dataset: &Dataset) -> Result<Arc<Storage>> {
        Ok(Arc::clone(&self.storage))
    }

    #[cfg(feature = "remote")]
    fn is_remote(&self) -> bool {
        self.storage.object().is_some()
    }

    #[cfg(feature = "remote")]
    fn locate(&self, dataset: &Dataset, chunk: &[u64]) -> Result<LocatedChunk> {
        let stored = self.chunk(dataset, chunk, Access::Pread)?;
        let array = self.array(dataset)?;
        let range = match array.element.kind.is_text() {
            true => None,
            false => array.range(&self.opened(), dataset, chunk)?,
        };
        let bytes = match (range, self.storage.object()) {
            (Some(range), Some(object)) => ChunkBytes::InFile(Arc::clone(object), range),
            _ => ChunkBytes::None,
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
        match bytes {
            Some(bytes) => {
                let array = self.array(dataset)?;
                array.decode(&self.opened(), dataset, chunk, Some(bytes), context)
            }
            None => self.decode(dataset, chunk, context),
        }
    }

    fn decode(&self, dataset: &Dataset, chunk: &[u64], context: &mut DecodeContext) -> Result<()> {
        self.check_chunk(dataset, chunk)?;
        let array = self.array(dataset)?;
        if !array.element.kind.is_text() {
            return array.decode(&self.opened(), dataset, chunk, None, context);
        }
        // A chunk of strings divides only the slowest axes, so its codes follow one another.
        let axes = chunk
            .iter()
            .zip(dataset.shape().iter().zip(dataset.chunk_shape()));
        let start = axes.fold(0, |start, (index, (extent, size))| {
            start * extent + index * size
        });
        let (start, end) = (
            start as usize,
            (start + dataset.chunk_cells(chunk)) as usize,
        );
        let codes = &array.codes[start * size_of::<i64>()..end * size_of::<i64>()];
        context.cells.clear();
        context.cells.extend_from_slice(codes);
        Ok(())
    }
}
