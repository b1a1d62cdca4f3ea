//! Writes `.tet` files. The footer is version 1, or version 2 with zone maps. Index rows are in
//! directory and row-major order, payloads in the order in which they arrive.

mod footer;
mod spec;
pub(in crate::format::tet) mod zone_map;

use std::borrow::Cow;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::array::ChunkSummary;
use crate::format::array::{
    ArrayWriter, ChunkCells, Chunks, Compression, Dataset, DatasetMetadata, DatasetSpec, Fill,
    next_indices, threads_for,
};
use crate::format::array::{FileMetadata, HistoryRow};
use crate::format::io::parallel::call_on;
use crate::format::io::target::{self, TemporaryFile};
use crate::format::tet::footer::Metadata;
use crate::format::tet::index::{self, ChunkRow, Codec};
use crate::format::tet::superblock::{self, MAX_RANK, align8};

/// Size of the write buffer in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes one `.tet` file.
///
/// The file is written beside the target under a temporary name. [`Self::finish`] syncs it and
/// renames it to the target. Dropping an unfinished writer deletes the temporary file.
///
/// ```text
/// create -> embed_zone_maps, set_file_metadata, push_history -> write_chunk ... -> finish
/// ```
pub struct TetWriter {
    path: PathBuf,
    output: BufWriter<TemporaryFile>,
    position: u64,
    specs: Vec<DatasetSpec>,
    chunks: Chunks<ChunkRow>,
    history: Vec<HistoryRow>,
    file_metadata: Option<FileMetadata>,
    /// For each dataset, the zone of each chunk; `None` unless zone maps are embedded.
    zones: Option<Vec<Vec<ChunkSummary>>>,
    has_failed: bool,
}

impl std::fmt::Debug for TetWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TetWriter")
            .field("path", &self.path)
            .field("datasets", &self.specs)
            .finish_non_exhaustive()
    }
}

impl TetWriter {
    /// Creates a file for the datasets that `specs` describe.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a dataset cannot be written as described, [`Error::Io`] if the
    /// temporary file cannot be created.
    pub fn create(path: impl AsRef<Path>, specs: Vec<DatasetSpec>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        for spec in &specs {
            spec::check(spec, &path)?;
        }
        let datasets = specs.iter().enumerate();
        let datasets = datasets.map(|(number, spec)| spec.dataset(number));
        let chunks = Chunks::new(&path, datasets.collect())?;
        let temporary = target::create_beside(&path)?;
        let mut writer = Self {
            path,
            output: BufWriter::with_capacity(BUFFER_BYTES, temporary),
            position: 0,
            chunks,
            specs,
            history: Vec::new(),
            file_metadata: None,
            zones: None,
            has_failed: false,
        };
        let payloads = if writer.specs.is_empty() {
            superblock::SUPERBLOCK_BYTES
        } else {
            writer.index_offset() + index::HEADER_BYTES + writer.chunks.count() * index::ROW_BYTES
        };
        writer.seek(payloads)?;
        writer.position = payloads;
        Ok(writer)
    }

    /// Embeds zone maps: the min, max and null count of each chunk. Call this before writing
    /// chunks. The footer is then version 2, which older readers refuse.
    pub fn embed_zone_maps(&mut self) {
        let none = ChunkSummary {
            elements: 0,
            nulls: 0,
            range: None,
        };
        let zones = (0..self.specs.len()).map(|dataset| vec![none; self.chunks.of(dataset).len()]);
        self.zones = Some(zones.collect());
    }

    /// Records which program wrote the file.
    pub fn set_file_metadata(&mut self, metadata: FileMetadata) {
        self.file_metadata = Some(metadata);
    }

    /// Adds a row to the history. `at` is in seconds since 1970.
    pub fn push_history(&mut self, op: &str, source: &str, at: u64) {
        self.history.push(HistoryRow {
            op: op.to_string(),
            source: source.to_string(),
            at: at.to_string(),
            ..HistoryRow::default()
        });
    }

    /// Writes one chunk. `cells` are its cells, clipped to the shape of the dataset, row-major and
    /// little-endian.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such chunk, its cells have another length, it was written
    /// before, or an earlier write failed. [`Error::Io`] if the write fails.
    pub fn write_chunk(&mut self, dataset: usize, chunk: &[u64], cells: &[u8]) -> Result<()> {
        let only = ChunkCells {
            chunk: chunk.to_vec(),
            cells: Cow::Borrowed(cells),
        };
        self.write_chunks(dataset, &[only], 1)
    }

