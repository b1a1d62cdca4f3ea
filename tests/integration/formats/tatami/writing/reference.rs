//! Rows of the corpus, written with the options that the reference had.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tet_sql::format::array::Compression;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::{
    Codec, ColumnType, FLAG_BLOCK_TREE, FLAG_DICTIONARIES, RangeBuffer, SearchSegment, TatamiFile,
    TatamiWriter, WriterOptions, verify,
};

use super::super::data::{Random, Table, document, lines, names, path};
use super::input::Rows;

/// Returns the options that give the layout of a file of the corpus.
pub fn options(name: &str, rows: &Rows) -> WriterOptions {
    let layout = document(&format!("{name}.layout.json"));
    let mut options = WriterOptions {
        allow_unsorted: name.starts_with("sorted_lie") || name.starts_with("rand"),
        created_ms: layout["created_ms"].as_u64().unwrap(),
        creator: layout["creator_id"].as_u64().unwrap() as u32,
        page_size_hint: layout["page_size_hint"].as_u64().unwrap() as u32,
        ..WriterOptions::default()
    };
    if layout["default_codec"] == "none" {
        options.compression = Compression::Raw;
    }
    let uuid = layout["uuid"].as_str().unwrap();
    for (place, byte) in options.uuid.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&uuid[2 * place..2 * place + 2], 16).unwrap();
    }
    for pair in layout["kv"].as_array().unwrap() {
        let [key, value] = [&pair[0], &pair[1]].map(|text| text.as_str().unwrap().to_string());
        if !key.starts_with("tatami.") {
            options.key_values.push((key, value));
        }
    }
    let groups = layout["groups"].as_array().into_iter().flatten();
    let groups: Vec<&Value> = groups.collect();
    if let [first, _, ..] = groups[..] {
        options.row_group_rows = first["rows"].as_u64().unwrap() as usize;
    }
    let pages = groups.iter().map(|group| &group["chunks"][0]["pages"]);
    if let Some(pages) = pages
        .map(|pages| pages.as_array().unwrap())
        .find(|p| p.len() > 1)
    {
        options.page_rows = pages[0]["num"].as_u64().unwrap() as usize;
    }
    options.blob_run_bytes = run_bytes(&layout, rows).unwrap_or(options.blob_run_bytes);
    options
}

/// Returns the least bound on the bytes of a run that gives the runs of a layout.
fn run_bytes(layout: &Value, rows: &Rows) -> Option<usize> {
    let mut most = None;
    for blobs in layout["blobs"].as_array().into_iter().flatten() {
        let runs = blobs["runs"].as_array().into_iter().flatten();
        let runs: Vec<usize> = runs
            .map(|run| run["num"].as_u64().unwrap() as usize)
            .collect();
        let column = &rows.columns[blobs["col"].as_u64().unwrap() as usize];
        let mut lengths = column.iter().flatten().map(Vec::len);
        for values in runs.iter().filter(|_| runs.len() > 1) {
            let bytes: usize = lengths.by_ref().take(*values).sum();
            if *values > 1 {
                most = most.max(Some(bytes));
            }
        }
    }
    most
}

/// Returns the payload of a record before compression.
fn payload(bytes: &[u8], offset: u64, codec: u8) -> Vec<u8> {
    let offset = offset as usize;
    let size = u32::from_le_bytes(bytes[offset + 12..offset + 16].try_into().unwrap());
    let stored = &bytes[offset + 32..offset + 32 + size as usize];
    match Codec::from_id(codec).unwrap() {
        Codec::Zstd => zstd::decode_all(stored).unwrap(),
        _ => stored.to_vec(),
    }
}

