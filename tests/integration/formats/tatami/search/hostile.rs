//! Broken search indexes open or return an error. They never panic.

use tet_sql::error::Result;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::search::{Mode, Segment};
use tet_sql::format::tatami::{Extent, FLAG_BLOCK_TREE, FileHeader, TatamiFile};

use super::corpus::path;
use super::segments::{Random, build};

/// The length of a record's header, and the offset of the checksum in it.
const RECORD_HEADER: usize = 32;
const RECORD_CRC: usize = 24;

/// Reads everything, in several ways.
fn use_all(path: &std::path::Path, access: Access, words: &[&str]) -> Result<()> {
    let file = TatamiFile::open(path, access)?;
    let Some(segment) = Segment::open(&file)? else {
        return Ok(());
    };
    let mut results = vec![segment.verify()];
    for mode in [Mode::Any, Mode::All] {
        for query in [words.join(" "), words[0].to_string(), words[..2].join(" ")] {
            results.push(segment.search(&query, mode, 3).map(|_| ()));
            let mut hits = Vec::new();
            results.push((|| {
                let mut matches = segment.matches(&query, mode)?;
                while matches.next_batch(&mut hits)? {}
                Ok(())
            })());
            assert!(hits.len() as u64 <= segment.documents());
        }
    }
    results.push((|| {
        let mut terms = segment.terms_from(b"m", b"");
        while let Some((_, entry)) = terms.next()? {
            let mut postings = segment.postings(&entry)?;
            postings.seek(100)?;
        }
        Ok(())
    })());
    results.into_iter().collect()
}

/// Changes some bytes of one of the parts, and repairs its checksum. Lengths stay.
fn mutate(bytes: &mut [u8], parts: &[Extent], random: &mut Random) {
    let part = parts[random.below(parts.len() as u64) as usize];
    let start = part.offset as usize + RECORD_HEADER;
    let payload = &mut bytes[start..start + part.length as usize];
    if payload.is_empty() {
        return;
    }
    for _ in 0..=random.below(3) {
        // The heads of lists and of the dictionary are at the start.
        let near = match random.below(3) {
            0 => 40,
            _ => payload.len() as u64,
        };
        let at = random.below(near.min(payload.len() as u64)) as usize;
        match random.below(5) {
            0 => payload[at] ^= 1 << random.below(8),
            1 => payload[at] = random.next() as u8,
            2 => payload[at] = [0, 0xff, 0x80, 0x7f][random.below(4) as usize],
            3 => payload[at..].rotate_left(1),
            _ => payload[at..].rotate_right(1),
        }
    }
    let crc = crc32c::crc32c(payload);
    let field = part.offset as usize + RECORD_CRC;
    bytes[field..field + 4].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn mutated_indexes_are_read_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    // Words with posting lists of several blocks, and rare ones.
    let text = |id: u64| {
        format!(
            "all {} r{} q{}",
            if id.is_multiple_of(2) {
                "half half"
            } else {
                ""
            },
            id % 60,
            id / 5
        )
    };
    let texts = || (0..400).map(|id| text(id).into_bytes());
    let is_live: &dyn Fn(u64) -> bool = &|id| id % 3 > 0;
    for live in [None, Some(is_live)] {
        let file = build(texts(), 1 << 20, live);
        files.push((file.bytes, file.inverted, ["all", "half", "r7", "q9"]));
    }
    for name in ["flatdict", "large_snippet"] {
        let bytes = std::fs::read(path(&format!("{name}.tatami"))).unwrap();
        let file = TatamiFile::open(path(&format!("{name}.tatami")), Access::Pread).unwrap();
        files.push((
            bytes,
            file.footer().inverted.unwrap(),
            ["com", "example", "html", "exact128"],
        ));
    }
    let mut random = Random(7);
    let (mut read, mut refused) = (0, 0);
    for case in 0..20_000u64 {
        let (bytes, inverted, words) = &files[[0, 1, 0, 1, 0, 1, 0, 1, 2, 3][case as usize % 10]];
        let mut parts = vec![inverted.term_dictionary, inverted.postings, inverted.skips];
        parts.extend(inverted.live);
        let mut bytes = bytes.clone();
        mutate(&mut bytes, &parts, &mut random);
        if random.below(20) == 0 {
            // The dictionary is read in the other layout.
            let head = bytes.first_chunk_mut().unwrap();
            let mut header = FileHeader::parse(head).unwrap();
            header.flags ^= FLAG_BLOCK_TREE;
            *head = header.encode();
        }
        let path = directory.path().join(format!("{case}.tatami"));
        std::fs::write(&path, &bytes).unwrap();
        let access = [Access::Mmap, Access::Pread][case as usize / 10 % 2];
        match use_all(&path, access, words) {
            Ok(()) => read += 1,
            Err(_) => refused += 1,
        }
        std::fs::remove_file(&path).unwrap();
    }
    assert!(
        read > 20 && refused > 10_000,
        "{read} read, {refused} refused"
    );
}

#[test]
fn checksums_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(path("deleted.tatami")).unwrap();
    let file = TatamiFile::open(path("deleted.tatami"), Access::Pread).unwrap();
    let inverted = file.footer().inverted.unwrap();
    let parts = [
        (inverted.term_dictionary, "term dictionary"),
        (inverted.postings, "postings"),
        (inverted.skips, "skips"),
        (inverted.live.unwrap(), "live documents"),
    ];
    for (part, name) in parts {
        let mut bytes = bytes.clone();
        bytes[(part.offset + 32 + part.length) as usize - 1] ^= 1;
        let path = directory.path().join(format!("{name}.tatami"));
        std::fs::write(&path, bytes).unwrap();
        let file = TatamiFile::open(&path, Access::Mmap).unwrap();
        let error = Segment::open(&file).unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains("checksum"),
            "{error}"
        );
    }
}
