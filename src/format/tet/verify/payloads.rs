//! Checks that payloads do not overlap, can be decoded, and match the zone maps and value postings.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;
use crate::format::array::{
    ChunkReader, ChunkStatistics, ChunkSummary, Dataset, DatasetMetadata, DatasetPostings, Dtype,
    Fill, ValueIndex,
};
use crate::format::tet::file::TetFile;
use crate::format::tet::statistics::postings::ValuePostings;
use crate::format::tet::statistics::zone_maps::ZoneMaps;
use crate::format::tet::verify::rows::Row;
use crate::format::tet::verify::{Report, Subject, VerifyOptions, labels};
use crate::format::tet::writer::zone_map;

/// Number of chunks decoded unless all are requested.
const SHALLOW_CHUNKS: usize = 128;
/// Number of chunks between two progress reports.
const PROGRESS_EVERY: u64 = 64;

const UNDECODABLE: &str =
    "the chunk cannot be read, others can; write the dataset again from its source";
const STALE: &str = "queries may miss rows: run tet repair, or SET tet.zone_maps = false";

const STALE_LABELS: &str =
    "tet-sql does not use it, but queries of other readers may miss rows: tet repair drops it";

/// The zone maps and value postings of a file, to be compared with the cells.
struct Indexes {
    zone_maps: Option<Arc<ZoneMaps>>,
    postings: Option<Arc<ValuePostings>>,
}

/// Checks the payloads of `rows`.
pub(super) fn check(
    file: &Arc<TetFile>,
    rows: &[Row],
    options: VerifyOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
    report: &mut Report,
) {
    check_payload_ranges(file, rows, report);
    report.begin("zone_maps", "the min and max of each chunk");
    let zone_maps = file.zone_maps(options.access);
    let postings = file.value_postings(options.access);
    let indexes = Indexes {
        zone_maps: zone_maps.as_ref().ok().and_then(Option::clone),
        postings: postings.as_ref().ok().and_then(Option::clone),
    };
    let count = match options.deep {
        true => rows.len(),
        false => rows.len().min(SHALLOW_CHUNKS),
    };
    let found = decode(file, &rows[..count], &indexes, options, progress);
    let checked = format!("{count} of {} chunks", rows.len());
    let compared = format!("{checked} compared with their cells");
    let stale = |report: &mut Report, message_of: fn(&ChunkProblem) -> Option<&String>| {
        for (row, found) in &found {
            if let Some(message) = message_of(found) {
                let dataset = &file.datasets()[row.dataset as usize];
                let subject = Subject::chunk(dataset.name(), &dataset.chunk_at(row.ordinal));
                report.error(subject, message.clone(), STALE);
            }
        }
    };
    match &zone_maps {
        Ok(Some(_)) => report.note(compared.clone()),
        Ok(None) => report.note("the file has none"),
        Err(error) => report.failure(error, STALE),
    }
    stale(report, |found| match found {
        ChunkProblem::StaleZone(message) => Some(message),
        _ => None,
    });
    report.begin("secondary_index", "postings of the values of chunks");
    match &postings {
        Ok(Some(_)) => {
            report.note(compared);
            match labels::check(file, options.access) {
                Ok(found) => {
                    for (dataset, message) in found {
                        report.error(Subject::dataset(&dataset), message, STALE_LABELS);
                    }
                }
                Err(error) => report.failure(&error, STALE_LABELS),
            }
        }
        Ok(None) => report.note("the file has none"),
        Err(error) => report.failure(error, STALE),
    }
    stale(report, |found| match found {
        ChunkProblem::StalePostings(message) => Some(message),
        _ => None,
    });
    let rest = match count < rows.len() {
        true => "; --deep decodes all",
        false => "",
    };
    report.begin("chunk_decode", format!("{checked}{rest}"));
    for (_, found) in &found {
        if let ChunkProblem::Undecodable(error) = found {
            report.failure(error, UNDECODABLE);
        }
    }
}

/// Checks that payloads do not overlap, and that they are in index order.
fn check_payload_ranges(file: &TetFile, rows: &[Row], report: &mut Report) {
    report.begin("payload_overlaps", "payloads do not overlap");
    let subject = |row: &Row| {
        let dataset = &file.datasets()[row.dataset as usize];
        Subject::chunk(dataset.name(), &dataset.chunk_at(row.ordinal))
    };
    let mut order: Vec<&Row> = rows.iter().filter(|row| row.stored > 0).collect();
    order.sort_by_key(|row| (row.offset, row.stored));
    let mut last: Option<&Row> = None;
    for row in order {
        if let Some(before) = last
            && row.offset < before.offset + before.stored
        {
            let other = subject(before);
            let message = format!(
                "bytes {} to {} are also part of chunk {:?} of dataset {:?}, expected payloads that do not overlap",
                row.offset,
                (row.offset + row.stored).min(before.offset + before.stored),
                other.chunk.unwrap_or_default(),
                other.dataset.unwrap_or_default()
            );
            report.error(
                subject(row),
                message,
                "at most one of both is right; write the datasets again from their source",
            );
        }
        let end = |row: &Row| row.offset + row.stored;
        if last.is_none_or(|before| end(row) > end(before)) {
            last = Some(row);
        }
    }
    report.begin("payload_order", "payloads are in index order");
    let is_sorted = rows.is_sorted_by_key(|row| row.offset);
    if !is_sorted {
        report.warn(
            Subject::default(),
            "payloads are not in the order of the chunk index".to_string(),
            "harmless, but slower to read from disks with slow seeks",
        );
    }
}

