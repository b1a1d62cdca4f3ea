//! Conversion of one file format to another, as in `tet convert`.
//!
//! Arrays are copied to arrays chunk by chunk, with their stored cells and attributes. If the input
//! or the output has rows, the conversion is a query and a `COPY`.

mod arrays;
mod copy_blocks;
mod groups;
mod names;
mod options;
mod rows;
mod spacing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use datafusion::common::{Result, exec_err, plan_err};

use crate::format::array::Compression;
use crate::provider::adapters::registry::FormatRegistry;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::catalog::settings::unpack::Unpack;

pub use crate::provider::adapters::file_kind::FileKind;

/// The default memory for cells and rows, in bytes.
const MEMORY: usize = 256 << 20;

/// Options of a conversion.
#[derive(Debug, Clone)]
pub struct ConvertOptions {
    /// The dataset to convert, along with its coordinates. If unset, all datasets of the input. For
    /// an input of rows, the name of the dataset in the output.
    pub dataset: Option<String>,
    /// The extents of a chunk, for arrays with this many dimensions. If unset, the chunk shape of
    /// the input, or, if the input is not chunked, a shape of at most 4 MiB.
    pub chunk: Option<Vec<u64>>,
    /// The compression of chunks. If unset, raw data stays raw and compressed data becomes zstd.
    pub compression: Option<Compression>,
    /// For an input of rows, the columns that are dimensions. For arrays without dimension names,
    /// the names of their dimensions.
    pub dims: Option<Vec<String>>,
    /// Controls unpacking by the attributes `scale_factor` and `add_offset`. [`Unpack::Auto`] keeps
    /// values packed in a Zarr output, which is read with these attributes, and unpacks them
    /// otherwise.
    pub unpack: Unpack,
    /// Embeds zone maps in a `.tet` file.
    pub zone_maps: bool,
    /// Replaces an existing output.
    pub overwrite: bool,
    /// The approximate memory for cells and rows, in bytes. A single chunk may exceed it.
    pub memory: usize,
    /// The number of threads that read and sort rows, and compress chunks.
    pub threads: usize,
    /// Options for reading the input that only its format has, by name.
    pub format_options: BTreeMap<String, String>,
    /// For an output of rows, the options of `COPY` to its format, by name: `sort_key` of documents.
    pub output_options: BTreeMap<String, String>,
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
            format_options: BTreeMap::new(),
            output_options: BTreeMap::new(),
        }
    }
}

impl ConvertOptions {
    /// Returns a warning for each option that has no effect. `is_array` is `true` if the input
    /// holds arrays.
    fn unused(&self, is_array: bool, target: FileKind) -> Vec<String> {
        let has_chunks = target.is_array() && target != FileKind::Npy;
        let options = [
            ("chunk", self.chunk.is_some() && !has_chunks),
            (
                "codec",
                self.compression.is_some() && !has_chunks && !target.is_documents(),
            ),
            (
                "option",
                !self.output_options.is_empty() && target.is_array(),
            ),
            ("zone-maps", self.zone_maps && target != FileKind::Tet),
            (
                "dims",
                self.dims.is_some() && !is_array && !target.is_array(),
            ),
        ];
        let unused = options.into_iter().filter(|(_, is_unused)| *is_unused);
        unused
            .map(|(option, _)| format!("--{option} has no effect for these formats"))
            .collect()
    }

    /// Returns the options for creating array files that only some formats have.
    fn created_with(&self) -> BTreeMap<String, String> {
        let zone_maps = self.zone_maps.then_some(("zone_maps", "true"));
        let options = zone_maps.into_iter();
        options
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    /// Returns the options for reading array files.
    fn read_options(&self) -> ArrayOptions {
        let mut options = ArrayOptions::new().with_unpack(self.unpack);
        options.format_options.clone_from(&self.format_options);
        match &self.dims {
            Some(dims) => options.with_dims(dims.iter().map(String::as_str)),
            None => options,
        }
    }
}

/// The result of a conversion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Converted {
    /// The number of arrays written. Zero if the output has rows.
    pub arrays: usize,
    /// The number of cells or rows written.
    pub cells: u64,
    /// Warnings about options without effect, and about data and attributes that were not kept.
    pub warnings: Vec<String>,
    /// `true` if data of the input were left out because they are damaged.
    pub is_damaged: bool,
}

/// The progress of a conversion, which another thread can observe and cancel.
#[derive(Debug, Default)]
pub struct ConvertProgress {
    done: AtomicU64,
    all: AtomicU64,
    is_cancelled: AtomicBool,
}

impl ConvertProgress {
    /// Returns the number of cells or rows read so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns the total number of cells or rows, or zero while it is unknown.
    pub fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Cancels the conversion. It then fails and leaves no output behind.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Fails if the conversion has been cancelled.
    fn check(&self) -> Result<()> {
        match self.is_cancelled.load(Ordering::Relaxed) {
            true => exec_err!("the conversion was cancelled"),
            false => Ok(()),
        }
    }
}

/// Converts a file.
///
/// The file extensions determine the formats. The format of an array input is recognized by its
/// first bytes. The output is written next to its final path and renamed once it is complete.
///
/// # Errors
/// Fails if the input cannot be read, if it cannot be converted to the output's format, or if the
/// output cannot be written. An error leaves no new output behind, and an existing output stays as
/// it was.
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
    let directory = output.parent();
    let directory = directory.filter(|path| !path.as_os_str().is_empty() && !path.is_dir());
    // Files of rows are written into new directories.
    if let Some(directory) = directory.filter(|_| target.is_array()) {
        return plan_err!(
            "{}: directory {} does not exist",
            output.display(),
            directory.display()
        );
    }
    let is_array = holds_arrays(&split_dataset(input).0)?;
    let unused = options.unused(is_array, target);
    let converted = match (is_array, target.is_array()) {
        (true, true) => arrays::convert(input, target, output, options, progress),
        (false, true) if target == FileKind::Npy => plan_err!(
            "{}: rows cannot be written to NumPy files directly; convert them to .tet or .zarr first",
            output.display()
        ),
        _ => rows::convert(input, is_array, target, output, options, progress).await,
    }?;
    Ok(Converted {
        warnings: unused.into_iter().chain(converted.warnings).collect(),
        ..converted
    })
}

/// Returns `true` if an existing file or directory holds arrays, `false` if it holds rows. The name
/// decides only if the content is not recognized.
fn holds_arrays(path: &Path) -> Result<bool> {
    if let Some(format) = FormatRegistry::default().recognise(path) {
        // Documents are rows, and TileDB arrays may be sparse.
        let keywords = format.keywords();
        return Ok(!["TATAMI", "TILEDB"]
            .iter()
            .any(|keyword| keywords.contains(keyword)));
    }
    match FileKind::by_name(path) {
        Some(kind) => Ok(kind.is_array()),
        // Opening the file reports the error.
        None if path.is_file() => Ok(true),
        None if !path.exists() => plan_err!("{}: no such file or directory", path.display()),
        None => FileKind::of(path).map(FileKind::is_array),
    }
}

/// Splits `file.tet#dataset` into the path and the dataset name. A path that exists is never split.
pub fn split_dataset(input: &Path) -> (PathBuf, Option<String>) {
    match input.to_str().and_then(|text| text.rsplit_once('#')) {
        Some((path, dataset)) if !input.exists() && !dataset.is_empty() => {
            (PathBuf::from(path), Some(dataset.to_string()))
        }
        _ => (input.to_path_buf(), None),
    }
}
