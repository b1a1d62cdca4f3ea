//! The formats that `COPY` and `tet convert` can write, by file name.

use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "cli")]
use datafusion::common::{Result, plan_err};

use crate::provider::adapters::create::CreateArrays;
use crate::provider::adapters::registry::FormatRegistry;

/// A file format that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// `.tet`.
    Tet,
    /// `.npy` and `.npz`.
    Npy,
    /// `.zarr`, a directory.
    #[cfg(feature = "zarr")]
    Zarr,
    /// `.parquet`.
    Parquet,
    /// `.csv`, with a header row.
    Csv,
    /// `.tsv`: CSV with tabs instead of commas.
    Tsv,
    /// `.json`, `.ndjson` and `.jsonl`: one object per line, or one array of objects.
    Json,
    /// `.arrow` and `.feather`: Arrow's IPC file format.
    Arrow,
    /// `.tatami`: documents.
    #[cfg(feature = "tatami")]
    Tatami,
}

/// File name extensions of the formats.
const EXTENSIONS: &[(&str, FileKind)] = &[
    ("tet", FileKind::Tet),
    #[cfg(feature = "zarr")]
    ("zarr", FileKind::Zarr),
    ("npy", FileKind::Npy),
    ("npz", FileKind::Npy),
    ("parquet", FileKind::Parquet),
    ("csv", FileKind::Csv),
    ("tsv", FileKind::Tsv),
    ("json", FileKind::Json),
    ("ndjson", FileKind::Json),
    ("jsonl", FileKind::Json),
    ("arrow", FileKind::Arrow),
    ("feather", FileKind::Arrow),
    #[cfg(feature = "tatami")]
    ("tatami", FileKind::Tatami),
];

#[cfg(feature = "cli")]
impl FileKind {
    /// Returns the format that the extension of a file name stands for.
    ///
    /// # Errors
    /// Returns an error if the extension is unknown.
    pub fn of(path: &Path) -> Result<Self> {
        if let Some(kind) = Self::by_name(path) {
            return Ok(kind);
        }
        let known: Vec<_> = EXTENSIONS
            .iter()
            .map(|(extension, _)| format!(".{extension}"))
            .collect();
        plan_err!(
            "{}: unknown file extension, expected one of {}",
            path.display(),
            known.join(", ")
        )
    }

    /// Returns `true` for `.tatami`.
    pub(in crate::provider) fn is_documents(self) -> bool {
        match self {
            #[cfg(feature = "tatami")]
            Self::Tatami => true,
            _ => false,
        }
    }
}

impl FileKind {
    /// Returns the format that the extension of a file name stands for; `None` if the extension is
    /// unknown.
    pub(in crate::provider) fn by_name(path: &Path) -> Option<Self> {
        let extension = path.extension()?;
        let mut known = EXTENSIONS.iter();
        let (_, kind) = known.find(|(one, _)| extension.eq_ignore_ascii_case(one))?;
        Some(*kind)
    }

    /// Returns `true` if files of this format hold arrays rather than rows.
    pub fn is_array(self) -> bool {
        self.creator().is_some()
    }

    /// Returns what creates array files of this format; `None` if the format holds rows.
    pub(in crate::provider) fn creator(self) -> Option<Arc<dyn CreateArrays>> {
        let formats = FormatRegistry::default();
        let mut formats = formats.formats().iter();
        let format = formats.find(|format| format.keywords().contains(&self.stored_as()))?;
        format.creator()
    }

    /// The keyword after `STORED AS`.
    pub(in crate::provider) fn stored_as(self) -> &'static str {
        match self {
            Self::Tet => "TET",
            Self::Npy => "NPY",
            #[cfg(feature = "zarr")]
            Self::Zarr => "ZARR",
            Self::Parquet => "PARQUET",
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Json => "JSON",
            Self::Arrow => "ARROW",
            #[cfg(feature = "tatami")]
            Self::Tatami => "TATAMI",
        }
    }
}