/// A problem of one chunk.
enum ChunkProblem {
    Undecodable(Error),
    StaleZone(String),
    StalePostings(String),
}

/// Decodes chunks on several threads. Returns the problems in row order.
fn decode(
    file: &Arc<TetFile>,
    rows: &[Row],
    indexes: &Indexes,
    options: VerifyOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Vec<(Row, ChunkProblem)> {
    let next = AtomicUsize::new(0);
    let done = AtomicU64::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        let mut reader = ChunkReader::new(Arc::<TetFile>::clone(file), options.access);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = rows.get(number) else {
                return;
            };
            let dataset = &file.datasets()[row.dataset as usize];
            let metadata = file.metadata(dataset);
            let what = decode_one(&mut reader, dataset, metadata, row, indexes, options);
            if !what.is_empty() {
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.extend(what.into_iter().map(|what| (number, *row, what)));
            }
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(PROGRESS_EVERY) || done == rows.len() as u64 {
                progress(done, rows.len() as u64);
            }
        }
    };
    let threads = options.threads.clamp(1, rows.len().max(1));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(number, ..)| *number);
    found
        .into_iter()
        .map(|(_, row, what)| (row, what))
        .collect()
}

/// Decodes one chunk and compares its cells with the statistics. Returns all problems found.
fn decode_one(
    reader: &mut ChunkReader,
    dataset: &Dataset,
    metadata: Option<&DatasetMetadata>,
    row: &Row,
    indexes: &Indexes,
    options: VerifyOptions,
) -> Vec<ChunkProblem> {
    let chunk = dataset.chunk_at(row.ordinal);
    let zone = indexes.zone_maps.as_ref();
    let zone = zone.and_then(|zone_maps| zone_maps.summary(dataset, &chunk));
    let postings = indexes.postings.as_ref();
    let postings = postings.and_then(|postings| postings.of(dataset));
    // Read errors show only when bytes are read, so `deep` reads the cells even without statistics.
    let is_read = options.deep || zone.is_some() || postings.is_some();
    let cells = match decoded(reader, dataset, &chunk, is_read) {
        Ok(cells) => cells,
        Err(error) => return vec![ChunkProblem::Undecodable(error)],
    };
    let Some((cells, dtype)) = cells.zip(dataset.dtype()) else {
        return Vec::new();
    };
    let fill = metadata.and_then(|metadata| Fill::of(metadata, dtype));
    let zone = zone.and_then(|zone| {
        let real = zone_map::zone(dtype, fill, cells);
        (real != zone).then(|| {
            ChunkProblem::StaleZone(format!(
                "the zone map is {}, expected {} from the cells",
                described(&zone),
                described(&real)
            ))
        })
    });
    let postings =
        postings.and_then(|postings| stale_posting(postings, row.ordinal, dtype, fill, cells));
    zone.into_iter()
        .chain(postings.map(ChunkProblem::StalePostings))
        .collect()
}

/// Decompresses a chunk. Returns its cells if `is_loaded` is set, else `None`.
fn decoded<'a>(
    reader: &'a mut ChunkReader,
    dataset: &Dataset,
    chunk: &[u64],
    is_read: bool,
) -> Result<Option<&'a [u8]>, Error> {
    let opened = reader.open(dataset, chunk)?;
    while !reader.advance()? {}
    match is_read {
        true => reader.cells(0..opened.raw_bytes as usize).map(Some),
        false => Ok(None),
    }
}

fn described(zone: &ChunkSummary) -> String {
    let range = match zone.range {
        None => "no value".to_string(),
        Some((min, max)) => format!("bits {min:#x} to {max:#x}"),
    };
    format!("{} null of {}, {range}", zone.nulls, zone.elements)
}

/// Describes the first contradiction between postings and cells: a value that the chunk contains
/// but the postings do not list for it, or the reverse.
fn stale_posting(
    postings: &DatasetPostings,
    ordinal: u64,
    dtype: Dtype,
    fill: Option<Fill>,
    cells: &[u8],
) -> Option<String> {
    let size = dtype.size() as usize;
    // One flag per posted value, of which there are at most 64.
    let mut seen = vec![false; postings.values().len()];
    for cell in cells.chunks_exact(size) {
        let mut bits = [0; 8];
        bits[..size].copy_from_slice(cell);
        let bits = u64::from_le_bytes(bits);
        match postings.values().binary_search(&bits) {
            Ok(nth) => seen[nth] = true,
            Err(_) if dtype.is_nan(bits) || fill.is_some_and(|fill| fill.bits() == bits) => {}
            Err(_) => {
                return Some(format!(
                    "the chunk contains the value with bits {bits:#x}, expected only values listed in the postings"
                ));
            }
        }
    }
    (0..seen.len()).find_map(|nth| {
        let is_posted = postings.contains_nth(nth, ordinal);
        let bits = postings.values()[nth];
        (seen[nth] != is_posted).then(|| match is_posted {
            true => format!(
                "the postings list the chunk for the value with bits {bits:#x}, which the chunk does not contain"
            ),
            false => format!(
                "the postings do not list the chunk for the value with bits {bits:#x}, which the chunk contains"
            ),
        })
    })
}
