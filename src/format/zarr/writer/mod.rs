//! Writing Zarr hierarchies: a folder per array, a file per chunk, the metadata last.

mod documents;
mod place;
mod plan;

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::array::{ArrayWriter, Chunks, Dataset, DatasetSpec};
use crate::format::io::target::{self, TemporaryFolder};
use crate::format::zarr::writer::plan::Plan;

/// A version of the Zarr format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ZarrVersion {
    /// Version 2, which older programs read.
    V2,
    /// Version 3.
    #[default]
    V3,
}

/// How a hierarchy is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZarrWriteOptions {
    /// The version of the format.
    pub version: ZarrVersion,
}

/// Writes one Zarr hierarchy: into a temporary folder beside the target, which gets the target's name in
/// [`Self::finish`]. A writer that is dropped before leaves nothing behind.
///
/// Datasets become arrays, and what is before a slash in their names becomes groups. Dimension names are kept
/// as xarray reads them, and so is the attribute `_FillValue`. `scale_factor`, `add_offset`, `valid_min`,
/// `valid_max` and `missing_value` are written as numbers where they are numbers, all other attributes as
/// text. A dataset of `i64` codes with the attribute `tetration_categories` is written as the texts that
/// these stand for, and its missing cells as empty text. Metadata is consolidated.
pub struct ZarrWriter {
    path: PathBuf,
    folder: TemporaryFolder,
    version: ZarrVersion,
    plans: Vec<Plan>,
    chunks: Chunks<()>,
    /// By array, missing texts that became empty ones.
    missing_texts: Vec<usize>,
}

impl std::fmt::Debug for ZarrWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZarrWriter")
            .field("path", &self.path)
            .field("arrays", &self.plans)
            .finish_non_exhaustive()
    }
}

impl ZarrWriter {
    /// Starts a hierarchy of these arrays. Chunk extents beyond the shape are clipped to it. A shape may have no
    /// dimension, for a single number, and extents of zero.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an array cannot be written as described, if it has labels, which Zarr has no
    /// place for, or if something else than a Zarr hierarchy is in the target's place; [`Error::Io`] if the
    /// temporary folder cannot be made.
    pub fn create(
        path: impl AsRef<Path>,
        specs: Vec<DatasetSpec>,
        options: ZarrWriteOptions,
    ) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        place::check_target(&path)?;
        let plans = specs.into_iter().map(|spec| Plan::of(&path, spec));
        let plans: Vec<Plan> = plans.collect::<Result<_>>()?;
        plan::check_names(&path, &plans)?;
        let datasets = plans.iter().enumerate();
        let datasets = datasets.map(|(number, plan)| plan.dataset(number));
        let chunks = Chunks::new(&path, datasets.collect())?;
        let folder = target::create_folder_beside(&path)?;
        Ok(Self {
            path,
            folder,
            version: options.version,
            chunks,
            missing_texts: vec![0; plans.len()],
            plans,
        })
    }

    /// Writes one chunk: its cells within the shape, row-major, little-endian.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such chunk, its cells have another length, it was written before, or
    /// a code has no text; [`Error::Io`] if it cannot be written.
    pub fn write_chunk(&mut self, dataset: usize, chunk: &[u64], cells: &[u8]) -> Result<()> {
        let (described, ordinal) = self.chunks.check(&self.path, dataset, chunk, cells)?;
        let plan = &self.plans[dataset];
        let (_, extents) = described.chunk_place(chunk);
        let encoded = plan.encode(cells, &extents);
        let bytes = encoded.map_err(|message| {
            let message = format!("dataset {:?}, chunk {chunk:?}: {message}", plan.name);
            Error::invalid(&self.path, message)
        })?;
        self.missing_texts[dataset] += plan.missing_texts(cells);
        let key = documents::chunk_key(self.version, chunk);
        let file = self.folder.path().join(&plan.name).join(key);
        place::write(&self.path, &file, &bytes)?;
        self.chunks.set(dataset, ordinal, ());
        Ok(())
    }

    /// Writes all chunks of a dataset from its whole array, row-major, little-endian.
    ///
    /// # Errors
    /// Those of [`Self::write_chunk`].
    pub fn write_dataset(&mut self, dataset: usize, cells: &[u8]) -> Result<()> {
        ArrayWriter::write_dataset(self, dataset, cells)
    }

    /// Writes the metadata and gives the folder its name. A hierarchy that was there before is replaced: at once where the
    /// system can exchange names (Linux and macOS, on most file systems), else with a moment between two renames in which
    /// there is none. Files are left to the system to be brought to the disk.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a chunk was never written, or something else than a Zarr hierarchy is in the
    /// target's place; [`Error::Io`] if the metadata cannot be written or the folder not be renamed. The
    /// target is untouched then; if it cannot even be put back, the error says where it is.
    pub fn finish(self) -> Result<()> {
        self.chunks.check_all(&self.path)?;
        for (name, document) in documents::all(self.version, &self.plans) {
            let bytes = documents::bytes(&document);
            place::write(&self.path, &self.folder.path().join(name), &bytes)?;
        }
        place::persist(self.folder, &self.path)
    }
}

impl ArrayWriter for ZarrWriter {
    fn path(&self) -> &Path {
        &self.path
    }

    fn dataset(&self, number: usize) -> Option<&Dataset> {
        self.chunks.datasets().get(number)
    }

    fn write_chunk(&mut self, dataset: usize, chunk: &[u64], cells: &[u8]) -> Result<()> {
        self.write_chunk(dataset, chunk, cells)
    }

    fn warnings(&self) -> Vec<String> {
        let plans = self.plans.iter().zip(&self.missing_texts);
        let lossy = plans.filter(|(_, missing)| **missing > 0);
        lossy
            .map(|(plan, missing)| {
                format!(
                    "{}, dataset {:?}: {missing} missing texts become empty ones",
                    self.path.display(),
                    plan.name
                )
            })
            .collect()
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Self::finish(*self)
    }
}