    /// Appends a compressed chunk.
    fn append(&mut self, raw_bytes: usize, codec: Codec, stored: &[u8]) -> Result<ChunkRow> {
        if let Err(error) = self.output.write_all(stored) {
            // Part of the chunk may have been written, so the offset of the next chunk is unknown.
            self.has_failed = true;
            return Err(Error::io(&self.path, "write")(error));
        }
        let row = ChunkRow {
            payload_offset: self.position,
            raw_bytes: raw_bytes as u64,
            stored_bytes: stored.len() as u64,
            codec,
        };
        self.position += stored.len() as u64;
        Ok(row)
    }

    /// Writes all chunks of a dataset. `cells` are all its cells, row-major and little-endian.
    ///
    /// # Errors
    /// See [`Self::write_chunk`].
    pub fn write_dataset(&mut self, dataset: usize, cells: &[u8]) -> Result<()> {
        ArrayWriter::write_dataset(self, dataset, cells)
    }

    /// Writes the footer, the dataset directory and the chunk index, syncs the file and renames it
    /// to the target.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a chunk was never written. The target is unchanged then.
    pub fn finish(mut self) -> Result<()> {
        self.chunks.check_all(&self.path)?;
        let has_footer = self.write_footer()?;
        self.write_head(has_footer)?;
        let path = self.path;
        let temporary = self
            .output
            .into_inner()
            .map_err(|error| Error::io(&path, "write")(error.into_error()))?;
        target::persist(temporary, &path)
    }

