//! The options of the benchmark.

use std::path::PathBuf;
use std::thread::available_parallelism;

use crate::Result;

/// The sizes of the arrays and tables to query.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// The extents of the array over time, lat, lon.
    pub shape: [u64; 3],
    /// The extents of the array's chunks.
    pub chunk_shape: [u64; 3],
    /// The side length of the square that slice queries select from one time.
    pub slice_side: u64,
    /// The number of chunks along each of the first two axes of the file of many chunks.
    pub many_chunks_side: u64,
    /// The number of files in the table of many files.
    pub files: u64,
    /// The number of documents.
    pub documents: u64,
}

const FULL: Size = Size {
    shape: [1000, 512, 512],
    chunk_shape: [10, 256, 256],
    slice_side: 100,
    many_chunks_side: 1000,
    files: 10_000,
    documents: 1_000_000,
};

const QUICK: Size = Size {
    shape: [40, 128, 128],
    chunk_shape: [10, 64, 64],
    slice_side: 20,
    many_chunks_side: 100,
    files: 100,
    documents: 5_000,
};

/// The options given by arguments and environment.
#[derive(Debug)]
pub struct Options {
    pub size: Size,
    pub threads: usize,
    pub runs: usize,
    pub folder: PathBuf,
    /// `true` to measure only the documents.
    pub only_documents: bool,
    /// Only measurements whose names contain one of these are run. If empty, all are.
    filters: Vec<String>,
}

const USAGE: &str = "cargo bench -- [--quick] [--threads N] [--runs N] [--data DIRECTORY] [--documents N] [SUBSTRING OF \"QUERY, DATA\" ...]";

impl Options {
    /// Reads arguments first, then `TET_SQL_BENCH_{QUICK,THREADS,RUNS,DATA,DOCUMENTS}`.
    /// `--documents N` measures only documents, `N` of them.
    pub fn from_environment() -> Result<Self> {
        let variable = |name: &str| std::env::var(format!("TET_SQL_BENCH_{name}")).ok();
        let mut quick = variable("QUICK").is_some_and(|value| !value.is_empty() && value != "0");
        let mut threads = variable("THREADS");
        let mut runs = variable("RUNS");
        let mut folder = variable("DATA");
        let mut documents = variable("DOCUMENTS");
        let mut filters = Vec::new();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let missing = || format!("{argument} wants a value; usage: {USAGE}");
                arguments.next().ok_or_else(missing)
            };
            match argument.as_str() {
                "--quick" => quick = true,
                "--threads" => threads = Some(value()?),
                "--runs" => runs = Some(value()?),
                "--data" => folder = Some(value()?),
                "--documents" => documents = Some(value()?),
                // Cargo passes this to every benchmark.
                "--bench" => {}
                _ if argument.starts_with('-') => {
                    return Err(format!("unknown option {argument}; usage: {USAGE}").into());
                }
                _ => filters.push(argument),
            }
        }
        let number = |text: Option<String>, default: usize| match text {
            None => Ok(default),
            Some(text) => text
                .parse()
                .ok()
                .filter(|number| *number > 0)
                .ok_or_else(|| format!("{text} is no number above zero; usage: {USAGE}")),
        };
        let only_documents = documents.is_some();
        let mut size = if quick { QUICK } else { FULL };
        size.documents = number(documents, size.documents as usize)? as u64;
        Ok(Self {
            size,
            only_documents,
            threads: number(threads, available_parallelism()?.get())?,
            runs: number(runs, 5)?,
            folder: folder.map_or_else(
                || PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("queries"),
                PathBuf::from,
            ),
            filters,
        })
    }

    /// Returns `true` if a measurement of this name is to be run.
    pub fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }
}
