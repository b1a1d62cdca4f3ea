//! Writing `.tet` files: footer version 1, chunks in directory and row-major order of the index, payloads in
//! the order in which they arrive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::format::tet::dataset::{Dataset, checked_product};
use crate::format::tet::dtype::Dtype;
use crate::format::tet::footer::{
    self, AxisLabels, DatasetMetadata, FileMetadata, HistoryRow, Metadata,
};
use crate::format::tet::index::{self, ChunkRow, Codec};
use crate::format::tet::superblock::{self, MAX_RANK, align8};

/// Bytes of footer JSON above which the metadata moves to a spill, as in the reference.
const MAX_INLINE_FOOTER: usize = 64 << 10;
/// Labels that an axis may have, as in the reference.
const MAX_LABELS: usize = 64;
/// Bytes collected before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// How the chunks of a dataset are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// The cells themselves, which a reader maps without copying.
    #[default]
    Raw,
    /// One zstd frame per chunk.
    Zstd {
        /// The zstd level; 3 is zstd's own default.
        level: i32,
    },
}

/// A dataset to be written.
#[derive(Debug, Clone)]
pub struct DatasetSpec {
    name: String,
    dtype: Dtype,
    shape: Vec<u64>,
    chunk_shape: Vec<u64>,
    compression: Compression,
    metadata: DatasetMetadata,
}

impl DatasetSpec {
    /// A raw dataset of `shape` cells in chunks of `chunk_shape` cells, which need not divide the shape.
    pub fn new(name: impl Into<String>, dtype: Dtype, shape: &[u64], chunk_shape: &[u64]) -> Self {
        Self {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
            chunk_shape: chunk_shape.to_vec(),
            compression: Compression::default(),
            metadata: DatasetMetadata::default(),
        }
    }

    /// Stores the chunks like this.
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Names the dimensions.
    pub fn with_dim_names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.metadata.dim_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Labels an axis, given by dimension name or decimal number: one label per position, at most 64.
    pub fn with_labels<S: Into<String>>(
        mut self,
        axis: &str,
        labels: impl IntoIterator<Item = S>,
    ) -> Self {
        let labels = labels.into_iter().map(Into::into).collect();
        self.metadata
            .coords
            .insert(axis.to_string(), AxisLabels { labels });
        self
    }

    /// Adds an attribute such as `units` or `_FillValue`.
    pub fn with_attribute(mut self, key: &str, value: &str) -> Self {
        self.metadata
            .attrs
            .insert(key.to_string(), value.to_string());
        self
    }

    fn check(&self, path: &Path) -> Result<()> {
        let invalid =
            |message: String| Error::invalid(path, format!("dataset \"{}\": {message}", self.name));
        if self.name.is_empty() {
            return Err(Error::invalid(path, "a dataset's name is empty"));
        }
        if self.shape.len() != self.chunk_shape.len() || !(1..=MAX_RANK).contains(&self.shape.len())
        {
            return Err(invalid(format!(
                "shape {:?} and chunk shape {:?} must have the same 1 to 8 dimensions",
                self.shape, self.chunk_shape
            )));
        }
        if self.shape.contains(&0) || self.chunk_shape.contains(&0) {
            return Err(invalid(format!(
                "shape {:?} and chunk shape {:?} must be above zero",
                self.shape, self.chunk_shape
            )));
        }
        if checked_product(&self.shape)
            .and_then(|cells| cells.checked_mul(self.dtype.size()))
            .is_none()
        {
            return Err(invalid(format!("shape {:?} is too large", self.shape)));
        }
        let names = &self.metadata.dim_names;
        if !names.is_empty() && names.len() != self.shape.len() {
            return Err(invalid(format!(
                "{} dimension names for {} dimensions",
                names.len(),
                self.shape.len()
            )));
        }
        // A reader could not tell the columns apart.
        if let Some(repeated) = (1..names.len()).find(|n| names[..*n].contains(&names[*n])) {
            return Err(invalid(format!(
                "two dimensions are called \"{}\"",
                names[repeated]
            )));
        }
        for (axis, labels) in &self.metadata.coords {
            if labels.labels.len() > MAX_LABELS {
                return Err(invalid(format!(
                    "{} labels on axis \"{axis}\"; the format allows {MAX_LABELS}, longer axes keep their \
                     coordinates in a dataset of their own",
                    labels.labels.len()
                )));
            }
            let position = names
                .iter()
                .position(|name| name == axis)
                .or_else(|| axis.parse().ok());
            let extent = position.and_then(|position| self.shape.get(position));
            if extent != Some(&(labels.labels.len() as u64)) {
                return Err(invalid(format!(
                    "{} labels on axis \"{axis}\", whose extent is {extent:?}",
                    labels.labels.len()
                )));
            }
        }
        Ok(())
    }
}

