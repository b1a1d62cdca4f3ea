//! Verification of array files of any format: opens them and decodes their chunks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;
use crate::format::array::{ArrayFile, ChunkReader, Dataset};
use crate::format::tet::verify::{Report, Severity, Subject, VerifyOptions, number_of};

/// Number of chunks decoded per dataset unless all are requested.
const SOME_CHUNKS: u64 = 128;
/// Number of chunks that a worker claims at a time.
const BATCH: u64 = 16;

/// Verifies an open file of any format: its metadata, its datasets and its chunks.
///
/// Decodes all chunks if `options.deep` is set, else the first 128 of each dataset. Calls
/// `progress` with the number of decoded chunks and the number of chunks to decode.
pub fn verify_arrays(
    file: &Arc<dyn ArrayFile>,
    options: VerifyOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Report {
    let mut report = Report::new(file.path());
    report.datasets = file.datasets().len() as u64;
    report.begin("parse", "the metadata of all arrays");
    for (number, warning) in file.warnings().iter().enumerate() {
        let severity = match file.listing().is_damage(number) {
            true => Severity::Error,
            false => Severity::Warning,
        };
        let remedy = "the rest of the file can be read";
        report.find(severity, Subject::default(), warning.clone(), remedy);
    }
    report.begin("datasets", number_of(report.datasets, "dataset"));
    let mut readable = Vec::new();
    for dataset in file.datasets() {
        match dataset.check(file.path()) {
            Ok(_) => readable.push(dataset),
            Err(error) => report.failure(&error, "the dataset cannot be read, the others can"),
        }
    }
    let counted = readable.iter().map(|dataset| (*dataset, chunks(dataset)));
    let counted: Vec<_> = counted.collect();
    report.chunks = counted
        .iter()
        .fold(0, |all, (_, count)| all.saturating_add(*count));
    let wanted = counted.iter().map(|(dataset, count)| match options.deep {
        true => (*dataset, *count),
        false => (*dataset, SOME_CHUNKS.min(*count)),
    });
    let wanted: Vec<_> = wanted.collect();
    let count = wanted
        .iter()
        .fold(0u64, |all, (_, count)| all.saturating_add(*count));
    let rest = match count < report.chunks {
        true => "; --deep decodes all",
        false => "",
    };
    report.begin(
        "chunk_decode",
        format!("{count} of {} chunks{rest}", report.chunks),
    );
    for error in decode(file, &wanted, count, options, progress) {
        report.failure(
            &error,
            "the chunk cannot be read, others can; write the dataset again from its source",
        );
    }
    if options.deep {
        for error in file.verify_checksums() {
            report.failure(&error, "write the dataset again from its source");
        }
    }
    report
}

/// Returns the number of chunks of a dataset. Saturates at `u64::MAX`.
fn chunks(dataset: &Dataset) -> u64 {
    let grid = dataset.chunk_grid();
    grid.iter()
        .fold(1, |count, along| count.saturating_mul(*along))
}

/// Decodes the first chunks of each dataset on several threads. Returns the errors in chunk order.
fn decode(
    file: &Arc<dyn ArrayFile>,
    wanted: &[(&Dataset, u64)],
    all: u64,
    options: VerifyOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Vec<Error> {
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        let mut reader = ChunkReader::new(Arc::clone(file), options.access);
        loop {
            let start = next.fetch_add(BATCH, Ordering::Relaxed);
            if start >= all {
                return;
            }
            let end = all.min(start.saturating_add(BATCH));
            for number in start..end {
                let mut ordinal = number;
                let dataset = wanted.iter().find(|(_, count)| {
                    let is_here = ordinal < *count;
                    ordinal = if is_here { ordinal } else { ordinal - count };
                    is_here
                });
                let Some((dataset, _)) = dataset else {
                    continue;
                };
                if let Err(error) = decode_chunk(&mut reader, dataset, ordinal) {
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.push((number, error));
                }
            }
            let decoded = done.fetch_add(end - start, Ordering::Relaxed) + end - start;
            progress(decoded, all);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, error)| error).collect()
}

fn decode_chunk(reader: &mut ChunkReader, dataset: &Dataset, ordinal: u64) -> Result<(), Error> {
    reader.open(dataset, &dataset.chunk_at(ordinal))?;
    while !reader.advance()? {}
    Ok(())
}
