//! Checks every row of the chunk index by itself, and that each chunk has exactly one row.

use crate::error::ErrorLocation;
use crate::format::io::storage::Access;
use crate::format::tet::file::TetFile;
use crate::format::tet::index::validate;
use crate::format::tet::repair::anatomy::Anatomy;
use crate::format::tet::verify::{Report, Subject, number_of};

const REWRITE_DATASET: &str =
    "the chunk cannot be read, others can; write the dataset again from its source";

/// An index row that has passed its own checks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub dataset: u64,
    pub ordinal: u64,
    pub offset: u64,
    pub stored: u64,
}

/// Checks all rows. Returns the usable ones in index order: valid rows that are the only row of
/// their chunk.
pub(super) fn check(
    file: &TetFile,
    anatomy: &Anatomy,
    access: Access,
    report: &mut Report,
) -> Vec<Row> {
    report.begin(
        "chunk_rows",
        format!("{} of the chunk index", number_of(file.chunk_rows(), "row")),
    );
    let head = anatomy.superblock.map_or(0, |superblock| {
        superblock.chunk_index_offset + superblock.chunk_index_length
    });
    let path = file.storage().path();
    let mut rows = Vec::new();
    let mut unused_slots = 0u64;
    let read = file.stored_rows(access, u64::MAX, |number, row| {
        let datasets = file.datasets();
        let Some(dataset) = usize::try_from(row.dataset_id)
            .ok()
            .and_then(|id| datasets.get(id))
        else {
            let message = format!(
                "row {number}: dataset_id is {}, expected less than {}, the number of datasets",
                row.dataset_id,
                datasets.len()
            );
            return report.error(
                Subject::default(),
                message,
                "the row is left unused; write the file again",
            );
        };
        let name = dataset.name();
        // `check_datasets` reports what is wrong with the dataset.
        let Ok(dtype) = dataset.check(path) else {
            return;
        };
        let (chunk, rest) = row.chunk.split_at(dataset.shape().len());
        unused_slots += u64::from(rest.iter().any(|slot| *slot != 0));
        let Some(ordinal) = dataset.chunk_ordinal(chunk) else {
            let message = format!(
                "row {number}: the chunk is outside the grid of {:?} chunks",
                dataset.chunk_grid()
            );
            return report.error(
                Subject::chunk(name, chunk),
                message,
                "the row is left unused; write the file again",
            );
        };
        let location = || ErrorLocation::chunk(path, name, chunk);
        let bytes = dataset.chunk_bytes(dtype, chunk);
        if let Err(error) = validate(row, bytes, file.payload_end(), &location) {
            return report.failure(&error, REWRITE_DATASET);
        }
        if row.payload_offset < head && row.stored_bytes > 0 {
            let message = format!(
                "payload_offset is {}, expected at least {head}, where the chunk index ends",
                row.payload_offset
            );
            report.error(Subject::chunk(name, chunk), message, REWRITE_DATASET);
        }
        rows.push(Row {
            dataset: dataset.id(),
            ordinal,
            offset: row.payload_offset,
            stored: row.stored_bytes,
        });
    });
    if let Err(error) = read {
        report.failure(
            &error,
            "the file is shorter than it says; restore it from a copy",
        );
        return Vec::new();
    }
    if unused_slots > 0 {
        let message = format!(
            "{unused_slots} rows have chunk indices in slots beyond the dimensions of their dataset, expected 0"
        );
        report.warn(Subject::default(), message, "harmless: readers ignore them");
    }
    report.begin("chunk_coverage", "one row for each chunk of each dataset");
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|row| (rows[*row].dataset, rows[*row].ordinal));
    let mut is_usable = vec![true; rows.len()];
    for pair in order.windows(2) {
        let (one, other) = (&rows[pair[0]], &rows[pair[1]]);
        if (one.dataset, one.ordinal) == (other.dataset, other.ordinal) {
            is_usable[pair[0]] = false;
            is_usable[pair[1]] = false;
            let dataset = &file.datasets()[one.dataset as usize];
            let chunk = dataset.chunk_at(one.ordinal);
            report.error(
                Subject::chunk(dataset.name(), &chunk),
                "two rows describe this chunk, expected one".to_string(),
                "cannot tell which row is right; write the dataset again from its source",
            );
        }
    }
    let mut from = 0;
    for dataset in file.datasets() {
        let here = order[from..].iter();
        let here: Vec<u64> = here
            .map(|row| rows[*row])
            .take_while(|row| row.dataset == dataset.id())
            .map(|row| row.ordinal)
            .collect();
        from += here.len();
        if dataset.check(path).is_err() {
            continue;
        }
        let Some(expected) = dataset.chunk_count() else {
            continue;
        };
        let mut present = here.clone();
        present.dedup();
        if present.len() as u64 == expected {
            continue;
        }
        // The first missing ordinal: the first index in `present` that differs from its ordinal.
        let gap = present
            .iter()
            .enumerate()
            .find(|(index, ordinal)| *index as u64 != **ordinal);
        let first = gap.map_or(present.len() as u64, |(index, _)| index as u64);
        let message = format!(
            "{} of {expected} chunks have no usable row, starting with this one",
            expected - present.len() as u64
        );
        report.error(
            Subject::chunk(dataset.name(), &dataset.chunk_at(first)),
            message,
            REWRITE_DATASET,
        );
    }
    let mut is_usable = is_usable.into_iter();
    rows.retain(|_| is_usable.next().unwrap_or(false));
    rows
}
