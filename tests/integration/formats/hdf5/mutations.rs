//! Randomly changed files end in an answer or an error, and take no more memory than their chunks.
//!
//! `TET_SQL_MUTATIONS` sets the number of changes, and `TET_SQL_SEED` the first seed.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use hdf5_reader::checksum::jenkins_lookup3;
use tet_sql::Access;

use super::exercise::exercise;
use super::stored::{FILES, path};
use crate::support::memory::measure;
use crate::tables::exploded::Random;

/// Limit of the memory for a changed file, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Blocks with a checksum are shorter than this.
const MAX_BLOCK: usize = 8192;
/// Limit of the time for a changed file. The originals take some milliseconds.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Changes some bytes, most of them among the metadata.
fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    let place = match random.below(4) {
        // The superblock, and the first object headers.
        0 => random.below(bytes.len().min(4096)),
        // Near a signature.
        1 => {
            let start = random.below(bytes.len());
            let signatures: [&[u8]; 10] = [
                b"OHDR", b"TREE", b"SNOD", b"HEAP", b"FRHP", b"BTHD", b"FAHD", b"EAHD", b"GCOL",
                b"OCHK",
            ];
            let signature = *random.pick(&signatures);
            let found = bytes[start..]
                .windows(4)
                .position(|window| window == signature);
            (start + found.unwrap_or(0) + random.below(64)).min(bytes.len() - 1)
        }
        _ => random.below(bytes.len()),
    };
    match random.below(7) {
        0 => bytes[place] ^= 1 << random.below(8),
        1 => bytes[place] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        2 => bytes[place] = random.next() as u8,
        3 => bytes.truncate(place.max(1)),
        4 => {
            let value = *random.pick(&[
                0,
                1,
                1 << 16,
                1 << 31,
                1 << 32,
                1 << 62,
                u64::MAX / 8,
                u64::MAX,
            ]);
            if let Some(word) = bytes.get_mut(place..place + 8) {
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
        5 => {
            let value: u32 = *random.pick(&[0, 1, 255, 1 << 16, 1 << 31, u32::MAX]);
            if let Some(word) = bytes.get_mut(place..place + 4) {
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
        _ => {
            let length = random.below(24).min(bytes.len() - place);
            let from = random.below(bytes.len() - length + 1);
            bytes.copy_within(from..from + length, place);
        }
    }
}

/// Returns the ranges of an intact file that a checksum follows.
fn checked_ranges(bytes: &[u8]) -> Vec<Range<usize>> {
    const SIGNATURES: [&[u8]; 15] = [
        b"\x89HDF", b"OHDR", b"OCHK", b"FRHP", b"FHDB", b"FHIB", b"BTHD", b"BTLF", b"BTIN",
        b"FAHD", b"FADB", b"EAHD", b"EAIB", b"EASB", b"EADB",
    ];
    let mut ranges = Vec::new();
    for start in 0..bytes.len() {
        let is_block = |signature: &&[u8]| bytes[start..].starts_with(signature);
        if !SIGNATURES.iter().any(is_block) {
            continue;
        }
        let ends = start + 4..(start + MAX_BLOCK).min(bytes.len().saturating_sub(4));
        let is_end = |end: &usize| {
            let sum = jenkins_lookup3(&bytes[start..*end]);
            bytes[*end..*end + 4] == sum.to_le_bytes()
        };
        if let Some(end) = ends.into_iter().find(is_end) {
            ranges.push(start..end);
        }
    }
    ranges
}

/// Makes checksums right again, so that changes reach the code behind them.
fn repair(bytes: &mut [u8], ranges: &[Range<usize>]) {
    let length = bytes.len();
    for range in ranges.iter().filter(|range| range.end + 4 <= length) {
        let sum = jenkins_lookup3(&bytes[range.clone()]);
        bytes[range.end..range.end + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

#[test]
fn mutated_files_do_not_panic_or_exhaust_memory() {
    let variable = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |value| value.parse().unwrap())
    };
    let start = variable("TET_SQL_SEED", 0);
    let originals = FILES.map(|name| {
        let bytes = std::fs::read(path(name)).unwrap();
        let ranges = checked_ranges(&bytes);
        (bytes, ranges)
    });
    let checked: usize = originals.iter().map(|(_, ranges)| ranges.len()).sum();
    assert!(checked > 100, "{checked}");
    let folder = tempfile::tempdir().unwrap();
    for seed in start..start + variable("TET_SQL_MUTATIONS", 2000) {
        let mut random = Random(seed);
        let number = random.below(originals.len());
        let (original, ranges) = &originals[number];
        let mut bytes = original.clone();
        for _ in 0..=random.below(3) {
            change(&mut bytes, &mut random);
        }
        if random.chance(70) {
            repair(&mut bytes, ranges);
        }
        let access = *random.pick(&[Access::Mmap, Access::Pread]);
        let path = folder.path().join(format!("{seed}.h5"));
        std::fs::write(&path, bytes).unwrap();
        let started = Instant::now();
        let (result, allocated) =
            measure(|| catch_unwind(AssertUnwindSafe(|| exercise(&path, access))));
        let what = format!("seed {seed}: {}", FILES[number]);
        assert!(result.is_ok(), "{what}");
        assert!(
            started.elapsed() < MAX_TIME,
            "{what}: {:?}",
            started.elapsed()
        );
        assert!(allocated.most_held <= MAX_BYTES, "{what}: {allocated:?}");
        assert!(allocated.largest <= MAX_BYTES, "{what}: {allocated:?}");
        std::fs::remove_file(&path).unwrap();
    }
}