/// Compares a file with that of the reference: everything but the stored bytes of zstd frames, offsets,
/// and whether blobs have a dictionary. Returns `true` if the blobs have the same codecs.
fn compare(name: &str, written: &Path) -> bool {
    let found = TatamiFile::open(written, Access::Mmap).unwrap();
    let expected = TatamiFile::open(path(&format!("{name}.tatami")), Access::Mmap).unwrap();
    let found_bytes = std::fs::read(written).unwrap();
    let expected_bytes = std::fs::read(expected.path()).unwrap();
    let flags = |file: &TatamiFile| file.header().flags & !FLAG_DICTIONARIES;
    assert_eq!(flags(&found), flags(&expected), "{name}");
    let mut header = found.header().clone();
    header.flags = expected.header().flags;
    header.footer_offset = expected.header().footer_offset;
    assert_eq!(&header, expected.header(), "{name}");
    assert_eq!(found.schema(), expected.schema(), "{name}");
    let (found_footer, expected_footer) = (found.footer(), expected.footer());
    assert_eq!(
        found_footer.key_values, expected_footer.key_values,
        "{name}"
    );
    assert_eq!(
        found_footer.stats.rows, expected_footer.stats.rows,
        "{name}"
    );
    assert_eq!(
        found.row_groups().len(),
        expected.row_groups().len(),
        "{name}"
    );
    let groups = found.row_groups().iter().zip(expected.row_groups());
    for (group, (found_group, expected_group)) in groups.enumerate() {
        assert_eq!(found_group.first_row, expected_group.first_row, "{name}");
        assert_eq!(found_group.rows, expected_group.rows, "{name}");
        let is_float = found
            .schema()
            .sort_key()
            .is_some_and(|key| found.schema().fields[key].column_type.is_float());
        if !is_float {
            assert_eq!(
                found_group.sort_bounds, expected_group.sort_bounds,
                "{name}"
            );
        }
        for (column, field) in found.schema().fields.iter().enumerate() {
            let place = format!("{name}, row group {group}, column {column}");
            let [mut a, b] = [&found, &expected].map(|f| f.chunk(group, column).unwrap().clone());
            a.first_page_offset = b.first_page_offset;
            a.stored_bytes = b.stored_bytes;
            assert_eq!(a.page_index.is_some(), b.page_index.is_some(), "{place}");
            a.page_index = b.page_index;
            // The reference folds NaN into zones.
            if !field.column_type.is_float() || !has_nan(&Table::open(name), group, column) {
                assert_eq!(a.zone, b.zone, "{place}");
            }
            a.zone.clone_from(&b.zone);
            assert_eq!(a, b, "{place}");
            let [a, b] = [&found, &expected].map(|f| f.pages(group, column).unwrap());
            assert_eq!(a.len(), b.len(), "{place}");
            for (a, b) in a.iter().zip(b) {
                let mut header = a.header;
                header.stored_size = b.header.stored_size;
                header.crc = b.header.crc;
                assert_eq!(header, b.header, "{place}");
                assert_eq!(
                    payload(&found_bytes, a.offset, header.codec),
                    payload(&expected_bytes, b.offset, header.codec),
                    "{place}"
                );
            }
        }
        let [a, b] = [&found, &expected].map(|file| file.page_index(group).unwrap());
        assert_eq!(a.map(<[_]>::len), b.map(<[_]>::len), "{name}");
        for (a, b) in a.into_iter().flatten().zip(b.into_iter().flatten()) {
            assert_eq!((a.first_row, &a.bounds), (b.first_row, &b.bounds), "{name}");
        }
    }
    assert_eq!(
        found_footer.blooms.len(),
        expected_footer.blooms.len(),
        "{name}"
    );
    for (a, b) in found_footer.blooms.iter().zip(&expected_footer.blooms) {
        assert_eq!((a.length, a.kind), (b.length, b.kind), "{name}");
        assert_eq!(
            payload(&found_bytes, a.offset, 0),
            payload(&expected_bytes, b.offset, 0),
            "{name}"
        );
    }
    let mut is_same = true;
    assert_eq!(
        found_footer.blobs.len(),
        expected_footer.blobs.len(),
        "{name}"
    );
    for (a, b) in found_footer.blobs.iter().zip(&expected_footer.blobs) {
        is_same &= a.codec == b.codec;
        assert_eq!(a.column, b.column, "{name}");
        let runs = |runs: &[tet_sql::format::tatami::BlobRun]| -> Vec<_> {
            runs.iter().map(|run| (run.raw_size, run.values)).collect()
        };
        assert_eq!(runs(&a.runs), runs(&b.runs), "{name}");
    }
    if is_same && found_footer.dictionaries.is_empty() {
        let raw = [found_footer, expected_footer].map(|footer| footer.stats.raw_bytes);
        assert_eq!(raw[0], raw[1], "{name}");
    }
    is_same
}

fn has_nan(table: &Table, group: usize, column: usize) -> bool {
    let values = &table.groups[group][column];
    (0..values.rows())
        .filter_map(|row| values.scalar(row))
        .any(|bytes| match bytes.len() {
            4 => f32::from_le_bytes(bytes.try_into().unwrap()).is_nan(),
            _ => f64::from_le_bytes(bytes.try_into().unwrap()).is_nan(),
        })
}

#[test]
fn files_have_the_layout_of_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("x.tatami");
    let mut random = Random(3);
    let (mut count, mut same_codecs) = (0, 0);
    for name in names() {
        if name.starts_with("search/") {
            continue;
        }
        let rows = Rows::of_corpus(&name);
        let options = options(&name, &rows);
        let is_plain = options.compression == Compression::Raw;
        let file = rows.write(&written, options, &mut random).unwrap();
        assert_eq!(
            file.length,
            std::fs::metadata(&written).unwrap().len(),
            "{name}"
        );
        same_codecs += u32::from(compare(&name, &written));
        if is_plain {
            let expected = std::fs::read(path(&format!("{name}.tatami"))).unwrap();
            assert_eq!(std::fs::read(&written).unwrap(), expected, "{name}");
        }
        let table = Table::read(&written, Access::Mmap).unwrap();
        let expected = lines(&format!("{name}.rows.jsonl"));
        assert!(table.rows().eq(expected), "{name}");
        let problems = verify(&table.file, true);
        assert!(problems.is_empty(), "{name}: {problems:?}");
        assert_eq!(&file.footer, table.file.footer(), "{name}");
        assert_eq!(&file.header, table.file.header(), "{name}");
        assert_eq!(file.trailer, table.file.trailer(), "{name}");
        count += 1;
    }
    assert!(count >= 45, "{count} files");
    // The size of zstd frames decides about dictionaries.
    assert!(same_codecs + 2 >= count, "{same_codecs} of {count} files");
}

