//! From one file format to another, as `tet convert` does.
//!
//! Arrays stay arrays: their cells are copied as they are stored, with what the files say of them, chunk by chunk. Whatever
//! else comes or goes as rows is a query and a `COPY`.

mod arrays;
mod rows;
mod windows;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use datafusion::common::{Result, exec_err, plan_err};

use crate::format::array::Compression;
use crate::provider::catalog::settings::options::TetOptions;
use crate::provider::catalog::settings::unpack::Unpack;

pub use crate::provider::adapters::file_kind::FileKind;

/// Bytes of cells in memory, if nothing else is said.
const MEMORY: usize = 256 << 20;

/// How a file is converted.
#[derive(Debug, Clone)]
pub struct ConvertOptions {
    /// The dataset to take, with its coordinates; all of them, if the output has room.
    pub dataset: Option<String>,
    /// Extents of the chunks of arrays, for those that have as many dimensions. Unset: as in the input, or near 4 MiB if
    /// that has no chunks.
    pub chunk: Option<Vec<u64>>,
    /// How chunks are stored. Unset: raw ones stay raw, others become zstd.
    pub compression: Option<Compression>,
    /// Of rows, the columns that are dimensions; of arrays that name none, their names.
    pub dims: Option<Vec<String>>,
    /// When values are unpacked by the attributes `scale_factor` and `add_offset`. [`Unpack::Auto`] unpacks where the
    /// output is read without them, so that not every array stays as it is stored.
    pub unpack: Unpack,
    /// Whether a `.tet` file embeds zone maps.
    pub zone_maps: bool,
    /// Whether a file that exists is replaced.
    pub overwrite: bool,
    /// Bytes of cells and rows in memory, about. One chunk fits in any case.
    pub memory: usize,
    /// Threads that rows are read and sorted with.
    pub threads: usize,
}

impl Default for ConvertOptions {
    fn default() -> Self {
        Self {
            dataset: None,
            chunk: None,
            compression: None,
            dims: None,
            unpack: Unpack::Auto,
            zone_maps: false,
            overwrite: false,
            memory: MEMORY,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl ConvertOptions {
    /// A warning for each option that means nothing between these formats.
    fn unused(&self, source: FileKind, target: FileKind) -> Vec<String> {
        let has_chunks = target.is_array() && target != FileKind::Npy;
        let options = [
            ("chunk", self.chunk.is_some() && !has_chunks),
            ("codec", self.compression.is_some() && !has_chunks),
            ("zone-maps", self.zone_maps && target != FileKind::Tet),
            (
                "dims",
                self.dims.is_some() && !source.is_array() && !target.is_array(),
            ),
            (
                "dataset",
                self.dataset.is_some() && !source.is_array() && !target.is_array(),
            ),
        ];
        let unused = options.into_iter().filter(|(_, is_unused)| *is_unused);
        unused
            .map(|(option, _)| format!("--{option} means nothing here"))
            .collect()
    }

    /// Returns the options with which array files are read.
    fn read_options(&self) -> TetOptions {
        let options = TetOptions::new().with_unpack(self.unpack);
        match &self.dims {
            Some(dims) => options.with_dims(dims.iter().map(String::as_str)),
            None => options,
        }
    }
}

/// What came of a conversion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Converted {
    /// Arrays that were written; none if the output has rows.
    pub arrays: usize,
    /// Cells or rows that were written.
    pub cells: u64,
    /// What could not be kept.
    pub warnings: Vec<String>,
}

/// How far a conversion has come, for whoever watches it from another thread.
#[derive(Debug, Default)]
pub struct ConvertProgress {
    done: AtomicU64,
    all: AtomicU64,
    is_cancelled: AtomicBool,
}

impl ConvertProgress {
    /// Cells or rows that have been read.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Cells or rows there are; zero as long as that is not known.
    pub fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Asks the conversion to stop, which it does with an error, and leaves nothing behind.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Fails once somebody has asked for that.
    fn check(&self) -> Result<()> {
        match self.is_cancelled.load(Ordering::Relaxed) {
            true => exec_err!("the conversion was cancelled"),
            false => Ok(()),
        }
    }
}

/// Converts a file. Which formats are meant, the names say, and of an input with arrays its first bytes. The output is
/// written beside its place and renamed in the end.
///
/// # Errors
/// If the input cannot be read, cannot be what the output is to be, or the output cannot be written; then there is no output,
/// and one that was there before is as it was.
pub async fn convert(
    input: &Path,
    output: &Path,
    options: &ConvertOptions,
    progress: &ConvertProgress,
) -> Result<Converted> {
    let target = FileKind::of(output)?;
    if !options.overwrite && output.exists() {
        return plan_err!(
            "{} exists already; --overwrite replaces it",
            output.display()
        );
    }
    let source = FileKind::of_input(&split_dataset(input).0)?;
    let unused = options.unused(source, target);
    let converted = match (source.is_array(), target.is_array()) {
        (true, true) => arrays::convert(input, target, output, options, progress),
        (false, true) if target == FileKind::Npy => plan_err!(
            "{}: rows are not written as NumPy's files; convert them to .tet or .zarr, and that to this",
            output.display()
        ),
        _ => rows::convert(input, source, target, output, options, progress).await,
    }?;
    Ok(Converted {
        warnings: unused.into_iter().chain(converted.warnings).collect(),
        ..converted
    })
}

/// The path of an input, and the dataset that it names behind a `#`, if there is no such file.
pub fn split_dataset(input: &Path) -> (PathBuf, Option<String>) {
    match input.to_str().and_then(|text| text.rsplit_once('#')) {
        Some((path, dataset)) if !input.exists() && !dataset.is_empty() => {
            (PathBuf::from(path), Some(dataset.to_string()))
        }
        _ => (input.to_path_buf(), None),
    }
}
