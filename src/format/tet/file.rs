//! An open `.tet` file: its directory, its footer, and where its chunks lie.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::format::array::{ArrayFile, Dataset, DatasetMetadata, Payload, StoredChunk};
use crate::format::io::storage::{Access, Storage};
use crate::format::tet::footer::{Footer, read_footer};
use crate::format::tet::index::{ChunkIndex, ChunkRow, Codec, MemoryBudget, StoredRow};
use crate::format::tet::package::Package;
use crate::format::tet::statistics::document::Lazy;
use crate::format::tet::statistics::postings::ValuePostings;
use crate::format::tet::statistics::zone_maps::ZoneMaps;
use crate::format::tet::superblock::{
    LAYOUT_VERSION, SUPERBLOCK_BYTES, Superblock, read_directory,
};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpenOptions {
    /// How its bytes are read while opening; later reads say for themselves.
    pub access: Access,
    /// Leaves the footer unread: no dimension names, labels, attributes or fill values. The way to the data
    /// of a file whose footer alone is broken.
    pub ignore_footer: bool,
}

/// An open `.tet` file. Opening reads the superblock, the dataset directory, the header of the chunk index and
/// the footer: O(datasets), whatever the number of chunks.
///
/// ```
/// use tet_sql::format::tet::{DatasetSpec, Dtype, OpenOptions, TetFile, TetWriter};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("small.tet");
/// let mut writer = TetWriter::create(&path, vec![DatasetSpec::new("a", Dtype::U8, &[2, 3], &[2, 2])])?;
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
    /// As it was given.
    path: PathBuf,
    package: Option<Package>,
    storage: Arc<Storage>,
    options: OpenOptions,
    datasets: Vec<Dataset>,
    /// The first dataset of each name.
    by_name: HashMap<String, usize>,
    index: ChunkIndex,
    footer: Footer,
    /// Where superblock and chunk index end.
    head_end: u64,
    payload_end: u64,
    warnings: Vec<String>,
    zone_maps: Lazy<ZoneMaps>,
    value_postings: Lazy<ValuePostings>,
}

