//! The input is rows of the chunk index of an otherwise sound file. Its first byte selects the
//! file. Payload offsets are relative to the first payload.

#![no_main]

mod container;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use container::{
    METADATA, FileRegions, ROW_BYTES, SECONDARY_INDEX, ZONE_MAPS, append_footer, append_region, both,
    check, is_checked, open, positions, read_chunks, read_postings, read_zones, sample, told,
    with_file,
};

/// A file with one dataset, and one with several.
static PARTS: LazyLock<[FileRegions; 2]> = LazyLock::new(|| {
    let alone = DatasetSpec::new("a", Dtype::U16, &[5, 4], &[2, 3]);
    [FileRegions::of(vec![alone], &[(0..40).collect()]), sample()]
});

fuzz_target!(|bytes: &[u8]| {
    let Some((selector, rows)) = bytes.split_first() else {
        return;
    };
    let is_sample = selector & 1 != 0;
    let parts = &PARTS[usize::from(is_sample)];
    let mut file = parts.assemble(rows, &parts.payloads);
    let payload_end = file.len();
    if is_sample && selector & 2 != 0 {
        let zone_maps = append_region(&mut file, "zone_maps_ref", ZONE_MAPS.as_bytes());
        let index = append_region(&mut file, "secondary_index_ref", SECONDARY_INDEX.as_bytes());
        let json = format!(r#"{{"history":[],"metadata":{METADATA},{zone_maps},{index}}}"#);
        append_footer(&mut file, 2, json.as_bytes());
    }
    let access = match selector & 4 {
        0 => Access::Mmap,
        _ => Access::Pread,
    };
    let count = (rows.len() / ROW_BYTES) as u64;
    with_file(&file, |path| {
        let (chunks, ..) = both(|access| {
            // Rows are not checked when the file is opened.
            let file = open(path, access, false).expect("a sound file but for its rows");
            assert_eq!(file.chunk_rows(), count);
            let mut stored = Vec::new();
            let visit = |number, row: &_| stored.push((number, *row));
            told(file.stored_rows(access, u64::MAX, visit)).expect("all rows");
            assert_eq!(stored.len() as u64, count);
            let chunks = read_chunks(&file, access);
            let documents = (read_zones(&file, access), read_postings(&file, access));
            (chunks, stored, documents)
        });
        if !is_checked(bytes) {
            return;
        }
        let mut is_inside = Vec::new();
        for dataset in open(path, access, false).expect("as before").datasets() {
            let count = positions(dataset, path).len();
            is_inside.extend((1..=count).map(|number| number < count));
        }
        let errors = check(path, access, &file, payload_end);
        for (chunk, is_inside) in chunks.iter().zip(is_inside) {
            assert!(is_inside || chunk.is_err(), "outside the grid: {chunk:?}");
            assert!(errors > 0 || chunk.is_ok() == is_inside, "{chunk:?}");
        }
    });
});
