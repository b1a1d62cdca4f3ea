//! [`TetFile`]: an open `.tet` file with its dataset directory, chunk index and footer.

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::format::array::{
    ArrayFile, ChunkStatistics, Dataset, DatasetMetadata, FileMetadata, HistoryRow, Listing,
    MemoryBudget, Payload, StoredChunk, ValueIndex,
};
use crate::format::io::identity::FileIdentity;
#[cfg(feature = "remote")]
use crate::format::io::place::Place;
#[cfg(feature = "remote")]
use crate::format::io::remote::RemoteObject;
use crate::format::io::storage::{Access, Storage};
use crate::format::tet::footer::{Footer, Spill, read_footer};
use crate::format::tet::index::{ChunkIndex, ChunkRow, Codec, StoredRow};
use crate::format::tet::package::Package;
use crate::format::tet::statistics::document::{Document, Lazy};
use crate::format::tet::statistics::entry::DescribedFile;
use crate::format::tet::statistics::postings::ValuePostings;
use crate::format::tet::statistics::zone_maps::ZoneMaps;
use crate::format::tet::superblock::{
    LAYOUT_VERSION, SUPERBLOCK_BYTES, Superblock, read_directory,
};

/// Options for opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpenOptions {
    /// The access mode for opening the file. Later reads choose their own.
    pub access: Access,
    /// Skips the footer. The file then has no dimension names, labels, attributes or fill values.
    /// Use this to read the data of a file with a broken footer.
    pub ignore_footer: bool,
}

/// An open `.tet` file.
///
/// Opening reads the superblock, the dataset directory, the header of the chunk index and the
/// footer. This takes O(datasets) time, whatever the number of chunks.
///
/// ```
/// use tet_sql::format::tet::{DatasetSpec, Dtype, OpenOptions, TetFile, TetWriter};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("small.tet");
/// let specs = vec![DatasetSpec::new("a", Dtype::U8, &[2, 3], &[2, 2])];
/// let mut writer = TetWriter::create(&path, specs)?;
/// writer.write_dataset(0, &[1, 2, 3, 4, 5, 6])?;
/// writer.finish()?;
///
/// let file = TetFile::open(&path, OpenOptions::default())?;
/// let dataset = file.dataset("a").expect("just written");
/// assert_eq!(dataset.shape(), [2, 3]);
/// assert_eq!(file.chunk_row(dataset, &[0, 1], Default::default())?.raw_bytes, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TetFile {
    listing: Listing,
    package: Option<Package>,
    storage: Arc<Storage>,
    options: OpenOptions,
    index: ChunkIndex,
    footer: Footer,
    /// The file offset at which the superblock and the chunk index end.
    head_end: u64,
    payload_end: u64,
    zone_maps: Lazy<ZoneMaps>,
    value_postings: Lazy<ValuePostings>,
}