/// Writes one `.tet` file: beside the target under a temporary name, synced, and renamed in
/// [`Self::finish`]. A writer that is dropped before leaves nothing behind.
pub struct TetWriter {
    path: PathBuf,
    output: BufWriter<NamedTempFile>,
    position: u64,
    datasets: Vec<Dataset>,
    specs: Vec<DatasetSpec>,
    rows: Vec<Vec<Option<ChunkRow>>>,
    history: Vec<HistoryRow>,
    file_metadata: Option<FileMetadata>,
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
    /// Starts a file that will hold these datasets.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a dataset cannot be written as described, [`Error::Io`] if the temporary file
    /// cannot be made.
    pub fn create(path: impl AsRef<Path>, specs: Vec<DatasetSpec>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let mut datasets = Vec::with_capacity(specs.len());
        let mut rows = Vec::with_capacity(specs.len());
        let mut row_count = 0u64;
        for (id, spec) in specs.iter().enumerate() {
            spec.check(&path)?;
            if specs[..id].iter().any(|earlier| earlier.name == spec.name) {
                return Err(Error::invalid(
                    &path,
                    format!("two datasets are called \"{}\"", spec.name),
                ));
            }
            let dataset = Dataset {
                id: id as u64,
                name: spec.name.clone(),
                dtype_tag: spec.dtype.tag(),
                dtype: Some(spec.dtype),
                shape: spec.shape.clone(),
                chunk_shape: spec.chunk_shape.clone(),
            };
            let chunks = dataset.chunk_count().unwrap_or(u64::MAX);
            let chunks = usize::try_from(chunks)
                .ok()
                .filter(|chunks| *chunks < usize::MAX / index::ROW_BYTES as usize)
                .ok_or_else(|| Error::invalid(&path, "too many chunks"))?;
            row_count += chunks as u64;
            let mut no_rows = Vec::new();
            no_rows.try_reserve_exact(chunks).map_err(|_| {
                Error::invalid(
                    &path,
                    format!(
                        "dataset \"{}\": no memory for the index of {chunks} chunks",
                        spec.name
                    ),
                )
            })?;
            no_rows.resize(chunks, None);
            rows.push(no_rows);
            datasets.push(dataset);
        }
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let temporary = tempfile::Builder::new()
            .prefix(".tet-writing-")
            .suffix(".tmp")
            .permissions_of_new_files()
            .tempfile_in(folder)
            .map_err(Error::io(&path, "create"))?;
        let mut writer = Self {
            path,
            output: BufWriter::with_capacity(BUFFER_BYTES, temporary),
            position: 0,
            datasets,
            specs,
            rows,
            history: Vec::new(),
            file_metadata: None,
        };
        let payloads = if writer.datasets.is_empty() {
            superblock::SUPERBLOCK_BYTES
        } else {
            writer.index_offset() + index::HEADER_BYTES + row_count * index::ROW_BYTES
        };
        writer.seek(payloads)?;
        writer.position = payloads;
        Ok(writer)
    }

    /// Says what wrote the file.
    pub fn set_file_metadata(&mut self, metadata: FileMetadata) {
        self.file_metadata = Some(metadata);
    }

    /// Adds a row of provenance; `at` is in seconds since 1970.
    pub fn push_history(&mut self, op: &str, source: &str, at: u64) {
        self.history.push(HistoryRow {
            op: op.to_string(),
            source: source.to_string(),
            at: at.to_string(),
            ..HistoryRow::default()
        });
    }

