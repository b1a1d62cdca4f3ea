//! Randomly changed metadata and chunks end in an answer or an error, and take no more memory than
//! their chunks.
//!
//! `TET_SQL_MUTATIONS` sets the number of changes, and `TET_SQL_SEED` the first seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tet_sql::format::zarr::ZarrHierarchy;

use super::stores::{document, files, put};
use crate::support::memory::measure;
use crate::tables::exploded::Random;

/// Limit of the memory for a changed store, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Chunks with more cells are not read: they may be valid, and would need that much memory.
const MAX_CHUNK_CELLS: u64 = 1 << 20;

/// Opens a store and reads some chunks of each array.
fn exercise(path: &Path) {
    let Ok(folder) = ZarrHierarchy::open(path) else {
        return;
    };
    let mut cells = Vec::new();
    for (number, array) in folder.arrays().iter().enumerate() {
        let chunk_cells = array
            .chunk_shape()
            .iter()
            .try_fold(1u64, |product, extent| product.checked_mul(*extent));
        let is_small = chunk_cells.is_some_and(|cells| cells <= MAX_CHUNK_CELLS);
        let grid = array.chunk_grid();
        if grid.contains(&0) {
            continue;
        }
        let first = vec![0; grid.len()];
        let last: Vec<u64> = grid.iter().map(|count| count - 1).collect();
        let outside: Vec<u64> = grid.clone();
        for chunk in [&first, &last, &outside] {
            let stored = folder.stored_bytes(number, chunk);
            if is_small && folder.read_chunk(number, chunk, &mut cells).is_ok() {
                assert!(
                    stored.is_ok() || array.metadata().attrs.contains_key("tetration_categories")
                );
                assert!(chunk.is_empty() || **chunk != outside);
            }
        }
    }
}

fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(random.next() as u8);
        return;
    }
    let place = random.below(bytes.len());
    match random.below(7) {
        0 => bytes[place] = random.next() as u8,
        1 => bytes[place] ^= 1 << random.below(8),
        2 => bytes.truncate(place),
        3 => {
            let length = random.below(16);
            bytes.extend((0..length).map(|_| random.next() as u8));
        }
        4 => {
            let digit = bytes[place..].iter().position(u8::is_ascii_digit);
            if let Some(offset) = digit {
                let numbers = [
                    "0",
                    "-1",
                    "1",
                    "3",
                    "65536",
                    "2147483648",
                    "9223372036854775808",
                    "1e9",
                    "null",
                    "\"\"",
                ];
                let number = random.pick(&numbers).bytes();
                bytes.splice(place + offset..=place + offset, number);
            }
        }
        5 => {
            for byte in bytes.iter_mut().skip(place).take(8) {
                *byte = 0xff;
            }
        }
        _ => {
            let end = (place + random.below(12)).min(bytes.len());
            bytes.drain(place..end);
        }
    }
}

/// The name of an array, and the path and content of each of its files.
type ArrayFiles = (String, Vec<(String, Vec<u8>)>);

#[test]
fn mutated_stores_do_not_panic_or_exhaust_memory() {
    let variable = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |value| value.parse().unwrap())
    };
    let count = variable("TET_SQL_MUTATIONS", 2000);
    let start = variable("TET_SQL_SEED", 0);
    let stores = document("stores.json");
    // Each array becomes a store of its own, so that every change affects the array under test.
    let mut arrays: Vec<ArrayFiles> = Vec::new();
    for (store, content) in stores.as_object().unwrap() {
        let all = files(content);
        for (name, _) in &all {
            let Some(folder) = name
                .strip_suffix(".zarray")
                .or_else(|| name.strip_suffix("/zarr.json"))
            else {
                continue;
            };
            let prefix = format!("{}/", folder.trim_end_matches('/'));
            let own = all.iter().filter_map(|(name, content)| {
                let name = name.strip_prefix(&prefix)?;
                Some((name.to_string(), content.clone()))
            });
            let own: Vec<_> = own.collect();
            if own.len() > 1 {
                arrays.push((format!("{store}/{prefix}"), own));
            }
        }
    }
    assert!(arrays.len() > 60);
    for seed in start..start + count {
        let mut random = Random(seed);
        let (name, original) = random.pick(&arrays);
        let mut changed = original.clone();
        for _ in 0..=random.below(2) {
            let number = random.below(changed.len());
            change(&mut changed[number].1, &mut random);
        }
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), &changed);
        let (result, allocated) =
            measure(|| catch_unwind(AssertUnwindSafe(|| exercise(folder.path()))));
        assert!(result.is_ok(), "seed {seed}: {name}");
        assert!(
            allocated.most_held <= MAX_BYTES,
            "seed {seed}: {name}: {allocated:?}"
        );
        assert!(
            allocated.largest <= MAX_BYTES,
            "seed {seed}: {name}: {allocated:?}"
        );
    }
}
