//! Verification of a whole file: every row of the chunk index, the payloads, the statistics and the
//! footer.
//!
//! Opening a file is fast because it reads and checks only what it needs; [`verify`] checks the
//! rest.

mod arrays;
mod labels;
mod metadata;
mod package;
mod payloads;
mod rows;

pub use arrays::verify_arrays;

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::io::storage::Access;
use crate::format::tet::file::TetFile;
use crate::format::tet::repair::anatomy::Anatomy;

/// Maximum number of findings reported per check.
const MAX_FINDINGS: usize = 20;

/// Options for verifying a file.
#[derive(Debug, Clone, Copy)]
pub struct VerifyOptions {
    /// Decodes all chunks and compares them with the zone maps and value postings. If `false`, only
    /// the first 128 chunks are decoded and compared.
    pub deep: bool,
    /// The access mode for reading the file.
    pub access: Access,
    /// The number of threads that decode chunks.
    pub threads: usize,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            deep: false,
            access: Access::Pread,
            threads: 1,
        }
    }
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// All data can be read, and matches the file's descriptions.
    Warning,
    /// Something cannot be read, or does not match the file's descriptions.
    Error,
}

/// A problem found by a check.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    /// The severity of the problem.
    pub severity: Severity,
    /// The affected dataset, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// The indices of the affected chunk in the chunk grid, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Vec<u64>>,
    /// The value that was found, and the value that was expected.
    pub message: String,
    /// The suggested remedy.
    pub remedy: &'static str,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// The name of the check.
    pub name: &'static str,
    /// The number of warnings found.
    pub warnings: u64,
    /// The number of errors found.
    pub errors: u64,
    /// The scope of the check, or the reason why it was skipped.
    pub note: String,
}

/// The result of verifying a file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// The path as given.
    pub path: PathBuf,
    /// `true` if there are no errors.
    pub ok: bool,
    /// The number of datasets in the file.
    pub datasets: u64,
    /// The number of chunks: for a `.tet` file, of rows in its chunk index.
    pub chunks: u64,
    /// The checks, in the order in which they ran.
    pub checks: Vec<Check>,
    /// The findings of all checks, at most 20 per check.
    pub findings: Vec<Finding>,
}

impl Report {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            ok: true,
            datasets: 0,
            chunks: 0,
            checks: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Starts a check. Later findings belong to it.
    fn begin(&mut self, name: &'static str, note: impl Into<String>) {
        self.checks.push(Check {
            name,
            warnings: 0,
            errors: 0,
            note: note.into(),
        });
    }

    /// Replaces the note of the current check.
    fn note(&mut self, note: impl Into<String>) {
        if let Some(check) = self.checks.last_mut() {
            check.note = note.into();
        }
    }

    fn find(
        &mut self,
        severity: Severity,
        subject: Subject,
        message: String,
        remedy: &'static str,
    ) {
        self.ok &= severity != Severity::Error;
        let Some(check) = self.checks.last_mut() else {
            return;
        };
        match severity {
            Severity::Warning => check.warnings += 1,
            Severity::Error => check.errors += 1,
        }
        if check.warnings + check.errors > MAX_FINDINGS as u64 {
            return;
        }
        let check = check.name;
        self.findings.push(Finding {
            check,
            severity,
            dataset: subject.dataset,
            chunk: subject.chunk,
            message,
            remedy,
        });
    }

    fn error(&mut self, subject: Subject, message: String, remedy: &'static str) {
        self.find(Severity::Error, subject, message, remedy);
    }

    fn warn(&mut self, subject: Subject, message: String, remedy: &'static str) {
        self.find(Severity::Warning, subject, message, remedy);
    }

    /// Reports a read error, as a finding about the dataset and chunk that the error names.
    fn failure(&mut self, error: &Error, remedy: &'static str) {
        let subject = match error {
            Error::Io { location, .. } | Error::Malformed { location, .. } => Subject {
                dataset: location.dataset.clone(),
                chunk: location.chunk.clone(),
            },
            Error::MissingChunk(location) => Subject {
                dataset: location.dataset.clone(),
                chunk: location.chunk.clone(),
            },
            _ => Subject::default(),
        };
        self.error(subject, error.to_string(), remedy);
    }
}

/// The dataset and the chunk that a finding is about.
#[derive(Debug, Clone, Default)]
struct Subject {
    dataset: Option<String>,
    chunk: Option<Vec<u64>>,
}

impl Subject {
    fn dataset(name: &str) -> Self {
        Self {
            dataset: Some(name.to_string()),
            chunk: None,
        }
    }

    fn chunk(name: &str, chunk: &[u64]) -> Self {
        Self {
            chunk: Some(chunk.to_vec()),
            ..Self::dataset(name)
        }
    }
}

/// Formats a number of things, such as `1 row` and `2 rows`.
fn number_of(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

/// Verifies a file, or the current generation of a package. Calls `progress` from time to time,
/// from several threads, with the number of decoded chunks and the number of chunks to decode.
///
/// # Errors
/// Fails if there is no file to verify.
pub fn verify(
    path: &Path,
    options: VerifyOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Report> {
    const BROKEN: &str =
        "restore the file from a copy, or write it again: the description of the data is lost";
    let mut report = Report::new(path);
    let anatomy = Anatomy::of(path, options.access)?;
    report.datasets = anatomy.datasets.len() as u64;
    report.begin(
        "parse",
        "superblock, dataset directory, header of the chunk index",
    );
    let footer_is_broken = anatomy
        .superblock
        .is_some_and(|superblock| superblock.flags & 1 != 0)
        && anatomy.footer.is_none();
    let mut problems = anatomy.problems.iter();
    let of_footer = if footer_is_broken {
        problems.next()
    } else {
        None
    };
    for problem in problems {
        report.failure(problem, BROKEN);
    }
    report.begin("footer", "the metadata at the end of the file");
    if let Some(problem) = of_footer {
        report.failure(
            problem,
            "the data can be read without it: with tet-sql --ignore-footer, or after tet repair",
        );
    }
    let Some(file) = &anatomy.opened else {
        return Ok(report);
    };
    if let Some(package) = file.package() {
        package::check(file, package, &mut report);
    }
    metadata::check_footer(file, &anatomy, &mut report);
    report.chunks = file.chunk_rows();
    report.begin("datasets", number_of(report.datasets, "dataset"));
    check_datasets(file, &mut report);
    let rows = rows::check(file, &anatomy, options.access, &mut report);
    payloads::check(file, &rows, options, progress, &mut report);
    Ok(report)
}

fn check_datasets(file: &TetFile, report: &mut Report) {
    for (position, dataset) in file.datasets().iter().enumerate() {
        let name = dataset.name();
        if name.is_empty() {
            let message = format!("dataset {position} has no name, expected one");
            report.warn(
                Subject::dataset(name),
                message,
                "write it again under a name",
            );
        }
        let first = file.dataset(name).map(|first| first.id());
        if first.is_some_and(|first| first != position as u64) {
            let message = format!(
                "datasets {} and {position} are both called {name:?}, expected different names; only the first \
                 can be queried",
                first.unwrap_or_default()
            );
            report.warn(
                Subject::dataset(name),
                message,
                "write it again under another name",
            );
        }
        if let Err(error) = dataset.check(file.storage().path()) {
            report.failure(
                &error,
                "the dataset cannot be read, the others can; write it again from its source",
            );
        }
    }
}