    /// Writes one chunk: its cells within the shape, row-major, little-endian.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such chunk, its cells have another length, or it was written before.
    pub fn write_chunk(&mut self, dataset: usize, chunk: &[u64], cells: &[u8]) -> Result<()> {
        let Some((spec, described)) = self.specs.get(dataset).zip(self.datasets.get(dataset))
        else {
            return Err(Error::invalid(
                &self.path,
                format!("no dataset number {dataset}"),
            ));
        };
        let invalid = |message: String| {
            Error::invalid(
                &self.path,
                format!("dataset \"{}\", chunk {chunk:?}: {message}", spec.name),
            )
        };
        let ordinal = (chunk.len() == described.shape.len())
            .then(|| described.chunk_ordinal(chunk))
            .flatten()
            .ok_or_else(|| invalid("outside the chunk grid".to_string()))?
            as usize;
        let raw_bytes = described.chunk_bytes(spec.dtype, chunk);
        if cells.len() as u64 != raw_bytes {
            return Err(invalid(format!(
                "{} bytes of cells, expected {raw_bytes}",
                cells.len()
            )));
        }
        if self.rows[dataset][ordinal].is_some() {
            return Err(invalid("written twice".to_string()));
        }
        let compressed;
        let (codec, stored) = match spec.compression {
            Compression::Raw => (Codec::Raw, cells),
            Compression::Zstd { level } => {
                compressed = zstd::bulk::compress(cells, level)
                    .map_err(Error::io(&self.path, "compress"))?;
                (Codec::Zstd, compressed.as_slice())
            }
        };
        self.output
            .write_all(stored)
            .map_err(Error::io(&self.path, "write"))?;
        self.rows[dataset][ordinal] = Some(ChunkRow {
            payload_offset: self.position,
            raw_bytes,
            stored_bytes: stored.len() as u64,
            codec,
        });
        self.position += stored.len() as u64;
        Ok(())
    }

