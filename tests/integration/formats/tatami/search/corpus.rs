//! Segments written by the reference implementation, with the results that it finds.

use std::path::PathBuf;

use serde_json::Value;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::TatamiFile;
use tet_sql::format::tatami::search::{Hit, Mode, Segment};

use super::super::data;

pub fn path(name: &str) -> PathBuf {
    data::path("search").join(name)
}

pub fn open(name: &str, access: Access) -> Segment {
    let file = TatamiFile::open(path(&format!("{name}.tatami")), access).unwrap();
    Segment::open(&file).unwrap().unwrap()
}

pub fn json_lines(name: &str) -> Vec<Value> {
    data::lines(&format!("search/{name}"))
}

fn hits(list: &Value) -> Vec<Hit> {
    let hit = |hit: &Value| Hit {
        document: hit[0].as_u64().unwrap() as u32,
        score: f32::from_bits(u32::from_str_radix(hit[1].as_str().unwrap(), 16).unwrap()),
    };
    list.as_array().unwrap().iter().map(hit).collect()
}

fn bits(hits: &[Hit]) -> Vec<(u32, u32)> {
    hits.iter()
        .map(|hit| (hit.document, hit.score.to_bits()))
        .collect()
}

fn all_matches(segment: &Segment, query: &str, mode: Mode) -> Vec<Hit> {
    let mut matches = segment.matches(query, mode).unwrap();
    let mut hits = Vec::new();
    while matches.next_batch(&mut hits).unwrap() {}
    hits
}

#[test]
fn every_query_gives_the_hits_and_scores_of_the_reference() {
    // Queries of the same documents in another file.
    let same = [
        ("flatdict", "full"),
        ("real_v010", "full"),
        ("snippet_groups", "full"),
    ];
    let own = [
        "full",
        "deleted",
        "merged",
        "large_snippet",
        "one_doc",
        "flatdict",
        "real_v010",
        "snippet_groups",
    ];
    let mut count = 0;
    for (name, queries) in own.iter().map(|name| (*name, *name)).chain(same) {
        let lines = json_lines(&format!("{queries}.queries.jsonl"));
        let (head, queries) = lines.split_first().unwrap();
        for access in [Access::Mmap, Access::Pread] {
            let segment = open(name, access);
            segment.verify().unwrap();
            assert_eq!(segment.documents(), head["num_docs"]);
            assert_eq!(segment.live_documents(), head["live_docs"]);
            assert_eq!(segment.terms(), head["num_terms"]);
            for query in queries {
                let words = query[0].as_str().unwrap();
                let k = query[1].as_u64().unwrap() as usize;
                let expected = hits(&query[2]);
                let found = segment.search(words, Mode::Any, k).unwrap();
                assert_eq!(bits(&found), bits(&expected), "{name}: {words}, {k}");
                let mut all = all_matches(&segment, words, Mode::Any);
                assert!(all.is_sorted_by_key(|hit| hit.document));
                all.sort();
                all.truncate(k);
                assert_eq!(all, expected);
                let mut cursor = segment.hits(words, Mode::Any, 3);
                let mut listed = Vec::new();
                while let Some(batch) = cursor.next_batch().unwrap().filter(|_| listed.len() < k) {
                    listed.extend_from_slice(batch);
                }
                listed.truncate(k);
                assert_eq!(listed, expected);
                count += 1;
            }
        }
    }
    assert!(count > 1200, "{count}");
}

#[test]
fn deleted_documents_are_left_out() {
    let lines = json_lines("deleted.queries.jsonl");
    let segment = open("deleted", Access::Mmap);
    let live = segment.live().unwrap();
    let expected: Vec<u64> = lines[0]["live"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap())
        .collect();
    let found: Vec<u64> = (0..320).filter(|&id| live.contains(id as u32)).collect();
    assert_eq!(found, expected);

    let segment = open("all_deleted", Access::Mmap);
    assert_eq!((segment.documents(), segment.live_documents()), (320, 0));
    for mode in [Mode::Any, Mode::All] {
        assert!(segment.search("com example", mode, 10).unwrap().is_empty());
        assert!(all_matches(&segment, "com example", mode).is_empty());
    }
}

