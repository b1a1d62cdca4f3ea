//! Truncated and randomly changed files end in an answer or in one error: no panic, no hang, and no
//! memory that the file does not justify.
//!
//! `TET_SQL_MUTATIONS` sets the number of changes, each tried under one of the access modes, and
//! `TET_SQL_SEED` the first seed. A failure names its file and seed.

pub mod exercise;
mod original;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tet_sql::Access;

use self::exercise::{QUERIES, check, query, read};
use self::original::{Original, originals};
use crate::support::memory::measure;
use crate::tables::exploded::Random;

/// Limit of the memory for a changed file, in bytes. The originals are far smaller, and so are the
/// buffers of a scan.
const MAX_BYTES: usize = 64 << 20;
/// Files with fewer bytes are truncated at every length.
const SMALL: usize = 4096;

/// An operation on a changed file.
#[derive(Debug, Clone, Copy)]
enum Exercise {
    Read,
    Query(usize),
    Check,
}

fn assert_survives(folder: &Path, bytes: &[u8], access: Access, exercise: Exercise, what: &str) {
    let path = folder.join("changed.tet");
    std::fs::write(&path, bytes).unwrap();
    let run = || match exercise {
        Exercise::Read => read(&path, access),
        Exercise::Query(selector) => query(&path, access, selector).unwrap_or(0),
        Exercise::Check => check(&path, access),
    };
    let (rows, allocated) = measure(|| catch_unwind(AssertUnwindSafe(run)));
    let what = format!("{what}, {access}, {exercise:?}");
    assert!(rows.is_ok(), "{what}");
    assert!(allocated.most_held <= MAX_BYTES, "{what}: {allocated:?}");
    assert!(allocated.largest <= MAX_BYTES, "{what}: {allocated:?}");
    // The file is deleted, never overwritten, because a memory map of it may still be open.
    for entry in folder.read_dir().unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

/// Reads and queries must succeed on intact files. On changed files, their errors are ignored.
#[test]
fn intact_files_can_be_read_and_queried() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("original.tet");
    for original in originals() {
        if !["indexed", "spilled", "specials_f64.tet"].contains(&original.name.as_str()) {
            continue;
        }
        std::fs::write(&path, &original.bytes).unwrap();
        assert!(read(&path, Access::Mmap) > 0, "{}", original.name);
        for selector in 0..QUERIES * 6 {
            query(&path, Access::Mmap, selector).unwrap();
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn truncated_files_do_not_panic_or_exhaust_memory() {
    let folder = tempfile::tempdir().unwrap();
    for Original { name, bytes, .. } in originals() {
        // Long files are truncated at about 1000 lengths.
        let step = match bytes.len() {
            length if length < SMALL => 1,
            length => length / 1000 + 1,
        };
        for length in (0..bytes.len()).rev().step_by(step) {
            let access = match length % 2 {
                0 => Access::Mmap,
                _ => Access::Pread,
            };
            let what = format!("{name} cut to {length} bytes");
            let exercise = match length % 3 {
                0 => Exercise::Check,
                _ => Exercise::Read,
            };
            assert_survives(folder.path(), &bytes[..length], access, exercise, &what);
        }
    }
}

#[test]
fn mutated_files_do_not_panic_or_exhaust_memory() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let first = number("TET_SQL_SEED", 1);
    let originals = originals();
    let folder = tempfile::tempdir().unwrap();
    for seed in first..first + number("TET_SQL_MUTATIONS", 3000) {
        let mut random = Random(seed);
        let original = random.pick(&originals);
        let bytes = changed(original, &mut random);
        let access = *random.pick(&[Access::Mmap, Access::Pread]);
        let exercise = match random.below(8) {
            0 | 1 => Exercise::Query(random.below(10_000)),
            2 | 3 => Exercise::Check,
            _ => Exercise::Read,
        };
        let what = format!("{}, seed {seed}", original.name);
        assert_survives(folder.path(), &bytes, access, exercise, &what);
    }
}

fn changed(original: &Original, random: &mut Random) -> Vec<u8> {
    let mut bytes = original.bytes.clone();
    for _ in 0..1 + random.below(3) {
        let place = original.place(random);
        match random.below(6) {
            0 => bytes[place] ^= 1 << random.below(8),
            1 => bytes[place] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => bytes[place] = random.next() as u8,
            3 => {
                // Sets an aligned 8-byte integer to a value at which arithmetic tends to break.
                let place = place / 8 * 8;
                let value =
                    *random.pick(&[0, 1, 1 << 31, 1 << 32, 1 << 62, u64::MAX / 8, u64::MAX]);
                if let Some(word) = bytes.get_mut(place..place + 8) {
                    word.copy_from_slice(&value.to_le_bytes());
                }
            }
            // Changes a digit in a JSON document, which stays valid but has another meaning.
            4 => {
                let digit = bytes[place..].iter().position(u8::is_ascii_digit);
                if let Some(offset) = digit {
                    bytes[place + offset] = b'0' + random.below(10) as u8;
                }
            }
            _ => {
                let length = random.below(16).min(bytes.len() - place);
                let from = random.below(bytes.len() - length + 1);
                bytes.copy_within(from..from + length, place);
            }
        }
    }
    bytes
}