impl TetFile {
    /// Opens a file, or the current generation of a package, and checks its superblock, directory, index header and footer. Rows of the chunk index
    /// are checked when their chunks are read.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the file cannot be read, [`Error::Malformed`](crate::Error::Malformed) if it breaks a rule of the format,
    /// [`Error::Invalid`](crate::Error::Invalid) for a folder that is no package or has no generation to read.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self> {
        let access = options.access;
        let path = path.as_ref();
        let package = path.is_dir().then(|| Package::open(path)).transpose()?;
        let storage = match &package {
            Some(package) => Storage::open(&package.packed())?,
            None => Storage::open(path)?,
        };
        let superblock = Superblock::read(&storage, access)?;
        let (footer, payload_end) = if superblock.has_footer() && !options.ignore_footer {
            read_footer(&storage, access)?
        } else {
            (Footer::default(), storage.length())
        };
        // Of a file without datasets, too: the index lies within the file.
        let index_end = superblock.chunk_index_offset + superblock.chunk_index_length;
        let head_end = index_end.max(SUPERBLOCK_BYTES);
        // What follows the superblock of a file without datasets means nothing.
        let (datasets, index) = if superblock.dataset_count == 0 {
            (Vec::new(), ChunkIndex::empty())
        } else {
            let (datasets, index_offset) = read_directory(&storage, access, &superblock)?;
            let index = ChunkIndex::read(&storage, access, &superblock, &datasets, index_offset)?;
            (datasets, index)
        };
        let mut by_name = HashMap::with_capacity(datasets.len());
        let mut warnings = Vec::new();
        for (position, dataset) in datasets.iter().enumerate() {
            let first = *by_name.entry(dataset.name.clone()).or_insert(position);
            if first != position {
                warnings.push(format!(
                    "{}: datasets {first} and {position} are both called {:?}; the first one is used",
                    storage.path().display(),
                    dataset.name
                ));
            } else if let Err(error) = dataset.check(storage.path()) {
                warnings.push(format!("{error}; the dataset is left out"));
            }
        }
        Ok(Self {
            path: path.to_path_buf(),
            package,
            storage: Arc::new(storage),
            options,
            datasets,
            by_name,
            index,
            footer,
            head_end,
            payload_end,
            warnings,
            zone_maps: Lazy::default(),
            value_postings: Lazy::default(),
        })
    }

    /// The path as it was given; of a package that of its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The generation that was opened, if this is a package.
    pub fn generation(&self) -> Option<u64> {
        self.package.as_ref().map(Package::generation)
    }

    /// Bytes in the file.
    pub fn length(&self) -> u64 {
        self.storage.length()
    }

    /// How it was opened.
    pub fn options(&self) -> OpenOptions {
        self.options
    }

    /// The datasets in directory order, among them ones of a repeated name and ones that cannot be read
    /// (see [`Dataset::check`]).
    pub fn datasets(&self) -> &[Dataset] {
        &self.datasets
    }

    /// The dataset of this exact name; of several, the first.
    pub fn dataset(&self, name: &str) -> Option<&Dataset> {
        self.by_name
            .get(name)
            .map(|position| &self.datasets[*position])
    }

    /// What the footer says of a dataset.
    pub fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata> {
        self.footer.metadata.datasets.get(&dataset.name)
    }

    /// The footer; empty if the file has none or it was left unread.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The memory budget in the index header.
    pub fn memory_budget(&self) -> MemoryBudget {
        self.index.budget()
    }

    /// Rows in the chunk index, over all datasets.
    pub fn chunk_rows(&self) -> u64 {
        self.index.row_count()
    }

    /// What was odd on opening without standing in the way: repeated names, datasets that cannot be read.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The chunk index row of one chunk, checked: codec, lengths, bounds.
    ///
    /// # Errors
    /// [`Error::MissingChunk`](crate::Error::MissingChunk) if there is none, [`Error::Malformed`](crate::Error::Malformed) if it breaks a rule of the format or two
    /// rows claim the chunk.
    pub fn chunk_row(&self, dataset: &Dataset, chunk: &[u64], access: Access) -> Result<ChunkRow> {
        self.index.row(
            &self.storage,
            access,
            &self.datasets,
            dataset,
            chunk,
            self.payload_end,
        )
    }

    /// Looks at so many of the first rows of the chunk index, in their order, unchecked.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn stored_rows(
        &self,
        access: Access,
        most: u64,
        visit: impl FnMut(u64, &StoredRow),
    ) -> Result<()> {
        self.index.for_rows(&self.storage, access, most, visit)
    }

    /// Where payloads must end.
    pub(crate) fn payload_end(&self) -> u64 {
        self.payload_end
    }

    /// Where the last payload ends of those that lie within the file, as far as the rows of the index can be believed; at
    /// least where superblock and index end.
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

    /// The rows of the index whose payloads do not end within the file, as those of a truncated one.
    pub(crate) fn truncated_rows(&self, access: Access) -> Result<u64> {
        let mut truncated = 0;
        self.stored_rows(access, u64::MAX, |_, row| {
            let end = row.payload_offset.checked_add(row.stored_bytes);
            truncated += u64::from(end.is_none_or(|end| end > self.length()));
        })?;
        Ok(truncated)
    }

    /// The file's bytes.
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The package that it is part of.
    pub(crate) fn package(&self) -> Option<&Package> {
        self.package.as_ref()
    }

    /// What came of reading the zone maps.
    pub(crate) fn kept_zone_maps(&self) -> &Lazy<ZoneMaps> {
        &self.zone_maps
    }

    /// What came of reading the value postings.
    pub(crate) fn kept_value_postings(&self) -> &Lazy<ValuePostings> {
        &self.value_postings
    }
}

impl ArrayFile for TetFile {
    fn format(&self) -> &'static str {
        "tet"
    }

    fn path(&self) -> &Path {
        self.path()
    }

    fn access(&self) -> Access {
        self.options.access
    }

    fn datasets(&self) -> &[Dataset] {
        self.datasets()
    }

    fn dataset(&self, name: &str) -> Option<&Dataset> {
        self.dataset(name)
    }

    fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata> {
        self.metadata(dataset)
    }

    fn warnings(&self) -> &[String] {
        self.warnings()
    }

    fn layout_version(&self) -> Option<u32> {
        Some(LAYOUT_VERSION)
    }

    fn generation(&self) -> Option<u64> {
        self.generation()
    }

    fn footer(&self) -> Option<&Footer> {
        Some(self.footer())
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

    fn storage(&self, _dataset: &Dataset) -> Result<Arc<Storage>> {
        Ok(Arc::clone(&self.storage))
    }

    fn zone_maps(&self, access: Access) -> Result<Option<Arc<ZoneMaps>>> {
        self.zone_maps(access)
    }

    fn value_postings(&self, access: Access) -> Result<Option<Arc<ValuePostings>>> {
        self.value_postings(access)
    }
}
