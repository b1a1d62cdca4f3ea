//! Writes Zarr hierarchies: a directory per array, a file per chunk, and the metadata last.

mod documents;
mod output;
mod plan;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::array::{
    ArrayWriter, ChunkCells, Chunks, Dataset, DatasetSpec, GroupAttributes, groups_of, threads_for,
};
use crate::format::io::parallel::call_on;
use crate::format::io::target::{self, TemporaryDirectory};
use crate::format::zarr::metadata::json::MAX_BYTES;
use crate::format::zarr::writer::plan::Plan;

/// A version of the Zarr format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ZarrVersion {
    /// Version 2, which older programs can read.
    V2,
    /// Version 3.
    #[default]
    V3,
}

/// Options for writing a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZarrWriteOptions {
    /// The version of the format.
    pub version: ZarrVersion,
}

/// Writes one Zarr hierarchy into a temporary directory beside the target, which gets the target's
/// name in [`Self::finish`]. Dropping an unfinished writer deletes the directory.
///
/// - Datasets become arrays, and the prefixes of their names before slashes become groups.
/// - Dimension names and `_FillValue` are written as xarray reads them.
/// - The attributes that the CF conventions define as numbers are written as numbers, JSON lists of numbers
///   or texts as lists, and all other attributes as text.
/// - A dataset of `i64` codes with the attribute `tetration_categories` is written as strings if it
///   has at most 65,536 cells. Null becomes an empty string.
/// - The metadata is consolidated.
pub struct ZarrWriter {
    path: PathBuf,
    folder: TemporaryDirectory,
    version: ZarrVersion,
    plans: Vec<Plan>,
    groups: GroupAttributes,
    /// The groups with attributes whose names cannot be directories, and without arrays.
    unfit_groups: Vec<String>,
    chunks: Chunks<()>,
    /// For each array, the number of nulls written as empty strings.
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
    /// Starts a hierarchy of the described arrays.
    ///
    /// Chunk extents beyond the shape are clipped to it. A shape may be empty, for a scalar, and
    /// extents may be zero.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an array cannot be written as described, if it has labels, which Zarr
    /// cannot store, or if the target exists and is anything but a Zarr hierarchy without other
    /// files; [`Error::Io`] if the temporary directory cannot be created.
    pub fn create(
        path: impl AsRef<Path>,
        specs: Vec<DatasetSpec>,
        options: ZarrWriteOptions,
    ) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        output::check_target(&path)?;
        let plans = specs.into_iter().map(|spec| Plan::of(&path, spec));
        let plans: Vec<Plan> = plans.collect::<Result<_>>()?;
        plan::check_names(&path, &plans)?;
        let datasets = plans.iter().enumerate();
        let datasets = datasets.map(|(number, plan)| plan.dataset(number));
        let chunks = Chunks::new(&path, datasets.collect())?;
        let folder = target::create_directory_beside(&path)?;
        Ok(Self {
            path,
            folder,
            version: options.version,
            chunks,
            missing_texts: vec![0; plans.len()],
            plans,
            groups: GroupAttributes::new(),
            unfit_groups: Vec::new(),
        })
    }

    /// Sets the attributes of groups, by the path of the group, which is empty for the root. Groups
    /// without arrays are written too, except for those whose names cannot be directories beside those of
    /// the arrays, which gives a [warning](ArrayWriter::warnings).
    #[must_use]
    pub fn with_group_attributes(mut self, groups: GroupAttributes) -> Self {
        let arrays: HashSet<_> = self.plans.iter().map(|plan| plan.name.as_str()).collect();
        let is_fit = |name: &str| {
            let mut around = groups_of(name).chain([name]);
            name.is_empty()
                || plan::check_name(name).is_ok() && !around.any(|name| arrays.contains(name))
        };
        let (fit, unfit): (GroupAttributes, GroupAttributes) =
            groups.into_iter().partition(|(name, _)| is_fit(name));
        self.groups = fit;
        self.unfit_groups = unfit.into_keys().collect();
        self
    }

    /// Writes one chunk: its cells clipped to the shape, row-major and little-endian.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such chunk, `cells` has the wrong length, the chunk was
    /// written before, or a code has no text; [`Error::Io`] if the chunk cannot be written.
    pub fn write_chunk(&mut self, dataset: usize, chunk: &[u64], cells: &[u8]) -> Result<()> {
        let only = ChunkCells {
            chunk: chunk.to_vec(),
            cells: Cow::Borrowed(cells),
        };
        self.write_chunks(dataset, &[only], 1)
    }

    /// Writes all chunks of a dataset from its cells, row-major and little-endian.
    ///
    /// # Errors
    /// Returns the errors of [`Self::write_chunk`].
    pub fn write_dataset(&mut self, dataset: usize, cells: &[u8]) -> Result<()> {
        ArrayWriter::write_dataset(self, dataset, cells)
    }

    /// Writes the metadata and gives the directory the target's name.
    ///
    /// An existing hierarchy is replaced atomically where the system can exchange two names (Linux
    /// and macOS, on most file systems). Elsewhere, the replacement takes two renames, and readers
    /// may briefly not find the hierarchy. Files are not synced to disk.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a chunk was never written, if a metadata document is too long for readers, or if
    /// the target exists and is anything but a Zarr hierarchy without other files; [`Error::Io`] if the
    /// metadata cannot be written or the directory cannot be renamed. The target is then untouched. If the old
    /// hierarchy was moved aside and cannot be moved back, the error names its path.
    pub fn finish(self) -> Result<()> {
        self.chunks.check_all(&self.path)?;
        for (name, document) in documents::all(self.version, &self.plans, &self.groups) {
            let bytes = documents::bytes(&document);
            if bytes.len() as u64 > MAX_BYTES {
                let message = format!(
                    "the metadata document {name:?} would have {} bytes, but readers accept at most {MAX_BYTES}; \
                     write fewer arrays, or shorter attributes and texts",
                    bytes.len()
                );
                return Err(Error::invalid(&self.path, message));
            }
            output::write(&self.path, &self.folder.path().join(name), &bytes)?;
        }
        output::persist(self.folder, &self.path)
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

    fn write_chunks(
        &mut self,
        dataset: usize,
        chunks: &[ChunkCells<'_>],
        threads: usize,
    ) -> Result<()> {
        let ordinals = self.chunks.check_each(&self.path, dataset, chunks)?;
        let Some((plan, described)) = self.plans.get(dataset).zip(self.dataset(dataset)) else {
            // The index of the dataset is only checked with its chunks, of which there are none.
            return Ok(());
        };
        let notes = call_on(threads_for(chunks, threads), &self.path, chunks, |one| {
            let ChunkCells { chunk, cells } = one;
            let (_, extents) = described.chunk_bounds(chunk);
            let encoded = plan.encode(cells, &extents);
            let bytes = encoded.map_err(|message| {
                let message = format!("dataset {:?}, chunk {chunk:?}: {message}", plan.name);
                Error::invalid(&self.path, message)
            })?;
            let key = documents::chunk_key(self.version, chunk);
            let file = self.folder.path().join(&plan.name).join(key);
            output::write(&self.path, &file, &bytes)?;
            Ok((plan.has_default_fill(cells), plan.missing_texts(cells)))
        })?;
        for (ordinal, (has_default_fill, missing_texts)) in ordinals.into_iter().zip(notes) {
            self.chunks.set(dataset, ordinal, ());
            self.missing_texts[dataset] += missing_texts;
            if has_default_fill {
                self.plans[dataset].set_default_fill();
            }
        }
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let plans = self.plans.iter().zip(&self.missing_texts);
        let lossy = plans.filter(|(_, missing)| **missing > 0);
        let path = self.path.display();
        let lossy = lossy.map(|(plan, missing)| {
            let name = &plan.name;
            format!("{path}, dataset {name:?}: {missing} null strings are written as empty strings")
        });
        let groups = self.unfit_groups.iter().map(|name| {
            format!("{path}, group {name:?}: its name cannot be a path of directories; its attributes are left out")
        });
        lossy.chain(groups).collect()
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Self::finish(*self)
    }
}
