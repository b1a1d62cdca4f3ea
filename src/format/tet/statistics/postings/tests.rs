use std::sync::Arc;

use super::*;
use crate::format::tet::testing::{cells, data, with_documents};
use crate::format::tet::{ChunkReader, OpenOptions, TetFile};

const ACCESS: [Access; 2] = [Access::Mmap, Access::Pread];
const B: &str = r#"{"kind":"value_postings","dataset_id":1,"dtype":7,"postings":[{"value_le":"0500","chunks":[[0]]}]}"#;
const C: &str = r#"{"kind":"value_postings","dataset_id":2,"dtype":1,"postings":[
    {"value_le":"0000c03f","chunks":[[0]]},
    {"value_le":"00000080","chunks":[[0]]},
    {"value_le":"0000003f","chunks":[]}]}"#;
/// Entries of other kinds, whose contents are ignored.
const OTHERS: &str = r#"
    {"kind":"coord_label_postings","dataset_id":"x","axis":0,"postings":[{"label":"a","chunks":[[0]]}]},
    {"axis":0,"postings":[1],"dataset_id":99,"kind":"sorted_axis_range"},
    {"kind":"of the future","kind":1}"#;

fn json(indexes: &[&str]) -> String {
    let indexes = indexes.join(",");
    format!(r#"{{"version":1,"generation":0,"packed_sha256":"00","indexes":[{indexes}]}}"#)
}

fn error(index: &str) -> String {
    let sample = with_documents(None, Some(index));
    let file = sample.open();
    let [first, second] = ACCESS.map(|access| file.value_postings(access).unwrap_err().to_string());
    assert_eq!(first, second);
    assert!(first.starts_with(&sample.path.display().to_string()));
    first
}

#[test]
fn values_and_their_chunks_are_found() {
    // Keys in alphabetical order are accepted, too.
    let a = r#"{"dataset_id":0,"dtype":5,"kind":"value_postings","postings":[
        {"chunks":[[1,1],[0,0]],"value_le":"0A"}, {"unknown":[{}],"chunks":[[0,1]],"value_le":"03"}]}"#;
    let sample = with_documents(None, Some(&json(&[OTHERS, a, C])));
    for access in ACCESS {
        let file = sample.open();
        let postings = file.value_postings(access).unwrap().unwrap();
        let [a, b, c] = file.datasets() else {
            panic!("three datasets")
        };
        let a = postings.of(a).unwrap();
        assert_eq!(a.values(), [3, 10]);
        let chunks = |value| -> Vec<u64> {
            let all = (0..200).filter(|ordinal| a.contains(value, *ordinal));
            all.collect()
        };
        assert_eq!(chunks(10), [0, 3]);
        assert_eq!(chunks(3), [1]);
        assert!(chunks(4).is_empty());
        assert!(!a.contains(10, u64::MAX));
        assert!(a.contains_nth(0, 1) && a.contains_nth(1, 0) && !a.contains_nth(2, 0));
        assert!(postings.of(b).is_none());
        let c = postings.of(c).unwrap();
        assert_eq!(c.values(), [0x3f00_0000, 0x3fc0_0000, 0x8000_0000]);
        assert!(c.contains(0x8000_0000, 0) && !c.contains(0x3f00_0000, 0));
        let again = file.value_postings(access).unwrap().unwrap();
        assert!(Arc::ptr_eq(&postings, &again));
    }
    let sample = with_documents(Some("{}"), None);
    assert!(
        sample
            .open()
            .value_postings(Access::Mmap)
            .unwrap()
            .is_none()
    );
}

