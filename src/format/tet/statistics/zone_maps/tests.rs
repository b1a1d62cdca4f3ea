use std::sync::Arc;

use super::*;
use crate::format::tet::testing::{cells, data, with_documents};
use crate::format::tet::{ChunkReader, OpenOptions, TetFile};

const ACCESS: [Access; 2] = [Access::Mmap, Access::Pread];
/// Entries for all chunks of the sample except the last chunk of `a`.
const ENTRIES: [&str; 6] = [
    r#"{"dataset_id":0,"chunk_index":[0,0],"element_count":6,"null_count":0,"min_le":"00","max_le":"06"}"#,
    r#"{"dataset_id":0,"chunk_index":[0,1],"element_count":2,"null_count":0,"min_le":"03","max_le":"07"}"#,
    r#"{"dataset_id":0,"chunk_index":[1,0],"element_count":3,"null_count":0,"min_le":"08","max_le":"0A"}"#,
    r#"{"dataset_id":1,"chunk_index":[0],"element_count":2,"null_count":1,"min_le":"0500","max_le":"0500"}"#,
    r#"{"dataset_id":1,"chunk_index":[1],"element_count":2,"null_count":2}"#,
    r#"{"dataset_id":2,"chunk_index":[0],"element_count":3,"null_count":1,"min_le":"00000080","max_le":"0000c03f"}"#,
];

fn json(entries: &[&str]) -> String {
    let entries = entries.join(",\n");
    format!(
        r#"{{"version":1,"generation":0,"packed_sha256":"00","unknown":[{{}}],"chunks":[{entries}]}}"#
    )
}

fn error(zone_maps: &str) -> String {
    let sample = with_documents(Some(zone_maps), None);
    let file = sample.open();
    let [first, second] = ACCESS.map(|access| file.zone_maps(access).unwrap_err().to_string());
    // The second call returns the cached error.
    assert_eq!(first, second);
    let other = sample.open().zone_maps(Access::Pread).unwrap_err();
    assert_eq!(first, other.to_string());
    assert!(first.starts_with(&sample.path.display().to_string()));
    first
}

#[test]
fn zones_are_found_by_chunk() {
    let mut backwards = ENTRIES;
    backwards.reverse();
    for entries in [ENTRIES, backwards] {
        let sample = with_documents(Some(&json(&entries)), None);
        for access in ACCESS {
            let file = sample.open();
            let zones = file.zone_maps(access).unwrap().unwrap();
            let [a, b, c] = file.datasets() else {
                panic!("three datasets")
            };
            let zone = |dataset, chunk: &[u64]| {
                let zone = zones.summary(dataset, chunk)?;
                Some((zone.elements, zone.nulls, zone.range))
            };
            assert_eq!(zone(a, &[0, 1]), Some((2, 0, Some((3, 7)))));
            assert_eq!(zone(a, &[1, 0]), Some((3, 0, Some((8, 10)))));
            assert_eq!(zone(b, &[0]), Some((2, 1, Some((5, 5)))));
            assert_eq!(zone(b, &[1]), Some((2, 2, None)));
            let range = (0x8000_0000, 0x3fc0_0000);
            assert_eq!(zone(c, &[0]), Some((3, 1, Some(range))));
            for absent in [&[1, 1][..], &[0], &[2, 0], &[0, 0, 0], &[]] {
                assert_eq!(zone(a, absent), None);
            }
            let complete = [a, b, c].map(|dataset| zones.is_complete(dataset));
            assert_eq!(complete, [false, true, true]);
            let again = file.zone_maps(access).unwrap().unwrap();
            assert!(Arc::ptr_eq(&zones, &again));
        }
    }
}

