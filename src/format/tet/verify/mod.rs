//! Checking a file as a whole: every row of its index, every payload, its footer and what it says of its values.
//!
//! Opening a file is quick since it trusts what it need not look at; this looks at all of it.

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

/// The most findings of one check that are spelled out.
const MOST_FINDINGS: usize = 20;

/// How a file is checked.
#[derive(Debug, Clone, Copy)]
pub struct VerifyOptions {
    /// Whether every chunk is decoded, and compared with zone maps and value postings. Else only the first 128 are.
    pub deep: bool,
    /// How the file is read.
    pub access: Access,
    /// Threads that decode.
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

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The data can be read, and are what they seem.
    Warning,
    /// Something cannot be read, or is not what it seems.
    Error,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The check that found it.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The dataset, where one is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// The chunk's position in the chunk grid, where one is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Vec<u64>>,
    /// What was found, and what was expected.
    pub message: String,
    /// What can be done.
    pub remedy: &'static str,
}

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Warnings it has found.
    pub warnings: u64,
    /// Errors it has found.
    pub errors: u64,
    /// What it looked at, or why it did not.
    pub note: String,
}

/// What is to be said of a file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// As it was given.
    pub path: PathBuf,
    /// Whether there is no error.
    pub ok: bool,
    /// Datasets in the directory.
    pub datasets: u64,
    /// Rows in the chunk index.
    pub chunks: u64,
    /// The checks, in their order.
    pub checks: Vec<Check>,
    /// What they have found, at most 20 each.
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

    /// Begins a check; what is found from here on is its.
    fn begin(&mut self, name: &'static str, note: impl Into<String>) {
        self.checks.push(Check {
            name,
            warnings: 0,
            errors: 0,
            note: note.into(),
        });
    }

    /// Adds to what the check says of itself.
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
        if check.warnings + check.errors > MOST_FINDINGS as u64 {
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

    /// Notes an error of reading, which says where it is itself.
    fn failure(&mut self, error: &Error, remedy: &'static str) {
        let subject = match error {
            Error::Io { place, .. } | Error::Malformed { place, .. } => Subject {
                dataset: place.dataset.clone(),
                chunk: place.chunk.clone(),
            },
            Error::MissingChunk(place) => Subject {
                dataset: place.dataset.clone(),
                chunk: place.chunk.clone(),
            },
            _ => Subject::default(),
        };
        self.error(subject, error.to_string(), remedy);
    }
}

/// What a finding is about.
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

/// Checks a file, or the current generation of a package. `progress` is told, now and then and from several threads, how
/// many chunks of how many are decoded.
///
/// # Errors
/// If there is no file to look at.
pub fn verify(
    path: &Path,
    options: VerifyOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Report> {
    const BROKEN: &str =
        "restore the file from a copy, or make it again: what describes the data is lost";
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
    report.begin("footer", "what describes the data at the end of the file");
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
    report.begin("datasets", format!("{} datasets", report.datasets));
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
                "datasets {} and {position} are both called {name:?}, expected different names; only the first can be asked for",
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
