//! Segments built from the documents of the reference's segments.

use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::search::{Mode, Segment, SegmentBuilder};
use tet_sql::format::tatami::{HEADER_BYTES, RangeBuffer, TatamiFile};

use super::corpus::{json_lines, open, path};
use super::segments::{self, append, finish};

/// Builds the segment of `documents.jsonl`.
fn build(budget: usize) -> segments::File {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = SegmentBuilder::new(directory.path(), budget);
    let mut norms = Vec::new();
    for document in json_lines("documents.jsonl") {
        let text = |name: &str| document[name].as_str().unwrap().as_bytes().to_vec();
        let texts = [text("Body"), text("Title"), text("Anchor"), text("URL")];
        norms.push(
            builder
                .add([&texts[0], &texts[1], &texts[2], &texts[3]])
                .unwrap(),
        );
    }
    // The norms that the reference wrote.
    assert_eq!(norms[0], [55, 1, 0, 8]);
    let mut bytes = vec![0; HEADER_BYTES as usize];
    let mut parts = builder.finish(None).unwrap();
    let inverted = append(&mut bytes, &mut parts);
    segments::File {
        bytes: finish(bytes, inverted, norms.len() as u64),
        inverted,
    }
}

/// The payloads of the postings and the skips.
fn payloads(path: &std::path::Path) -> [Vec<u8>; 2] {
    let file = TatamiFile::open(path, Access::Pread).unwrap();
    let inverted = file.footer().inverted.unwrap();
    [inverted.postings, inverted.skips].map(|extent| {
        let record = file.index_record("part", extent).unwrap();
        record
            .read_checked(&mut RangeBuffer::default())
            .unwrap()
            .to_vec()
    })
}

#[test]
fn the_documents_of_the_reference_give_its_index() {
    let directory = tempfile::tempdir().unwrap();
    let built = directory.path().join("built.tatami");
    let reference = open("full", Access::Mmap);
    for budget in [usize::MAX, 20_000, 0] {
        let segment = segments::open(&built, &build(budget));
        segment.verify().unwrap();
        // The bytes are equal; only the compression of terms differs.
        assert!(payloads(&built) == payloads(&path("full.tatami")));
        let mut terms = segment.terms_from(b"", b"");
        let mut expected = reference.terms_from(b"", b"");
        while let Some((term, entry)) = expected.next().unwrap() {
            assert_eq!(terms.next().unwrap(), Some((term, entry)));
        }
        assert_eq!(terms.next().unwrap(), None);
        for query in json_lines("full.queries.jsonl").iter().skip(1) {
            let words = query[0].as_str().unwrap();
            let hits = segment.search(words, Mode::Any, 1000).unwrap();
            assert_eq!(hits, reference.search(words, Mode::Any, 1000).unwrap());
        }
    }
}

#[test]
fn an_empty_segment_has_the_parts_of_the_reference() {
    let directory = tempfile::tempdir().unwrap();
    let file = segments::build(std::iter::empty(), 0, None);
    let built = directory.path().join("built.tatami");
    std::fs::write(&built, &file.bytes).unwrap();
    assert_eq!(payloads(&built), payloads(&path("empty.tatami")));
    let file = TatamiFile::open(&built, Access::Mmap).unwrap();
    let segment = Segment::open(&file).unwrap().unwrap();
    assert_eq!((segment.documents(), segment.terms()), (0, 0));
}

#[test]
fn long_texts_and_words_are_indexed() {
    let directory = tempfile::tempdir().unwrap();
    let long = "x".repeat(300_000);
    let mut builder = SegmentBuilder::new(directory.path(), 1 << 20);
    let many = "word ".repeat(70_000);
    assert_eq!(
        builder.add([many.as_bytes(), long.as_bytes()]).unwrap(),
        [65_535, 1]
    );
    let texts = [many.into_bytes(), long.clone().into_bytes(), Vec::new()];
    let file = segments::build(texts.into_iter(), 1 << 20, None);
    let segment = segments::open(&directory.path().join("long.tatami"), &file);
    segment.verify().unwrap();
    let entry = segment.find(b"word").unwrap().unwrap();
    assert_eq!(
        segment
            .postings(&entry)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .frequency,
        70_000
    );
    assert_eq!(segment.search(&long, Mode::All, 5).unwrap()[0].document, 1);
}