#[test]
fn zone_maps_are_optional() {
    let sample = with_documents(None, Some("{}"));
    assert!(sample.open().zone_maps(Access::Mmap).unwrap().is_none());
    let sample = with_documents(Some(&json(&[])), None);
    let file = sample.open();
    let zones = file.zone_maps(Access::Mmap).unwrap().unwrap();
    assert!(!zones.is_complete(&file.datasets()[0]));
    let unread = OpenOptions {
        ignore_footer: true,
        ..OpenOptions::default()
    };
    let file = TetFile::open(&sample.path, unread).unwrap();
    assert!(file.zone_maps(Access::Mmap).unwrap().is_none());
}

#[test]
fn one_wrong_entry_invalidates_all() {
    let u8s = ENTRIES[1];
    let i16s = ENTRIES[3];
    let f32s = ENTRIES[5];
    for (entry, from, to, expected) in [
        (
            u8s,
            r#"dataset_id":0"#,
            r#"dataset_id":3"#,
            "dataset_id is 3",
        ),
        (u8s, "[0,1]", "[0,2]", "chunk_index is [0, 2]"),
        (u8s, "[0,1]", "[0]", "chunk_index is [0]"),
        (u8s, "[0,1]", "[18446744073709551615,1]", "chunk_index"),
        (u8s, "[0,1]", "[0,1,0,0,0,0,0,0,0]", "unreadable"),
        (
            u8s,
            r#"element_count":2"#,
            r#"element_count":6"#,
            "element_count is 6, expected 2",
        ),
        (
            u8s,
            r#"null_count":0"#,
            r#"null_count":1"#,
            "null_count is 1, expected 0",
        ),
        (
            u8s,
            r#""03""#,
            r#""08""#,
            r#"min_le and max_le is "08" and "07""#,
        ),
        (u8s, r#""03""#, r#""0300""#, r#"min_le is "0300""#),
        (u8s, r#""03""#, r#""3""#, "unreadable"),
        (u8s, r#""03""#, r#""0x""#, "unreadable"),
        (u8s, r#""03""#, "3", "unreadable"),
        (u8s, r#","min_le":"03""#, "", "absent and present"),
        (
            i16s,
            r#"null_count":1"#,
            r#"null_count":3"#,
            "null_count is 3",
        ),
        (i16s, r#"null_count":1"#, r#"null_count":2"#, "both absent"),
        (
            i16s,
            r#"min_le":"0500""#,
            r#"min_le":"ffff""#,
            "than the fill value",
        ),
        (i16s, r#"max_le":"0500""#, r#"max_le":"0080""#, "ascending"),
        (f32s, "00000080", "0000c0ff", "other than NaN"),
        (f32s, "0000c03f", "000080bf", "ascending"),
        (
            f32s,
            r#"max_le":"0000c03f""#,
            r#"max_le":null"#,
            "present and absent",
        ),
        (f32s, r#"null_count":1"#, r#"null_count":-1"#, "unreadable"),
        (f32s, r#""null_count":1,"#, "", "null_count"),
        (
            f32s,
            r#""null_count":1"#,
            r#""null_count":1,"null_count":1"#,
            "duplicate",
        ),
    ] {
        let changed = entry.replace(from, to);
        assert_ne!(changed, entry);
        let message = error(&json(&[ENTRIES[0], &changed, ENTRIES[2]]));
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let message = error(&json(&[u8s, ENTRIES[0], u8s]));
    assert!(
        message.contains(r#"dataset "a", chunk [0, 1]: chunks is two entries"#),
        "{message}"
    );
    let message = error(&json(&[ENTRIES[0]; 8]));
    assert!(message.contains("more than 7 entries"), "{message}");
}

#[test]
fn malformed_documents_are_refused() {
    let good = json(&ENTRIES);
    let deep = format!(r#"{{"unknown":{}"#, "[".repeat(1_000_000));
    let long = format!(
        r#"{{"version":1,"packed_sha256":"{}"#,
        "x".repeat(1_000_000)
    );
    let texts = format!(r#"{{"version":1,"chunks":["{}"]}}"#, "\\n".repeat(500_000));
    for (text, expected) in [
        ("", "unreadable (EOF"),
        ("\0\0\0", "unreadable"),
        ("[1]", "unreadable"),
        ("{}", "no list of entries"),
        (r#"{"chunks":[]}"#, "missing field `version`"),
        (r#"{"version":2,"chunks":[]}"#, "version is 2, expected 1"),
        (r#"{"version":1,"chunks":[],"chunks":[]}"#, "duplicate"),
        (r#"{"version":1,"chunks":{}}"#, "unreadable"),
        (r#"{"version":1,"chunks":[]} x"#, "trailing"),
        (&good[..good.len() / 2], "EOF"),
        (&deep, "unreadable"),
        (&long, "a string of more than 65536 bytes at offset "),
        (&texts, "a string of more than 65536 bytes at offset "),
    ] {
        let message = error(text);
        assert!(message.contains(expected), "{expected}: {message}");
        assert!(message.len() < 600, "{} bytes", message.len());
    }
}

#[test]
fn a_broken_reference_affects_only_the_zone_maps() {
    use crate::format::tet::testing::append_footer;
    let sample = with_documents(None, None);
    let original = std::fs::read(&sample.path).unwrap();
    for (offset, length) in [(u64::MAX, 1), (1 << 40, 0), (1, original.len() as u64)] {
        let mut bytes = original.clone();
        let reference = format!(r#"{{"offset":{offset},"len":{length}}}"#);
        append_footer(&mut bytes, &format!(r#"{{"zone_maps_ref":{reference}}}"#));
        // Use a new file each time, since the previous one may still be mapped.
        let path = sample.folder.path().join(offset.to_string());
        std::fs::write(&path, &bytes).unwrap();
        let file = TetFile::open(&path, OpenOptions::default()).unwrap();
        for access in ACCESS {
            let result = file.zone_maps(access);
            let expected = if offset == 1 {
                "JSON is"
            } else {
                "zone_maps_ref is"
            };
            let message = result.unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}

#[test]
fn zones_of_reference_files_agree_with_their_cells() {
    let mut paths = vec![data("weather_small.tet"), data("coordvars.tet")];
    for entry in data("converted").read_dir().unwrap() {
        paths.push(entry.unwrap().path());
    }
    let (mut nulls, mut checked) = (0, 0);
    for path in paths {
        let Ok(file) = TetFile::open(&path, OpenOptions::default()) else {
            continue;
        };
        let file = Arc::new(file);
        let Some(zones) = file.zone_maps(Access::Pread).unwrap() else {
            continue;
        };
        let mut chunks = ChunkReader::new(Arc::<TetFile>::clone(&file), Access::Mmap);
        for dataset in file.datasets() {
            checked += 1;
            assert!(zones.is_complete(dataset));
            let subject = EntryDataset::of(&path, file.described(), dataset.id())
                .unwrap()
                .unwrap();
            for ordinal in 0..dataset.chunk_count().unwrap() {
                let chunk = dataset.chunk_at(ordinal);
                let (mut present, chunk_nulls) = cells(&mut chunks, &subject, &chunk);
                present.sort_by_key(|bits| subject.dtype.order(*bits));
                let expected = ChunkSummary {
                    elements: present.len() as u64 + chunk_nulls,
                    nulls: chunk_nulls,
                    range: present.first().copied().zip(present.last().copied()),
                };
                nulls += chunk_nulls;
                assert_eq!(zones.summary(dataset, &chunk), Some(expected));
            }
        }
    }
    assert!(
        nulls > 0 && checked > 20,
        "{nulls} nulls, {checked} datasets"
    );
}

#[test]
fn threads_share_one_reading() {
    let sample = with_documents(Some(&json(&ENTRIES)), None);
    let file = sample.open();
    let read = || file.zone_maps(Access::Mmap).unwrap().unwrap();
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(all.iter().all(|zones| Arc::ptr_eq(zones, &all[0])));
}
