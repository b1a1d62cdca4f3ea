//! Search segments made by the tests: files of a single column without pages, and the inverted index.

use std::io::Read;
use std::path::Path;

use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::search::{Segment, SegmentBuilder, SegmentParts};
use tet_sql::format::tatami::{
    ColumnChunk, ColumnType, Extent, FLAG_BLOCK_TREE, FLAG_INDEXES, FLAG_SEARCH_SEGMENT, Field,
    FileHeader, Footer, HEADER_BYTES, Inverted, KIND_INDEX, MAX_PAGE_ROWS, RecordHeader, RowGroup,
    Schema, Stats, TatamiFile, Trailer,
};

/// The bytes of a file with an inverted index.
pub struct File {
    pub bytes: Vec<u8>,
    pub inverted: Inverted,
}

/// A predictable generator of random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// Ends a file of `rows` rows whose bytes so far end with the inverted index.
pub fn finish(mut bytes: Vec<u8>, inverted: Inverted, rows: u64) -> Vec<u8> {
    let footer_offset = bytes.len() as u64;
    let footer = Footer {
        schema: Schema {
            fields: vec![Field {
                name: "body".to_string(),
                column_type: ColumnType::String,
                flags: 0,
                element_type: 0,
            }],
        },
        row_groups: vec![RowGroup {
            first_row: 0,
            rows,
            total_bytes: 0,
            sort_bounds: None,
            chunks: vec![ColumnChunk {
                column: 0,
                first_page_offset: HEADER_BYTES,
                stored_bytes: 0,
                raw_bytes: 0,
                values: rows,
                nulls: 0,
                // Never read.
                pages: rows.div_ceil(MAX_PAGE_ROWS.into()),
                encoding: 0,
                codec: 0,
                zone: None,
                bloom: None,
                page_index: None,
            }],
        }],
        stats: Stats {
            rows,
            ..Stats::default()
        },
        inverted: Some(inverted),
        ..Footer::default()
    };
    let footer = footer.encode();
    let header = FileHeader {
        flags: FLAG_INDEXES | FLAG_SEARCH_SEGMENT | FLAG_BLOCK_TREE,
        rows,
        footer_offset,
        ..FileHeader::default()
    };
    bytes[..HEADER_BYTES as usize].copy_from_slice(&header.encode());
    let trailer = Trailer {
        footer_length: footer.len() as u32,
        footer_crc: crc32c::crc32c(&footer),
    };
    bytes.extend_from_slice(&footer);
    bytes.extend_from_slice(&trailer.encode());
    bytes
}

/// Appends the records of an index to the bytes of a file.
pub fn append(bytes: &mut Vec<u8>, parts: &mut SegmentParts) -> Inverted {
    let mut record = |payload: &mut dyn Read| {
        let offset = bytes.len() as u64;
        let mut content = Vec::new();
        payload.read_to_end(&mut content).unwrap();
        let size = content.len() as u32;
        let header = RecordHeader {
            kind: KIND_INDEX,
            raw_size: size,
            stored_size: size,
            crc: crc32c::crc32c(&content),
            ..RecordHeader::default()
        };
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(&content);
        Extent {
            offset,
            length: size.into(),
        }
    };
    let segment = parts.segment();
    Inverted {
        term_dictionary: record(segment.term_dictionary),
        postings: record(segment.postings),
        skips: record(segment.skips),
        terms: segment.terms,
        documents: segment.documents,
        live: segment.live.map(record),
    }
}

/// Builds a segment of documents of one text each.
pub fn build(
    texts: impl Iterator<Item = Vec<u8>>,
    budget: usize,
    is_live: Option<&dyn Fn(u64) -> bool>,
) -> File {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = SegmentBuilder::new(directory.path(), budget);
    let mut rows = 0;
    for text in texts {
        builder.add([&text]).unwrap();
        rows += 1;
    }
    let mut parts = builder.finish(is_live).unwrap();
    let mut bytes = vec![0; HEADER_BYTES as usize];
    let inverted = append(&mut bytes, &mut parts);
    File {
        bytes: finish(bytes, inverted, rows),
        inverted,
    }
}

/// Opens a segment in a file that is deleted by the caller.
pub fn open(path: &Path, file: &File) -> Segment {
    std::fs::write(path, &file.bytes).unwrap();
    Segment::open(&TatamiFile::open(path, Access::Mmap).unwrap())
        .unwrap()
        .unwrap()
}
