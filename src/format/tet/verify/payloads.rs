//! Payloads: whether they lie apart, can be decoded, and are what the zone maps say.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;
use crate::format::array::{ChunkReader, Dataset, DatasetMetadata, Fill};
use crate::format::tet::file::TetFile;
use crate::format::tet::verify::rows::Row;
use crate::format::tet::verify::{Report, Subject, VerifyOptions};
use crate::format::tet::writer::zone_map;
use crate::format::tet::zones::{Zone, ZoneMaps};

/// Chunks that are decoded without being asked for all.
const SOME_CHUNKS: usize = 128;
/// Chunks between two words of progress.
const PROGRESS_EVERY: u64 = 64;

const UNDECODABLE: &str =
    "the chunk cannot be read, others can; write the dataset again from its source";
const STALE: &str = "queries may leave out rows: tet repair mends it, or SET tet.zone_maps = false";

/// Looks at the payloads of rows.
pub(super) fn check(
    file: &Arc<TetFile>,
    rows: &[Row],
    options: VerifyOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
    report: &mut Report,
) {
    check_places(file, rows, report);
    report.begin("zone_maps", "the least and greatest value of each chunk");
    let zone_maps = match file.zone_maps(options.access) {
        Ok(Some(zone_maps)) => Some(zone_maps),
        Ok(None) => {
            report.note("the file has none");
            None
        }
        Err(error) => {
            report.failure(&error, STALE);
            None
        }
    };
    let count = match options.deep {
        true => rows.len(),
        false => rows.len().min(SOME_CHUNKS),
    };
    let found = decode(
        file,
        &rows[..count],
        zone_maps.as_deref(),
        options,
        progress,
    );
    let checked = format!("{count} of {} chunks", rows.len());
    if zone_maps.is_some() {
        report.note(format!("{checked} compared with their cells"));
    }
    for (row, found) in &found {
        if let Found::Stale(message) = found {
            let dataset = &file.datasets()[row.dataset as usize];
            let subject = Subject::chunk(dataset.name(), &dataset.chunk_at(row.ordinal));
            report.error(subject, message.clone(), STALE);
        }
    }
    report.begin("secondary_index", "postings of the values of chunks");
    match file.value_postings(options.access) {
        Ok(Some(_)) => {}
        Ok(None) => report.note("the file has none"),
        Err(error) => report.failure(&error, STALE),
    }
    let rest = match count < rows.len() {
        true => "; --deep decodes all",
        false => "",
    };
    report.begin("chunk_decode", format!("{checked}{rest}"));
    for (_, found) in &found {
        if let Found::Undecodable(error) = found {
            report.failure(error, UNDECODABLE);
        }
    }
}

/// Whether payloads overlap, and come in the order of the index.
fn check_places(file: &TetFile, rows: &[Row], report: &mut Report) {
    report.begin("payload_overlaps", "payloads lie apart");
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
                "bytes {} to {} are also part of chunk {:?} of dataset {:?}, expected payloads that lie apart",
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
    report.begin(
        "payload_order",
        "payloads follow each other as their rows do",
    );
    let is_sorted = rows.is_sorted_by_key(|row| row.offset);
    if !is_sorted {
        report.warn(
            Subject::default(),
            "payloads do not lie in the order of the chunk index".to_string(),
            "harmless, but for reading from slow disks",
        );
    }
}

/// What is wrong with a chunk.
enum Found {
    Undecodable(Error),
    Stale(String),
}

/// Decodes chunks on several threads; what is wrong, in the order of the rows.
fn decode(
    file: &Arc<TetFile>,
    rows: &[Row],
    zone_maps: Option<&ZoneMaps>,
    options: VerifyOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Vec<(Row, Found)> {
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
            let zone = zone_maps
                .and_then(|zone_maps| zone_maps.zone(dataset, &dataset.chunk_at(row.ordinal)));
            let what = decode_one(&mut reader, dataset, metadata, row, zone, options);
            if let Err(what) = what {
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.push((number, *row, what));
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

fn decode_one(
    reader: &mut ChunkReader,
    dataset: &Dataset,
    metadata: Option<&DatasetMetadata>,
    row: &Row,
    zone: Option<Zone>,
    options: VerifyOptions,
) -> Result<(), Found> {
    let chunk = dataset.chunk_at(row.ordinal);
    let opened = reader.open(dataset, &chunk).map_err(Found::Undecodable)?;
    while !reader.advance().map_err(Found::Undecodable)? {}
    // Whether the bytes can be read at all shows only when they are.
    if !options.deep && zone.is_none() {
        return Ok(());
    }
    let cells = reader.cells(0..opened.raw_bytes as usize);
    let cells = cells.map_err(Found::Undecodable)?;
    let (Some(zone), Some(dtype)) = (zone, dataset.dtype()) else {
        return Ok(());
    };
    let fill = metadata.and_then(|metadata| Fill::of(metadata, dtype));
    let real = zone_map::zone(dtype, fill, cells);
    if real == zone {
        return Ok(());
    }
    let text = |zone: &Zone| {
        let range = match zone.range {
            None => "no value".to_string(),
            Some((least, greatest)) => {
                format!("bits {least:#x} to {greatest:#x}")
            }
        };
        format!("{} missing of {}, {range}", zone.nulls, zone.elements)
    };
    Err(Found::Stale(format!(
        "the zone map says {}, expected {} as the cells are",
        text(&zone),
        text(&real)
    )))
}
