//! Randomly changed files end in an answer or an error, and take no more memory than their bytes
//! justify.
//!
//! `TET_SQL_MUTATIONS` sets the number of changes, and `TET_SQL_SEED` the first seed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tet_sql::Access;

use super::exercise::exercise;
use super::path;
use crate::support::memory::measure;
use crate::tables::exploded::Random;

/// Limit of the memory for a changed file, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Bytes at the start of a file that are changed more often: the headers of the files.
const HEADER: usize = 600;

fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    let place = match random.below(3) {
        0 => random.below(bytes.len()),
        _ => random.below(bytes.len().min(HEADER)),
    };
    match random.below(7) {
        0 => bytes[place] ^= 1 << random.below(8),
        1 => bytes[place] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        2 => bytes[place] = random.next() as u8,
        3 if random.chance(30) => bytes.truncate(place.max(1)),
        3 | 4 => {
            let value: u32 = *random.pick(&[0, 1, 2, 5, 10, 11, 12, 1 << 16, 1 << 31, u32::MAX]);
            if let Some(word) = bytes.get_mut(place / 4 * 4..place / 4 * 4 + 4) {
                word.copy_from_slice(&value.to_be_bytes());
            }
        }
        5 => {
            let value = *random.pick(&[0, 1, 1 << 32, 1 << 62, u64::MAX / 8, u64::MAX]);
            if let Some(word) = bytes.get_mut(place / 4 * 4..place / 4 * 4 + 8) {
                word.copy_from_slice(&value.to_be_bytes());
            }
        }
        _ => {
            let length = random.below(32).min(bytes.len() - place);
            let from = random.below(bytes.len() - length + 1);
            bytes.copy_within(from..from + length, place);
        }
    }
}

#[test]
fn mutated_files_do_not_panic_or_exhaust_memory() {
    let variable = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |value| value.parse().unwrap())
    };
    let names = [
        "cf_2000",
        "eight",
        "missing",
        "one_record_byte",
        "scipy_2",
        "stream",
        "texts",
        "types_cdf1",
        "types_cdf5",
    ];
    let folder = tempfile::tempdir().unwrap();
    let originals = names.map(|name| std::fs::read(path(&format!("{name}.nc"))).unwrap());
    for name in names {
        assert!(
            exercise(&path(&format!("{name}.nc")), Access::Mmap) > 0,
            "{name}"
        );
    }
    let start = variable("TET_SQL_SEED", 0);
    for seed in start..start + variable("TET_SQL_MUTATIONS", 3000) {
        let mut random = Random(seed);
        let number = random.below(originals.len());
        let mut bytes = originals[number].clone();
        for _ in 0..=random.below(3) {
            change(&mut bytes, &mut random);
        }
        let access = *random.pick(&[Access::Mmap, Access::Pread]);
        let path = folder.path().join(format!("{seed}.nc"));
        std::fs::write(&path, bytes).unwrap();
        let run = || catch_unwind(AssertUnwindSafe(|| exercise(&path, access)));
        let (result, allocated) = measure(run);
        let what = format!("seed {seed}: {}", names[number]);
        assert!(result.is_ok(), "{what}");
        assert!(allocated.most_held <= MAX_BYTES, "{what}: {allocated:?}");
        assert!(allocated.largest <= MAX_BYTES, "{what}: {allocated:?}");
        std::fs::remove_file(&path).unwrap();
    }
}