impl TetFile {
    /// Opens a file, or the current generation of a package.
    ///
    /// Checks the superblock, the dataset directory, the index header and the footer. Rows of the
    /// chunk index are checked when their chunks are read.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the file cannot be read,
    /// [`Error::Malformed`](crate::Error::Malformed) if it violates the format,
    /// [`Error::Invalid`](crate::Error::Invalid) for a directory that is not a package or has no
    /// generation to read.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let package = path.is_dir().then(|| Package::open(path)).transpose()?;
        let storage = match &package {
            Some(package) => package.open_packed()?,
            None => Storage::open(path)?,
        };
        Self::read(path, package, storage, options)
    }

    /// Opens a file in an object store.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    #[cfg(feature = "remote")]
    pub fn open_remote(object: Arc<RemoteObject>, options: OpenOptions) -> Result<Self> {
        let path = object.path().to_path_buf();
        let access = Access::Pread;
        let options = OpenOptions { access, ..options };
        Self::read(&path, None, Storage::remote(object), options)
    }

    /// Opens the current generation of a package in an object store.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    #[cfg(feature = "remote")]
    pub(crate) fn open_package(place: Place, options: OpenOptions) -> Result<Self> {
        let package = Package::open(&place)?;
        let storage = package.open_packed()?;
        let access = Access::Pread;
        let options = OpenOptions { access, ..options };
        Self::read(place.path(), Some(package), storage, options)
    }

    fn read(
        path: &Path,
        package: Option<Package>,
        storage: Storage,
        options: OpenOptions,
    ) -> Result<Self> {
        let access = options.access;
        let superblock = Superblock::read(&storage, access)?;
        let (footer, payload_end) = if superblock.has_footer() && !options.ignore_footer {
            read_footer(&storage, access)?
        } else {
            (Footer::default(), storage.length())
        };
        // Cannot overflow: the superblock check has shown that the index lies within the file, even
        // if there are no datasets.
        let index_end = superblock.chunk_index_offset + superblock.chunk_index_length;
        let head_end = index_end.max(SUPERBLOCK_BYTES);
        // Without datasets, the bytes after the superblock have no meaning.
        let (datasets, index) = if superblock.dataset_count == 0 {
            (Vec::new(), ChunkIndex::empty())
        } else {
            let (datasets, index_offset) = read_directory(&storage, access, &superblock)?;
            let index = ChunkIndex::read(&storage, access, &superblock, &datasets, index_offset)?;
            (datasets, index)
        };
        let mut listing = Listing::new(path, access);
        for (number, dataset) in datasets.into_iter().enumerate() {
            let (name, checked) = (dataset.name.clone(), dataset.check(storage.path()));
            let first = listing.push(dataset);
            if first != number {
                listing.warn([format!(
                    "{}: datasets {first} and {number} are both called {name:?}; the first one is used",
                    storage.path().display(),
                )]);
            } else if let Err(error) = checked {
                listing.warn([format!("{error}; the dataset is left out")]);
            }
        }
        Ok(Self {
            listing,
            package,
            storage: Arc::new(storage),
            options,
            index,
            footer,
            head_end,
            payload_end,
            zone_maps: Lazy::default(),
            value_postings: Lazy::default(),
        })
    }

    /// The path as given to [`Self::open`]; for a package, the path of its directory.
    pub fn path(&self) -> &Path {
        self.listing.path()
    }

    /// The number of the opened generation, if this is a package.
    pub fn generation(&self) -> Option<u64> {
        self.package.as_ref().map(Package::generation)
    }

    /// The length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.storage.length()
    }

    /// The options that the file was opened with.
    pub fn options(&self) -> OpenOptions {
        self.options
    }

    /// All datasets in directory order, including those with a repeated name and those that cannot
    /// be read (see [`Dataset::check`]).
    pub fn datasets(&self) -> &[Dataset] {
        self.listing.datasets()
    }

    /// Returns the dataset with exactly this name; if the name is repeated, the first one.
    pub fn dataset(&self, name: &str) -> Option<&Dataset> {
        self.listing.dataset(name)
    }

    /// Returns the footer's metadata of a dataset, if there is any.
    pub fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata> {
        self.footer.metadata.datasets.get(&dataset.name)
    }

    /// The footer. Empty if the file has none or [`OpenOptions::ignore_footer`] was set.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The memory budget from the index header.
    pub fn memory_budget(&self) -> MemoryBudget {
        self.index.budget()
    }

    /// The number of rows in the chunk index, over all datasets.
    pub fn chunk_rows(&self) -> u64 {
        self.index.row_count()
    }

    /// Problems that did not prevent opening: repeated names, and datasets that cannot be read.
    pub fn warnings(&self) -> &[String] {
        self.listing.warnings()
    }

    /// Returns the index row of one chunk, after checking its codec, lengths and bounds.
    ///
    /// # Errors
    /// [`Error::MissingChunk`](crate::Error::MissingChunk) if the chunk has no row,
    /// [`Error::Malformed`](crate::Error::Malformed) if the row violates the format or two rows
    /// describe the chunk.
    pub fn chunk_row(&self, dataset: &Dataset, chunk: &[u64], access: Access) -> Result<ChunkRow> {
        self.index.row(
            &self.storage,
            access,
            self.listing.datasets(),
            dataset,
            chunk,
            self.payload_end,
        )
    }

    /// Calls `visit` with the row number of each of the first `most` rows of the chunk index, and
    /// with the row, unchecked.
    ///
    /// # Errors
    /// Fails if the rows cannot be read.
    pub fn stored_rows(
        &self,
        access: Access,
        most: u64,
        visit: impl FnMut(u64, &StoredRow),
    ) -> Result<()> {
        self.index.for_rows(&self.storage, access, most, visit)
    }

    /// The file offset at which payloads must end.
    pub(crate) fn payload_end(&self) -> u64 {
        self.payload_end
    }

    /// Returns the end of the last payload that lies within the file, according to the unchecked
    /// rows of the chunk index; at least the end of the superblock and the index.
    pub(crate) fn last_payload_end(&self, access: Access) -> Result<u64> {
        let mut end = self.head_end;
        self.stored_rows(access, u64::MAX, |_, row| {
            let payload = row.payload_offset.checked_add(row.stored_bytes);
            if let Some(payload) = payload.filter(|payload| *payload <= self.length()) {
                end = end.max(payload);
            }
        })?;
        Ok(end)
    }

    /// Counts the index rows whose payloads do not end within the file. A truncated file has such
    /// rows.
    pub(crate) fn truncated_rows(&self, access: Access) -> Result<u64> {
        let mut truncated = 0;
        self.stored_rows(access, u64::MAX, |_, row| {
            let end = row.payload_offset.checked_add(row.stored_bytes);
            truncated += u64::from(end.is_none_or(|end| end > self.length()));
        })?;
        Ok(truncated)
    }

    /// The storage that reads the file's bytes.
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The package that the file belongs to, if any.
    pub(crate) fn package(&self) -> Option<&Package> {
        self.package.as_ref()
    }

    /// Returns the zone maps embedded in the file or, in a package, stored beside it. Returns
    /// `None` if there are none. The first call reads them, and later calls return the cached
    /// outcome.
    ///
    /// # Errors
    /// Fails if the zone maps cannot be read or do not match the file. None of them can be trusted
    /// then. The cells are not affected.
    pub fn zone_maps(&self, access: Access) -> Result<Option<Arc<ZoneMaps>>> {
        self.zone_maps.get(|| {
            let document = self.document(self.footer.zone_maps, "zone_maps_ref", "ZONE.json")?;
            let read = |document| ZoneMaps::read(&document, self.described(), access);
            document.map(read).transpose()
        })
    }

    /// Returns the value postings embedded in the file or, in a package, stored beside it. Returns
    /// `None` if there is no secondary index. The first call reads them, and later calls return the
    /// cached outcome.
    ///
    /// # Errors
    /// Fails if the postings cannot be read or do not match the file. None of them can be trusted
    /// then. The cells are not affected.
    pub fn value_postings(&self, access: Access) -> Result<Option<Arc<ValuePostings>>> {
        self.value_postings.get(|| {
            let embedded = self.footer.secondary_index;
            let document = self.document(embedded, "secondary_index_ref", "INDEX.json")?;
            let read = |document| ValuePostings::read(&document, self.described(), access);
            document.map(read).transpose()
        })
    }

    /// Returns the parts of the file that its statistics are checked against.
    pub(crate) fn described(&self) -> DescribedFile<'_> {
        DescribedFile {
            datasets: self.datasets(),
            footer: &self.footer,
            chunk_rows: self.chunk_rows(),
        }
    }

    /// Finds a document: at the region that the footer gives or, in a package, in the file
    /// `name_beside`. Returns `None` if there is neither.
    pub(crate) fn document(
        &self,
        embedded: Option<Spill>,
        field: &'static str,
        name_beside: &str,
    ) -> Result<Option<Document<'_>>> {
        if let Some(region) = embedded {
            return Document::embedded(&self.storage, region, field).map(Some);
        }
        // Without the footer the fill values are unknown, and with them the nulls.
        let package = self
            .package
            .as_ref()
            .filter(|_| !self.options.ignore_footer);
        let Some(package) = package else {
            return Ok(None);
        };
        let beside = package.document(name_beside, self.storage.length())?;
        Ok(beside.map(|(storage, seal)| Document::beside(storage, seal)))
    }
}