#[test]
fn search_segments_have_the_records_that_were_given() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("x.tatami");
    let mut count = 0;
    for name in names().iter().filter(|name| name.starts_with("search/")) {
        let expected = TatamiFile::open(path(&format!("{name}.tatami")), Access::Mmap).unwrap();
        if expected.header().flags & FLAG_BLOCK_TREE == 0 {
            // The writer does not write the older form of the term dictionary.
            continue;
        }
        let inverted = expected.footer().inverted.unwrap();
        let extents = [inverted.term_dictionary, inverted.postings, inverted.skips];
        let read = |file: &TatamiFile, extent| {
            let record = file.index_record("part", extent).unwrap();
            record
                .read_checked(&mut RangeBuffer::default())
                .unwrap()
                .to_vec()
        };
        let parts: Vec<Vec<u8>> = extents.map(|extent| read(&expected, extent)).to_vec();
        let live = inverted.live.map(|extent| read(&expected, extent));
        let rows = Rows::of_corpus(name);
        let mut options = options(name, &rows);
        options.has_blob_dictionary = count % 2 == 0;
        let segment = |documents| {
            (
                parts[0].as_slice(),
                parts[1].as_slice(),
                parts[2].as_slice(),
                documents,
            )
        };
        for documents in [inverted.documents + 1, inverted.documents] {
            let writer = TatamiWriter::create(&written, rows.schema.clone(), options.clone());
            let writer = rows.append(writer.unwrap(), &mut Random(count)).unwrap();
            let (mut terms, mut postings, mut skips, documents) = segment(documents);
            let mut live = live.as_deref();
            let result = writer.finish_segment(SearchSegment {
                term_dictionary: &mut terms,
                postings: &mut postings,
                skips: &mut skips,
                live: live.as_mut().map(|live| live as &mut dyn std::io::Read),
                terms: inverted.terms,
                documents,
            });
            match documents == inverted.documents {
                true => drop(result.unwrap()),
                false => {
                    let error = result.unwrap_err().to_string();
                    assert!(error.contains("one for each of"), "{error}");
                    assert!(!written.exists());
                }
            }
        }
        let file = Arc::new(TatamiFile::open(&written, Access::Mmap).unwrap());
        let found = file.footer().inverted.unwrap();
        assert_eq!(
            (found.terms, found.documents),
            (inverted.terms, inverted.documents)
        );
        for (extent, part) in [found.term_dictionary, found.postings, found.skips]
            .iter()
            .zip(&parts)
        {
            assert_eq!(&read(&file, *extent), part, "{name}");
        }
        assert_eq!(found.live.map(|extent| read(&file, extent)), live, "{name}");
        assert_eq!(file.header().flags & 0b11_1000, 0b11_1000);
        assert!(verify(&file, true).is_empty(), "{name}");
        compare(name, &written);
        std::fs::remove_file(&written).unwrap();
        count += 1;
    }
    assert!(count >= 2, "{count} segments");
}

#[test]
fn templated_blobs_have_a_dictionary_and_others_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("x.tatami");
    let mut random = Random(5);
    let mut noise = || {
        (0..200)
            .map(|_| random.below(256) as u8)
            .collect::<Vec<u8>>()
    };
    let template = noise();
    let templated = (0..300).map(|row: u32| Some([&template, row.to_string().as_bytes()].concat()));
    let rows = Rows {
        schema: tet_sql::format::tatami::Schema {
            fields: ["templated", "noise"]
                .map(|name| super::input::field(name, ColumnType::BlobRef, 4))
                .to_vec(),
        },
        columns: vec![
            templated.collect(),
            (0..300).map(|_| Some(noise())).collect(),
        ],
    };
    let options = WriterOptions {
        blob_run_bytes: 1000,
        ..WriterOptions::default()
    };
    let file = rows.write(&written, options, &mut Random(1)).unwrap();
    let codecs: Vec<u8> = file.footer.blobs.iter().map(|blobs| blobs.codec).collect();
    assert_eq!(codecs, [Codec::ZstdDict.id(), Codec::Zstd.id()]);
    assert_eq!(file.footer.dictionaries.len(), 1);
    assert!(file.footer.dictionaries[0].raw_size <= 64 << 10);
    let table = Table::read(&written, Access::Pread).unwrap();
    for row in 0..rows.len() {
        for column in 0..2 {
            let found = table.groups[0][column].scalar(row);
            assert_eq!(found, rows.columns[column][row]);
        }
    }
    assert!(verify(&table.file, true).is_empty());
}
