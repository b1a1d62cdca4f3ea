//! Mutated files. Reading them gives values or an error, but never a panic.

use std::path::Path;
use std::sync::Arc;

use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::{Collection, Region, RegionKind, TatamiFile, verify};

use super::data::{Random, Table, path};

/// Reads and verifies all of a file. Returns `false` if it cannot be opened.
fn exercise(path: &Path) -> bool {
    let Ok(file) = TatamiFile::open(path, Access::Pread) else {
        return false;
    };
    let file = Arc::new(file);
    let _ = file.regions();
    let problems = verify(&file, true);
    let columns: Vec<usize> = (0..file.schema().fields.len()).collect();
    for group in 0..file.row_groups().len() {
        let _ = file.aligned_pages(group, &columns);
        let _ = file.page_index(group);
        for column in &columns {
            let _ = file.bounds(group, *column);
        }
    }
    let is_readable = Table::read(path, Access::Pread).is_ok();
    // Verification reports a problem if anything cannot be read.
    assert!(is_readable || !problems.is_empty(), "{}", path.display());
    true
}

/// Updates the checksums of records, footer and header to match the changed bytes.
fn repair(bytes: &mut [u8], original: &TatamiFile, regions: &[Region]) {
    let put = |bytes: &mut [u8], at: usize, crc: u32| {
        if let Some(stored) = bytes.get_mut(at..at + 4) {
            stored.copy_from_slice(&crc.to_le_bytes());
        }
    };
    for region in regions {
        let (start, end) = (
            region.offset as usize,
            (region.offset + region.length) as usize,
        );
        let is_record = !matches!(
            region.kind,
            RegionKind::Header | RegionKind::Footer | RegionKind::Trailer
        );
        if end > bytes.len() || !is_record {
            continue;
        }
        let crc = crc32c::crc32c(&bytes[start + 32..end]);
        put(bytes, start + 24, crc);
    }
    let length = bytes.len();
    let footer = original.header().footer_offset as usize;
    if footer + 12 <= length {
        let crc = crc32c::crc32c(&bytes[footer..length - 12]);
        put(bytes, length - 8, crc);
    }
    let crc = crc32c::crc32c(&bytes[..60]);
    put(bytes, 60, crc);
}

#[test]
fn mutated_files_are_read_or_refused() {
    const CASES: usize = 1_300;
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(1);
    let (mut opened, mut cases) = (0, 0);
    for name in [
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
    ] {
        let source = path(&format!("{name}.tatami"));
        let original = TatamiFile::open(&source, Access::Mmap).unwrap();
        let bytes = std::fs::read(&source).unwrap();
        let footer = original.header().footer_offset as usize;
        let regions = original.regions().unwrap();
        for case in 0..CASES {
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
                repair(&mut mutated, &original, &regions);
            }
            // Overwriting one file again and again would wait for the disk.
            let target = directory.path().join(format!("{cases}.tatami"));
            std::fs::write(&target, &mutated).unwrap();
            opened += usize::from(exercise(&target));
            std::fs::remove_file(&target).unwrap();
            cases += 1;
        }
    }
    assert!(
        cases >= 20_000 && opened > cases / 3,
        "{opened} of {cases} opened"
    );
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