impl ArrayFile for TetFile {
    fn format(&self) -> &'static str {
        "tet"
    }

    fn listing(&self) -> &Listing {
        &self.listing
    }

    fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata> {
        self.metadata(dataset)
    }

    fn layout_version(&self) -> Option<u32> {
        Some(LAYOUT_VERSION)
    }

    fn generation(&self) -> Option<u64> {
        self.generation()
    }

    fn file_metadata(&self) -> Option<&FileMetadata> {
        self.footer.metadata.file.as_ref()
    }

    fn history(&self) -> &[HistoryRow] {
        &self.footer.history
    }

    fn has_chunk_statistics(&self) -> Option<bool> {
        Some(self.footer.has_zone_maps())
    }

    fn memory_budget(&self) -> MemoryBudget {
        self.memory_budget()
    }

    fn listed_chunks(&self) -> Option<u64> {
        Some(self.chunk_rows())
    }

    fn chunk(&self, dataset: &Dataset, chunk: &[u64], access: Access) -> Result<StoredChunk> {
        let row = self.chunk_row(dataset, chunk, access)?;
        Ok(StoredChunk {
            raw_bytes: row.raw_bytes,
            stored_bytes: row.stored_bytes,
            payload: match row.codec {
                Codec::Raw => Payload::Raw(row.payload_offset),
                Codec::Zstd => Payload::Zstd(row.payload_offset),
            },
        })
    }

    fn identity(&self, _dataset: &Dataset) -> Result<FileIdentity> {
        self.storage.identity()
    }

    fn storage(&self, _dataset: &Dataset) -> Result<Arc<Storage>> {
        Ok(Arc::clone(&self.storage))
    }

    #[cfg(feature = "remote")]
    fn is_remote(&self) -> bool {
        self.storage.object().is_some()
    }

    fn chunk_statistics(&self, access: Access) -> Result<Option<Arc<dyn ChunkStatistics>>> {
        let zone_maps = self.zone_maps(access)?;
        Ok(zone_maps.map(|zone_maps| zone_maps as Arc<dyn ChunkStatistics>))
    }

    fn value_index(&self, access: Access) -> Result<Option<Arc<dyn ValueIndex>>> {
        let postings = self.value_postings(access)?;
        Ok(postings.map(|postings| postings as Arc<dyn ValueIndex>))
    }
}
