//! Truncated and randomly changed files end in an answer or in one error: no panic, no hang, no memory that the file does
//! not justify.
//!
//! `TET_SQL_MUTATIONS` sets how many changes are tried (in all, over the files and both access modes), `TET_SQL_SEED`
//! where they start; a failure names its file and seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use datafusion::prelude::SessionContext;
use tet_sql::provider::options::ReadOptions;
use tet_sql::provider::source::Progress;
use tet_sql::{Access, ArrayTable, TetOptions, TetSchema};

use crate::cells::data;
use crate::exploded::Random;

/// Blocks and rows that are read of a table; a changed shape can claim any number.
const MAX_BLOCKS: u64 = 64;
const MAX_ROWS: usize = 100_000;
/// Small files of every kind: layouts, codecs, footers of both versions, labels, broken ones.
const FILES: [&str; 8] = [
    "edge/ok.tet",
    "edge/zstd_two_frames.tet",
    "edge/full_size_edge_chunk.tet",
    "edge/history_triples.tet",
    "edge/meta_unknown_keys.tet",
    "dtypes/dtype_f32_zstd.tet",
    "specials_f64.tet",
    "weather_small_v1footer.tet",
];

/// Opens a file and reads what can be read of its tables. Gives the number of rows.
fn read(path: &Path, access: Access) -> usize {
    let options = TetOptions::new().with_access(access);
    let Ok(schema) = TetSchema::open("f", path, options.clone()) else {
        return 0;
    };
    schema.file().zone_maps(access).ok();
    schema.file().value_postings(access).ok();
    let mut rows = 0;
    for dataset in schema.file().datasets() {
        let Ok(table) = ArrayTable::open(path, &options.clone().with_dataset(dataset.name()))
        else {
            continue;
        };
        table
            .describe()
            .map(|description| description.problems.len())
            .ok();
        rows += read_table(&table, access).unwrap_or(0);
    }
    rows
}

fn read_table(table: &ArrayTable, access: Access) -> datafusion::common::Result<usize> {
    let source = table.source();
    let session = SessionContext::new().state();
    let blocks = source.select(&session, &[])?.blocks;
    let read_options = ReadOptions {
        access,
        ..ReadOptions::default()
    };
    let columns: Vec<_> = (0..source.schema().fields().len()).collect();
    for column in &columns {
        blocks.column_statistics(*column, &read_options)?;
    }
    let mut reader = blocks.reader(&columns, &read_options)?;
    let mut rows = 0;
    for block in 0..blocks.count().unwrap_or(u64::MAX).min(MAX_BLOCKS) {
        reader.open(block)?;
        loop {
            match reader.next(8192)? {
                Progress::Working => {}
                Progress::Done => break,
                Progress::Rows { rows: more, .. } => rows += more,
            }
            if rows > MAX_ROWS {
                return Ok(rows);
            }
        }
    }
    Ok(rows)
}

/// Reads a changed file under both access modes.
fn survive(folder: &Path, bytes: &[u8], what: &str) {
    let path = folder.join("changed.tet");
    std::fs::write(&path, bytes).unwrap();
    for access in [Access::Mmap, Access::Pread] {
        let rows = catch_unwind(AssertUnwindSafe(|| read(&path, access)));
        assert!(rows.is_ok(), "{what}, {access}");
    }
    // Never written in place: a map of it may still be open.
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn every_truncation_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    for name in FILES {
        let bytes = std::fs::read(data(name)).unwrap();
        // Long files are cut at their regions' ends and at some places between.
        let step = bytes.len() / 1000 + 1;
        for length in (0..bytes.len()).rev().step_by(step) {
            survive(
                folder.path(),
                &bytes[..length],
                &format!("{name} cut to {length} bytes"),
            );
        }
    }
}

#[test]
fn random_changes_are_survived() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let first = number("TET_SQL_SEED", 1);
    let count = number("TET_SQL_MUTATIONS", 8000) / 2;
    let originals: Vec<_> = FILES
        .iter()
        .map(|name| (name, std::fs::read(data(name)).unwrap()))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    for seed in first..first + count {
        let mut random = Random(seed);
        let (name, original) = random.pick(&originals);
        let mut bytes = original.clone();
        for _ in 0..1 + random.below(4) {
            // Headers, directory and index lie in front, the footer at the end.
            let place = match random.below(4) {
                0 | 1 => random.below(bytes.len().min(400)),
                2 => bytes.len() - 1 - random.below(bytes.len().min(600)),
                _ => random.below(bytes.len()),
            };
            match random.below(5) {
                0 => bytes[place] ^= 1 << random.below(8),
                1 => bytes[place] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                2 => bytes[place] = random.next() as u8,
                3 => {
                    // A whole number of the file, at one of the values where arithmetic breaks.
                    let place = place / 8 * 8;
                    let value =
                        *random.pick(&[0, 1, 1 << 31, 1 << 32, 1 << 62, u64::MAX / 8, u64::MAX]);
                    if let Some(word) = bytes.get_mut(place..place + 8) {
                        word.copy_from_slice(&value.to_le_bytes());
                    }
                }
                _ => {
                    let length = random.below(16).min(bytes.len() - place);
                    let from = random.below(bytes.len() - length + 1);
                    bytes.copy_within(from..from + length, place);
                }
            }
        }
        survive(folder.path(), &bytes, &format!("{name}, seed {seed}"));
    }
}