#[test]
fn one_wrong_entry_spoils_them_all() {
    let many: Vec<_> = (0..65)
        .map(|value| format!(r#"{{"value_le":"{value:02x}00","chunks":[[1]]}}"#))
        .collect();
    let many = many.join(",").replace("0500", "4100");
    for (entry, from, to, expected) in [
        (B, r#"dataset_id":1"#, r#"dataset_id":9"#, "dataset_id is 9"),
        (B, r#"dtype":7"#, r#"dtype":6"#, "dtype is 6, expected 7"),
        (B, r#"dtype":7"#, r#"dtype":"i16""#, "unreadable"),
        (B, r#""dtype":7,"#, "", "without postings after"),
        (B, r#""kind":"value_postings","#, "", "missing field `kind`"),
        (B, r#""dtype":7"#, r#""dtype":7,"dtype":7"#, "duplicate"),
        (
            B,
            "[[0]]",
            "[[2]]",
            "chunks is [2], expected chunk indices within the grid [2]",
        ),
        (B, "[[0]]", "[[0,0]]", "chunks is [0, 0]"),
        (B, "[[0]]", "[0]", "unreadable"),
        (B, r#""0500""#, r#""05""#, r#"value_le is "05""#),
        (B, r#""0500""#, r#""ffff""#, "than the fill value"),
        (B, r#","chunks":[[0]]"#, "", "missing field `chunks`"),
        (B, r#""value_le":"0500","#, "", "missing field `value_le`"),
        (
            B,
            r#""chunks":[[0]]"#,
            r#""chunks":[],"chunks":[[0]]"#,
            "duplicate",
        ),
        (
            B,
            r#"{"value_le":"0500","chunks":[[0]]}"#,
            &many,
            "more than 64 values",
        ),
        (C, "0000003f", "00000080", r#""00000080" for a second time"#),
        (C, "00000080", "0000c0ff", "other than NaN"),
    ] {
        let changed = entry.replace(from, to);
        assert_ne!(changed, entry);
        let message = error(&json(&[&changed, OTHERS]));
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let message = error(&json(&[B, C, B]));
    assert!(
        message.contains("two entries of value postings"),
        "{message}"
    );
    let version = json(&[B]).replace("version\":1", "version\":0");
    assert!(error(&version).contains("version is 0, expected 1"));
    assert!(error(r#"{"version":1}"#).contains("no list of entries"));
}

#[test]
fn a_record_that_claims_too_many_chunks_takes_no_memory() {
    let sample = with_documents(None, Some(&json(&[B])));
    let mut bytes = std::fs::read(&sample.path).unwrap();
    // The file offset of `b`'s shape: 40 bytes before the records, 56 bytes for the record of `a`,
    // four `u32` fields, and the padded name.
    let offset = 40 + 56 + 16 + 8;
    assert_eq!(bytes[offset..offset + 8], 4u64.to_le_bytes());
    bytes[offset..offset + 8].copy_from_slice(&(1u64 << 60).to_le_bytes());
    let path = sample.folder.path().join("changed.tet");
    std::fs::write(&path, bytes).unwrap();
    let file = TetFile::open(&path, OpenOptions::default()).unwrap();
    let message = file.value_postings(Access::Mmap).unwrap_err().to_string();
    assert!(
        message.contains("more chunks than the file has"),
        "{message}"
    );
}

#[test]
fn postings_of_a_reference_file_agree_with_its_cells() {
    let file = TetFile::open(data("weather_small.tet"), OpenOptions::default()).unwrap();
    let file = Arc::new(file);
    let mut chunks = ChunkReader::new(Arc::<TetFile>::clone(&file), Access::Pread);
    let postings = file.value_postings(Access::Pread).unwrap().unwrap();
    let mut indexed = 0;
    for dataset in file.datasets() {
        let Some(postings) = postings.of(dataset) else {
            continue;
        };
        indexed += 1;
        let subject = EntryDataset::of(file.path(), file.described(), dataset.id())
            .unwrap()
            .unwrap();
        for ordinal in 0..dataset.chunk_count().unwrap() {
            let (mut expected, _) = cells(&mut chunks, &subject, &dataset.chunk_at(ordinal));
            expected.sort_unstable();
            expected.dedup();
            let mut found = postings.values().to_vec();
            found.retain(|value| postings.contains(*value, ordinal));
            assert_eq!(found, expected);
        }
    }
    assert_eq!(indexed, 1);
}