#[test]
fn an_empty_segment_has_no_terms() {
    let segment = open("empty", Access::Mmap);
    segment.verify().unwrap();
    assert_eq!((segment.documents(), segment.terms()), (0, 0));
    assert!(segment.find(b"a").unwrap().is_none());
    assert!(segment.terms_from(b"", b"").next().unwrap().is_none());
    assert!(segment.search("a b", Mode::Any, 10).unwrap().is_empty());
}

#[test]
fn every_posting_is_that_of_the_reference() {
    for (name, postings) in [
        ("full", "full"),
        ("flatdict", "full"),
        ("real_v010", "full"),
        ("snippet_groups", "full"),
        ("deleted", "full"),
        ("one_doc", "one_doc"),
    ] {
        for access in [Access::Mmap, Access::Pread] {
            let segment = open(name, access);
            let mut terms = segment.terms_from(b"", b"");
            for line in json_lines(&format!("{postings}.postings.jsonl")) {
                let (term, entry) = terms.next().unwrap().unwrap();
                assert_eq!(term, line["t"].as_str().unwrap().as_bytes(), "{name}");
                assert_eq!(entry.document_frequency, line["df"]);
                assert_eq!(segment.find(term).unwrap(), Some(entry));
                let mut list = segment.postings(&entry).unwrap();
                let most = list
                    .skip_entries()
                    .iter()
                    .map(|skip| skip.max_frequency)
                    .max();
                assert_eq!(u64::from(most.unwrap()), line["max"]);
                let expected = line["p"].as_array().unwrap();
                for posting in expected {
                    let found = list.next().unwrap().unwrap();
                    assert_eq!(u64::from(found.document), posting[0]);
                    assert_eq!(u64::from(found.frequency), posting[1]);
                }
                assert!(list.next().unwrap().is_none());
                for document in (0..=320u32).step_by(5) {
                    let next = expected
                        .iter()
                        .find(|p| p[0].as_u64() >= Some(document.into()));
                    let mut list = segment.postings(&entry).unwrap();
                    list.seek(document / 3).unwrap();
                    let before = expected
                        .iter()
                        .find(|p| p[0].as_u64() >= Some((document / 3).into()));
                    let found = list.seek(document).unwrap();
                    // A posting that was returned once is not returned again.
                    if next != before {
                        assert_eq!(
                            found.map(|p| u64::from(p.document)),
                            next.map(|p| p[0].as_u64().unwrap())
                        );
                    }
                }
            }
            assert!(terms.next().unwrap().is_none());
        }
    }
}

#[test]
fn terms_are_listed_from_a_start_and_by_a_prefix() {
    for name in ["full", "flatdict", "large_snippet"] {
        let segment = open(name, Access::Mmap);
        let list = |start: &[u8], prefix: &[u8]| {
            let mut terms = segment.terms_from(start, prefix);
            let mut found = Vec::new();
            while let Some((term, _)) = terms.next().unwrap() {
                found.push(term.to_vec());
            }
            assert!(terms.next().unwrap().is_none());
            found
        };
        let all = list(b"", b"");
        assert!(all.is_sorted() && all.len() as u64 == segment.terms());
        for at in (0..all.len()).step_by(7) {
            for length in 0..=all[at].len() {
                let prefix = &all[at][..length];
                let start = all[at / 2].as_slice();
                let expected: Vec<_> = all
                    .iter()
                    .filter(|t| t.starts_with(prefix))
                    .cloned()
                    .collect();
                assert_eq!(list(b"", prefix), expected);
                let expected: Vec<_> = expected
                    .into_iter()
                    .filter(|term| term.as_slice() >= start)
                    .collect();
                assert_eq!(list(start, prefix), expected);
                let other = [prefix, b"!"].concat();
                assert_eq!(segment.find(&other).unwrap(), None);
            }
        }
    }
}

#[test]
fn phrases_are_refused() {
    let error = "phrase".parse::<Mode>().unwrap_err();
    assert!(error.contains("but not where"), "{error}");
    assert_eq!("ALL".parse(), Ok(Mode::All));
}
