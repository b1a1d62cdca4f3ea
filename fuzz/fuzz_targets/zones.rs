//! The input is the zone maps or the secondary index of an otherwise sound file. Its first byte
//! selects which.

#![no_main]

mod container;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;

use container::{
    METADATA, FileRegions, SECONDARY_INDEX, ZONE_MAPS, append_footer, append_region, both, check,
    is_checked, open, read_postings, read_zones, sample, with_file,
};

/// The sample, after a check that its own zone maps and index are sound.
static SAMPLE: LazyLock<FileRegions> = LazyLock::new(|| {
    let sample = sample();
    let documents = [ZONE_MAPS, SECONDARY_INDEX].map(|document| Some(document.as_bytes()));
    let (file, payload_end) = with_documents(&sample, documents);
    let errors = with_file(&file, |path| check(path, Access::Mmap, &file, payload_end));
    assert_eq!(errors, 0);
    sample
});

/// Builds a file with zone maps and a secondary index. Returns the file and the offset of the end
/// of its payloads.
fn with_documents(sample: &FileRegions, documents: [Option<&[u8]>; 2]) -> (Vec<u8>, usize) {
    let mut file = sample.assemble(&sample.rows, &sample.payloads);
    let payload_end = file.len();
    let mut json = format!(r#"{{"history":[],"metadata":{METADATA}"#);
    for (key, document) in ["zone_maps_ref", "secondary_index_ref"]
        .iter()
        .zip(documents)
    {
        if let Some(document) = document {
            json += ",";
            json += &append_region(&mut file, key, document);
        }
    }
    json += "}";
    append_footer(&mut file, 2, json.as_bytes());
    (file, payload_end)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((selector, document)) = bytes.split_first() else {
        return;
    };
    let documents = match selector & 3 {
        0 => [Some(document), None],
        1 => [None, Some(document)],
        2 => [Some(document), Some(SECONDARY_INDEX.as_bytes())],
        _ => [Some(ZONE_MAPS.as_bytes()), Some(document)],
    };
    let (file, payload_end) = with_documents(&SAMPLE, documents);
    let access = match selector & 4 {
        0 => Access::Mmap,
        _ => Access::Pread,
    };
    with_file(&file, |path| {
        let (zones, postings) = both(|access| {
            let file = open(path, access, false).expect("a sound file but for its documents");
            let read = (read_zones(&file, access), read_postings(&file, access));
            // The second read is answered from the cache.
            let again = (read_zones(&file, access), read_postings(&file, access));
            assert_eq!(read, again);
            read
        });
        if !is_checked(bytes) {
            return;
        }
        let errors = check(path, access, &file, payload_end);
        assert!(errors > 0 || (zones.is_ok() && postings.is_ok()));
        // All errors in zone maps and indexes can be repaired.
        if errors > 0 {
            let errors = check(path, access, &file, payload_end);
            assert_eq!(errors, 0, "after the repair");
        }
    });
});