    /// Writes a whole dataset from its cells, row-major and little-endian.
    ///
    /// # Errors
    /// As [`Self::write_chunk`].
    pub fn write_dataset(&mut self, dataset: usize, cells: &[u8]) -> Result<()> {
        let Some(described) = self.datasets.get(dataset).cloned() else {
            return Err(Error::invalid(
                &self.path,
                format!("no dataset number {dataset}"),
            ));
        };
        let size = self.specs[dataset].dtype.size();
        let expected = described.shape.iter().product::<u64>() * size;
        if cells.len() as u64 != expected {
            return Err(Error::invalid(
                &self.path,
                format!(
                    "dataset \"{}\": {} bytes of cells, expected {expected}",
                    described.name,
                    cells.len()
                ),
            ));
        }
        let grid = described.chunk_grid();
        let mut chunk = vec![0; grid.len()];
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            copy_chunk(&described, size, &chunk, cells, &mut buffer);
            self.write_chunk(dataset, &chunk, &buffer)?;
            if !next_position(&mut chunk, &grid) {
                return Ok(());
            }
        }
    }

    /// Writes index, directory and footer, syncs the file and gives it its name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a chunk was never written; the target is untouched then.
    pub fn finish(mut self) -> Result<()> {
        for (dataset, rows) in self.datasets.iter().zip(&self.rows) {
            if let Some(ordinal) = rows.iter().position(Option::is_none) {
                return Err(Error::invalid(
                    &self.path,
                    format!(
                        "dataset \"{}\": chunk number {ordinal} of {} was never written",
                        dataset.name,
                        rows.len()
                    ),
                ));
            }
        }
        let has_footer = self.write_footer()?;
        self.write_head(has_footer)?;
        let path = self.path;
        let temporary = self
            .output
            .into_inner()
            .map_err(|error| Error::io(&path, "write")(error.into_error()))?;
        temporary
            .as_file()
            .sync_all()
            .map_err(Error::io(&path, "sync"))?;
        temporary
            .persist(&path)
            .map_err(|error| Error::io(&path, "rename the finished file to")(error.error))?;
        sync_folder(&path);
        Ok(())
    }

    fn write_footer(&mut self) -> Result<bool> {
        #[derive(Serialize)]
        struct Spill {
            offset: u64,
            len: u64,
        }
        #[derive(Serialize)]
        struct StoredFooter<'a> {
            history: &'a [HistoryRow],
            #[serde(skip_serializing_if = "Option::is_none")]
            metadata: Option<&'a Metadata>,
            #[serde(skip_serializing_if = "Option::is_none")]
            metadata_ref: Option<Spill>,
        }
        let datasets: BTreeMap<_, _> = self
            .specs
            .iter()
            .filter(|spec| spec.metadata != DatasetMetadata::default())
            .map(|spec| (spec.name.clone(), spec.metadata.clone()))
            .collect();
        let metadata = Metadata {
            file: self.file_metadata.clone(),
            datasets,
        };
        let has_metadata = metadata != Metadata::default();
        if !has_metadata && self.history.is_empty() {
            return Ok(false);
        }
        let json = |path: &Path, value: &StoredFooter<'_>| {
            serde_json::to_vec(value)
                .map_err(|error| Error::io(path, "encode the footer of")(error.into()))
        };
        let mut footer = json(
            &self.path,
            &StoredFooter {
                history: &self.history,
                metadata: has_metadata.then_some(&metadata),
                metadata_ref: None,
            },
        )?;
        let mut spilled = Vec::new();
        if footer.len() > MAX_INLINE_FOOTER && has_metadata {
            spilled = serde_json::to_vec(&metadata)
                .map_err(|error| Error::io(&self.path, "encode the metadata of")(error.into()))?;
            footer = json(
                &self.path,
                &StoredFooter {
                    history: &self.history,
                    metadata: None,
                    metadata_ref: Some(Spill {
                        offset: self.position,
                        len: spilled.len() as u64,
                    }),
                },
            )?;
        }
        let length = footer.len() as u64;
        self.put(&spilled)?;
        self.put(&footer)?;
        self.put(&length.to_le_bytes())?;
        self.put(&footer::FOOTER_VERSION.to_le_bytes())?;
        self.put(&footer::MAGIC)?;
        Ok(true)
    }

    /// Everything before the payloads: superblock, directory, index.
    fn write_head(&mut self, has_footer: bool) -> Result<()> {
        let index_offset = if self.datasets.is_empty() {
            superblock::SUPERBLOCK_BYTES
        } else {
            self.index_offset()
        };
        let row_count: u64 = self.rows.iter().map(|rows| rows.len() as u64).sum();
        let index_length = if self.datasets.is_empty() {
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
        self.put(&(self.datasets.len() as u32).to_le_bytes())?;
        self.put(&flags.to_le_bytes())?;
        self.put(&index_offset.to_le_bytes())?;
        self.put(&index_length.to_le_bytes())?;
        if self.datasets.is_empty() {
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
        let datasets = std::mem::take(&mut self.datasets);
        let rows = std::mem::take(&mut self.rows);
        for (dataset, rows) in datasets.iter().zip(rows) {
            let grid = dataset.chunk_grid();
            let mut chunk = vec![0; grid.len()];
            for row in rows.into_iter().flatten() {
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
                next_position(&mut chunk, &grid);
            }
        }
        Ok(())
    }

    fn records(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for dataset in &self.datasets {
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

/// Temporary files are private by default; a data file should get the permissions that any new file gets.
trait NewFilePermissions {
    fn permissions_of_new_files(&mut self) -> &mut Self;
}

impl NewFilePermissions for tempfile::Builder<'_, '_> {
    #[cfg(unix)]
    fn permissions_of_new_files(&mut self) -> &mut Self {
        use std::os::unix::fs::PermissionsExt;
        // The process's umask is applied to this, as to any other new file.
        self.permissions(std::fs::Permissions::from_mode(0o666))
    }

    #[cfg(not(unix))]
    fn permissions_of_new_files(&mut self) -> &mut Self {
        self
    }
}

/// Makes the new name survive a crash, where the platform can. The file itself is already safe.
fn sync_folder(path: &Path) {
    if let Some(parent) = path.parent()
        && let Ok(folder) = File::open(if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        })
    {
        let _ = folder.sync_all();
    }
}

/// Steps to the next position of a row-major walk over `grid`; false after the last.
fn next_position(position: &mut [u64], grid: &[u64]) -> bool {
    for axis in (0..grid.len()).rev() {
        position[axis] += 1;
        if position[axis] < grid[axis] {
            return true;
        }
        position[axis] = 0;
    }
    false
}

/// Appends the cells of one chunk out of a whole row-major array.
fn copy_chunk(dataset: &Dataset, size: u64, chunk: &[u64], cells: &[u8], buffer: &mut Vec<u8>) {
    let start: Vec<u64> = chunk
        .iter()
        .zip(&dataset.chunk_shape)
        .map(|(position, extent)| position * extent)
        .collect();
    let extent: Vec<u64> = start
        .iter()
        .zip(dataset.shape.iter().zip(&dataset.chunk_shape))
        .map(|(start, (shape, chunk))| (shape - start).min(*chunk))
        .collect();
    let last = extent.len() - 1;
    let run = (extent[last] * size) as usize;
    let mut row = vec![0; last];
    loop {
        let mut offset = 0;
        for (axis, (start, shape)) in start.iter().zip(&dataset.shape).enumerate() {
            let position = start + row.get(axis).copied().unwrap_or(0);
            offset = offset * shape + position;
        }
        let offset = (offset * size) as usize;
        buffer.extend_from_slice(&cells[offset..offset + run]);
        if !next_position(&mut row, &extent[..last]) {
            return;
        }
    }
}