    /// Writes the footer, if there is anything to write. Returns `true` if the file has a footer.
    fn write_footer(&mut self) -> Result<bool> {
        let datasets = self
            .specs
            .iter()
            .filter(|spec| spec.metadata != DatasetMetadata::default())
            .map(|spec| (spec.name.clone(), spec.metadata.clone()))
            .collect();
        let metadata = Metadata {
            file: self.file_metadata.clone(),
            datasets,
        };
        let zone_maps = self.zone_maps()?;
        let position = self.position;
        match footer::encode(&self.path, &self.history, &metadata, zone_maps, position)? {
            Some(bytes) => {
                self.put(&bytes)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn zone_maps(&self) -> Result<Option<Vec<u8>>> {
        let Some(zones) = &self.zones else {
            return Ok(None);
        };
        let datasets = self.chunks.datasets().iter();
        let datasets = datasets.zip(&self.specs).zip(zones);
        let zones = datasets.flat_map(|((dataset, spec), zones)| {
            let zones = zones.iter().enumerate();
            zones.map(|(ordinal, zone)| {
                let chunk = dataset.chunk_at(ordinal as u64);
                (dataset.id, spec.dtype, chunk, *zone)
            })
        });
        let bytes = zone_map::encode(zones)
            .map_err(|error| Error::io(&self.path, "encode the zone maps of")(error.into()))?;
        Ok(Some(bytes))
    }

    /// Writes everything before the payloads: superblock, dataset directory and chunk index.
    fn write_head(&mut self, has_footer: bool) -> Result<()> {
        let index_offset = if self.chunks.datasets().is_empty() {
            superblock::SUPERBLOCK_BYTES
        } else {
            self.index_offset()
        };
        let row_count = self.chunks.count();
        let index_length = if self.chunks.datasets().is_empty() {
            0
        } else {
            index::HEADER_BYTES + row_count * index::ROW_BYTES
        };
        let flags = if has_footer {
            superblock::FLAG_FOOTER
        } else {
            0
        };
        self.seek(0)?;
        self.put(&superblock::MAGIC)?;
        self.put(&superblock::LAYOUT_VERSION.to_le_bytes())?;
        self.put(&(self.chunks.datasets().len() as u32).to_le_bytes())?;
        self.put(&flags.to_le_bytes())?;
        self.put(&index_offset.to_le_bytes())?;
        self.put(&index_length.to_le_bytes())?;
        if self.chunks.datasets().is_empty() {
            return Ok(());
        }
        let records = self.records();
        self.put(&(records.len() as u64).to_le_bytes())?;
        self.put(&records)?;
        let padding = index_offset as usize - superblock::RECORDS_OFFSET as usize - records.len();
        self.put(&[0; 8][..padding])?;
        self.put(&index::MAGIC)?;
        self.put(&index::INDEX_VERSION.to_le_bytes())?;
        self.put(&row_count.to_le_bytes())?;
        self.put(&[0; 16])?;
        let chunks = std::mem::take(&mut self.chunks);
        for (number, dataset) in chunks.datasets().iter().enumerate() {
            let grid = dataset.chunk_grid();
            let mut chunk = vec![0; grid.len()];
            for row in chunks.of(number).iter().flatten() {
                let mut bytes = Vec::with_capacity(index::ROW_BYTES as usize);
                bytes.extend_from_slice(&dataset.id.to_le_bytes());
                for axis in 0..MAX_RANK {
                    let position: u64 = chunk.get(axis).copied().unwrap_or(0);
                    bytes.extend_from_slice(&position.to_le_bytes());
                }
                bytes.extend_from_slice(&row.payload_offset.to_le_bytes());
                bytes.extend_from_slice(&row.raw_bytes.to_le_bytes());
                bytes.extend_from_slice(&row.stored_bytes.to_le_bytes());
                bytes.extend_from_slice(&row.codec.tag().to_le_bytes());
                bytes.extend_from_slice(&[0; 4]);
                self.put(&bytes)?;
                next_indices(&mut chunk, &grid);
            }
        }
        Ok(())
    }

    fn records(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for dataset in self.chunks.datasets() {
            let name = dataset.name.as_bytes();
            bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&dataset.dtype_tag.to_le_bytes());
            bytes.extend_from_slice(&(dataset.shape.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(name);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            for extent in dataset.shape.iter().chain(&dataset.chunk_shape) {
                bytes.extend_from_slice(&extent.to_le_bytes());
            }
        }
        bytes
    }

    fn index_offset(&self) -> u64 {
        let end = superblock::RECORDS_OFFSET + self.records().len() as u64;
        // The records are in memory, so their end is far below 2^64.
        align8(end).unwrap_or(u64::MAX)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.output
            .write_all(bytes)
            .map_err(Error::io(&self.path, "write"))
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.output
            .seek(SeekFrom::Start(position))
            .map(|_| ())
            .map_err(Error::io(&self.path, "write"))
    }
}

impl ArrayWriter for TetWriter {
    fn path(&self) -> &Path {
        &self.path
    }

    fn dataset(&self, number: usize) -> Option<&Dataset> {
        self.chunks.datasets().get(number)
    }

    fn write_chunk(&mut self, dataset: usize, chunk: &[u64], cells: &[u8]) -> Result<()> {
        self.write_chunk(dataset, chunk, cells)
    }

    fn write_chunks(
        &mut self,
        dataset: usize,
        chunks: &[ChunkCells<'_>],
        threads: usize,
    ) -> Result<()> {
        let ordinals = self.chunks.check_each(&self.path, dataset, chunks)?;
        let Some(spec) = self.specs.get(dataset) else {
            // The index of the dataset is only checked with its chunks, of which there are none.
            return Ok(());
        };
        if let (true, Some(first)) = (self.has_failed, chunks.first()) {
            let (name, chunk) = (&spec.name, &first.chunk);
            let message = format!("dataset {name:?}, chunk {chunk:?}: an earlier write failed");
            return Err(Error::invalid(&self.path, message));
        }
        let (compression, dtype) = (spec.compression, spec.dtype);
        let fill = Fill::of(&spec.metadata, dtype);
        let has_zones = self.zones.is_some();
        let encoded = call_on(threads_for(chunks, threads), &self.path, chunks, |one| {
            let cells = one.cells.as_ref();
            let (codec, stored) = match compression {
                Compression::Raw => (Codec::Raw, Cow::Borrowed(cells)),
                Compression::Zstd { level } => {
                    let compressed = zstd::bulk::compress(cells, level);
                    let compressed = compressed.map_err(Error::io(&self.path, "compress"))?;
                    (Codec::Zstd, Cow::Owned(compressed))
                }
            };
            let zone = has_zones.then(|| zone_map::zone(dtype, fill, cells));
            Ok((codec, stored, zone))
        })?;
        for ((one, ordinal), (codec, stored, zone)) in chunks.iter().zip(ordinals).zip(encoded) {
            let row = self.append(one.cells.len(), codec, &stored)?;
            self.chunks.set(dataset, ordinal, row);
            if let (Some(zones), Some(zone)) = (&mut self.zones, zone) {
                zones[dataset][ordinal] = zone;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Self::finish(*self)
    }
}
