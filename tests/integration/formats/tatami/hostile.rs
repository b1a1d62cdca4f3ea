//! Mutated files. Reading them gives values or an error, but never a panic, and takes bounded memory.
//!
//! `TET_SQL_MUTATIONS` sets the number of mutated files.

use std::path::Path;

use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::{Collection, TatamiFile};

use super::data::{Random, path};
use super::exercise::{exercise, seal};
use crate::support::memory::measure;
use crate::support::sql::session;

/// The number of mutated files by default.
const CASES: usize = 20_800;
/// Every file of this number is also queried with SQL.
const QUERIED: usize = 16;
/// The maximum memory for a file of a few kilobytes, in bytes. A page of 4 KiB can decompress to 128 MiB.
const MAX_BYTES: usize = 256 << 20;

#[test]
fn mutated_files_are_read_or_refused() {
    let wanted = std::env::var("TET_SQL_MUTATIONS");
    let wanted = wanted.map_or(CASES, |text| text.parse().expect("a number"));
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(1);
    let (mut opened, mut cases) = (0, 0);
    let names = [
        "types_one_row_values",
        "types_extremes",
        "types_allnull",
        "floats_special",
        "sorted_lie",
        "blob_hint_ignored",
        "header_meta",
        "search/one_doc",
        "rand/r001",
        "rand/r003",
        "rand/r006",
        "rand/r009",
        "rand/r014",
        "rand/r016",
        "rand/r033",
        "blob_nonulls_singlepage",
    ];
    for name in names {
        let source = path(&format!("{name}.tatami"));
        let original = TatamiFile::open(&source, Access::Mmap).unwrap();
        let bytes = std::fs::read(&source).unwrap();
        let footer = original.header().footer_offset as usize;
        let regions = original.regions().unwrap();
        for case in 0..wanted.div_ceil(names.len()) {
            let mut mutated = bytes.clone();
            for _ in 0..1 + random.below(3) {
                // Half of the changes are in the footer and in headers of records.
                let at = match random.below(4) {
                    0 => footer + random.below(mutated.len().saturating_sub(footer)),
                    1 => regions[random.below(regions.len())].offset as usize + random.below(32),
                    _ => random.below(mutated.len()),
                };
                let Some(byte) = mutated.get_mut(at) else {
                    continue;
                };
                match random.below(4) {
                    0 => *byte ^= 1 << random.below(8),
                    1 => *byte = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                    2 => *byte = byte.wrapping_add(1),
                    _ => *byte = random.below(256) as u8,
                }
            }
            match case % 20 {
                0 => mutated.truncate(random.below(mutated.len())),
                1 => {
                    let at = random.below(mutated.len());
                    mutated.insert(at, random.below(256) as u8);
                }
                _ => {}
            }
            if case % 4 != 3 && mutated.len() >= 76 {
                seal(&mut mutated, footer, &regions);
            }
            // Overwriting one file again and again would wait for the disk.
            let target = directory.path().join(format!("{cases}.tatami"));
            std::fs::write(&target, &mutated).unwrap();
            let access = [Access::Pread, Access::Mmap][cases % 2];
            let (is_open, allocated) = measure(|| exercise(&target, access));
            assert!(allocated.most_held < MAX_BYTES, "{name}: {allocated:?}");
            opened += usize::from(is_open);
            if is_open && cases % QUERIED == 0 {
                query(&target, &original);
            }
            std::fs::remove_file(&target).unwrap();
            cases += 1;
        }
    }
    assert!(
        cases >= wanted && opened > cases / 3,
        "{opened} of {cases} opened"
    );
}

/// Queries a mutated file. Any answer and any error is accepted.
fn query(path: &Path, original: &TatamiFile) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let column = &original.schema().fields[0].name;
    let path = path.display();
    for sql in [
        format!("SELECT * FROM '{path}'"),
        format!("SELECT min(\"{column}\"), max(\"{column}\"), count(*) FROM '{path}'"),
        format!(
            "SELECT * FROM '{path}' WHERE \"{column}\" IS NOT NULL AND CAST(\"{column}\" AS VARCHAR) > '1'"
        ),
        format!("SELECT count(*) FROM '{path}' GROUP BY \"{column}\""),
    ] {
        let ctx = session();
        let found = runtime.block_on(async { ctx.sql(&sql).await?.collect().await });
        if let Err(error) = found {
            assert!(!error.to_string().contains("panic"), "{sql}: {error}");
        }
    }
}

#[test]
fn mutated_manifests_are_read_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(path("collection/tatami.manifest")).unwrap();
    let mut random = Random(2);
    for case in 0..2_000 {
        let mut mutated = bytes.clone();
        let at = random.below(mutated.len());
        mutated[at] = random.below(256) as u8;
        // Update the checksum of the first record.
        let length = mutated[6] as usize;
        if mutated[6] < 0x80 && 7 + length + 4 <= mutated.len() {
            let crc = crc32c::crc32c(&mutated[5..7 + length]);
            mutated[7 + length..11 + length].copy_from_slice(&crc.to_le_bytes());
        }
        let target = directory.path().join(format!("{case}.manifest"));
        std::fs::write(&target, &mutated).unwrap();
        let _ = Collection::open(&target);
    }
}
