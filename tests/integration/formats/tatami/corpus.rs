//! Compares the layouts and rows of all files with those of the reference implementation.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::{
    Codec, Collection, Encoding, MemberZone, PageReader, RegionKind, TatamiFile, Validity, verify,
};

use super::data::{Random, Table, cell, document, hex, lines, names, path};

fn encoding(id: u8) -> &'static str {
    Encoding::from_id(id).unwrap().name()
}

fn codec(id: u8) -> &'static str {
    Codec::from_id(id).unwrap().name()
}

/// Describes a file in the notation of the `*.layout.json` files.
fn layout(file: &TatamiFile) -> Value {
    let (header, footer) = (file.header(), file.footer());
    let mut layout = json!({
        "size": file.length(),
        "major": header.major,
        "minor": header.minor,
        "flags": header.flags,
        "checksum": header.checksum,
        "default_codec": codec(header.default_codec),
        "page_size_hint": header.page_size_hint,
        "uuid": hex(&header.uuid),
        "rows": header.rows,
        "footer_off": header.footer_offset,
        "footer_crc": file.trailer().footer_crc,
        "created_ms": header.created_ms,
        "creator_id": header.creator,
        "raw_total": footer.stats.raw_bytes,
        "comp_total": footer.stats.stored_bytes,
    });
    let object = layout.as_object_mut().unwrap();
    let schema = footer.schema.fields.iter().map(|field| {
        json!({
            "name": field.name,
            "type": field.column_type.name(),
            "type_id": field.column_type.id(),
            "flags": field.flags,
            "elem": field.element_type,
        })
    });
    object.insert("schema".to_string(), schema.collect());
    let groups = (0..footer.row_groups.len()).map(|group| group_layout(file, group));
    object.insert("groups".to_string(), groups.collect());
    let pairs = footer
        .key_values
        .iter()
        .map(|(key, value)| json!([key, value]));
    object.insert("kv".to_string(), pairs.collect());
    let mut list = |key: &str, values: Vec<Value>| {
        if !values.is_empty() {
            object.insert(key.to_string(), Value::Array(values));
        }
    };
    let blobs = footer.blobs.iter().map(|blobs| {
        let runs = blobs.runs.iter().map(|run| {
            json!({"off": run.offset, "comp": run.stored_size, "raw": run.raw_size, "num": run.values})
        });
        json!({
            "col": blobs.column,
            "dict": blobs.dictionary.map_or(0, |index| index + 1),
            "codec": codec(blobs.codec),
            "runs": runs.collect::<Vec<_>>(),
        })
    });
    list("blobs", blobs.collect());
    let dictionaries = footer.dictionaries.iter();
    list(
        "dicts",
        dictionaries
            .map(|dictionary| json!([dictionary.offset, dictionary.raw_size]))
            .collect(),
    );
    let blooms = footer.blooms.iter();
    list(
        "blooms",
        blooms
            .map(|bloom| json!([bloom.offset, bloom.length, bloom.kind]))
            .collect(),
    );
    if let Some(inverted) = &footer.inverted {
        let live = inverted.live.unwrap_or_default();
        let extents = [inverted.term_dictionary, inverted.postings, inverted.skips];
        let mut numbers: Vec<u64> = extents.iter().flat_map(|e| [e.offset, e.length]).collect();
        numbers.extend([inverted.terms, inverted.documents, live.offset, live.length]);
        list("invert", numbers.into_iter().map(Value::from).collect());
    }
    layout
}

fn group_layout(file: &TatamiFile, group: usize) -> Value {
    let stored = &file.row_groups()[group];
    let mut layout = json!({
        "first_row": stored.first_row,
        "rows": stored.rows,
        "bytes": stored.total_bytes,
        "has_sort": stored.sort_bounds.is_some(),
    });
    let mut put = |key: &str, value| {
        layout
            .as_object_mut()
            .unwrap()
            .insert(key.to_string(), value)
    };
    if let Some(bounds) = &stored.sort_bounds {
        put("sort_min_hex", json!(hex(&bounds.min)));
        put("sort_max_hex", json!(hex(&bounds.max)));
    }
    let chunks = (0..stored.chunks.len()).map(|column| chunk_layout(file, group, column));
    put("chunks", chunks.collect());
    layout
}

fn chunk_layout(file: &TatamiFile, group: usize, column: usize) -> Value {
    let chunk = file.chunk(group, column).unwrap();
    let pages = file.pages(group, column).unwrap().iter().map(|page| {
        assert_eq!(u64::from(page.header.first_row), page.first_row);
        json!({
            "off": page.offset,
            "kind": page.header.kind,
            "enc": encoding(page.header.encoding),
            "codec": codec(page.header.codec),
            "flags": page.header.flags,
            "num": page.header.values,
            "raw": page.header.raw_size,
            "comp": page.header.stored_size,
            "nulls": page.header.nulls,
            "first_row": page.header.first_row,
            "crc": page.header.crc,
        })
    });
    let mut layout = json!({
        "col": chunk.column,
        "first_page": chunk.first_page_offset,
        "comp": chunk.stored_bytes,
        "raw": chunk.raw_bytes,
        "num": chunk.values,
        "nulls": chunk.nulls,
        "npages": chunk.pages,
        "enc": encoding(chunk.encoding),
        "codec": codec(chunk.codec),
        "zone": chunk.zone.is_some(),
        "pages": pages.collect::<Vec<_>>(),
    });
    let object = layout.as_object_mut().unwrap();
    let mut put = |key: &str, value| object.insert(key.to_string(), value);
    if let Some(zone) = &chunk.zone {
        put("min_hex", json!(hex(&zone.min)));
        put("max_hex", json!(hex(&zone.max)));
    }
    if let Some(bloom) = chunk.bloom {
        put("bloom_ref", json!(bloom + 1));
    }
    if let Some(offset) = chunk.page_index {
        put("page_index", json!(offset));
    }
    layout
}

/// Compares two JSON documents value by value, so that a failure names the path of the difference. The
/// `*.layout.json` files leave out empty bounds, and have null for empty lists.
fn assert_same(place: &str, found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let keys: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
            for key in keys {
                let place = format!("{place}.{key}");
                let empty = json!("");
                let (found, expected) = (found.get(key), expected.get(key));
                let expected = expected.or(Some(&empty).filter(|_| key.ends_with("_hex")));
                assert_same(&place, found.expect(&place), expected.expect(&place));
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{place}");
            for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_same(&format!("{place}[{index}]"), found, expected);
            }
        }
        (Value::Array(found), Value::Null) => assert!(found.is_empty(), "{place}"),
        _ => assert_eq!(found, expected, "{place}"),
    }
}

#[test]
fn layouts_are_those_of_the_reference() {
    for name in names() {
        let table = TatamiFile::open(path(&format!("{name}.tatami")), Access::Mmap).unwrap();
        let expected = document(&format!("{name}.layout.json"));
        assert_same(&name, &layout(&table), &expected);
        // Encoding the parsed structures gives the stored bytes.
        let bytes = std::fs::read(path(&format!("{name}.tatami"))).unwrap();
        let footer = table.header().footer_offset as usize..bytes.len() - 12;
        assert_eq!(table.header().encode(), bytes[..64], "{name}");
        assert_eq!(table.footer().encode(), bytes[footer], "{name}");
        assert_eq!(
            table.trailer().encode(),
            bytes[bytes.len() - 12..],
            "{name}"
        );
    }
}

#[test]
fn rows_are_those_that_were_written() {
    let mut count = 0;
    for name in names() {
        let expected = lines(&format!("{name}.rows.jsonl"));
        for access in [Access::Mmap, Access::Pread] {
            let table = Table::read(&path(&format!("{name}.tatami")), access).unwrap();
            assert_eq!(table.file.rows(), expected.len() as u64, "{name}");
            for (row, (found, expected)) in table.rows().zip(&expected).enumerate() {
                assert_eq!(&found, expected, "{name}, row {row}");
            }
        }
        count += expected.len();
    }
    assert!(
        names().len() == 99 && count > 30_000,
        "{} files, {count} rows",
        names().len()
    );
}

#[test]
fn selected_rows_are_those_of_whole_pages() {
    let mut random = Random(7);
    for name in names() {
        let table = Table::open(&name);
        let file = &table.file;
        let columns: Vec<usize> = (0..file.schema().fields.len()).collect();
        let mut reader = PageReader::new(file);
        for group in 0..file.row_groups().len() {
            let ranges = file.aligned_pages(group, &columns).unwrap();
            let ranges = ranges.expect("the pages of all columns align in all files");
            for column in &columns {
                let mut values = reader.buffers(*column).unwrap();
                let mut validity = Validity::default();
                let mut rows = Vec::new();
                for (page, range) in ranges.iter().enumerate() {
                    let length = (range.end - range.start) as usize;
                    let density = 1 + random.below(9);
                    let selected: Vec<u32> = (0..length as u32)
                        .filter(|_| random.below(density) == 0)
                        .collect();
                    rows.extend(
                        selected
                            .iter()
                            .map(|row| (range.start + u64::from(*row)) as usize),
                    );
                    reader
                        .read(group, *column, page, Some(&selected), &mut values)
                        .unwrap();
                    reader
                        .read_validity(group, *column, page, Some(&selected), &mut validity)
                        .unwrap();
                }
                assert_eq!(values.rows(), rows.len());
                assert_eq!(values.validity, validity);
                for (found, row) in rows.iter().enumerate() {
                    let expected = cell(&table.groups[group][*column], *row);
                    assert_eq!(
                        cell(&values, found),
                        expected,
                        "{name}, column {column}, row {row}"
                    );
                }
            }
        }
    }
}

#[test]
fn files_have_no_problems_and_no_unused_bytes() {
    for name in names() {
        let file =
            Arc::new(TatamiFile::open(path(&format!("{name}.tatami")), Access::Mmap).unwrap());
        for is_deep in [false, true] {
            // `verify` checks neither the page bounds of search segments nor the order of rows.
            let problems = verify(&file, is_deep);
            assert!(problems.is_empty(), "{name}: {problems:?}");
        }
        let regions = file.regions().unwrap();
        let mut end = 0;
        for region in &regions {
            assert_eq!(region.offset, end, "{name}: {}", region.kind);
            assert_ne!(region.kind, RegionKind::Unused);
            end += region.length;
        }
        assert_eq!(end, file.length());
    }
}

#[test]
fn collections_have_the_live_members_of_their_log() {
    for (manifest, expected) in [
        ("tatami.manifest", "live.json"),
        ("torn.manifest", "torn.live.json"),
    ] {
        let collection = Collection::open(path("collection").join(manifest)).unwrap();
        let zone = |zone: &MemberZone| {
            json!({
                "Column": zone.column,
                "Type": zone.column_type.id(),
                "Min": hex(&zone.bounds.min),
                "Max": hex(&zone.bounds.max),
            })
        };
        let members = collection.members().iter().map(|member| {
            let key = member.sort_key.as_ref().unwrap();
            json!({
                "path": member.path.to_str(),
                "uuid": hex(&member.uuid),
                "rows": member.rows,
                "bytes": member.bytes,
                "sort_column": key.column,
                "sort_type": key.column_type.id(),
                "min": hex(&key.bounds.min),
                "max": hex(&key.bounds.max),
                "zones": member.zones.iter().map(zone).collect::<Vec<_>>(),
                "tier": member.tier,
                "crawls": Some(&member.crawls).filter(|crawls| !crawls.is_empty()),
                "created": member.created_ms,
                "footer_crc": member.footer_crc,
            })
        });
        assert_eq!(
            members.collect::<Value>(),
            document(&format!("collection/{expected}"))
        );
        for member in collection.members() {
            let file = TatamiFile::open(collection.member_path(member), Access::Mmap).unwrap();
            assert_eq!(file.rows(), member.rows);
            assert_eq!(file.trailer().footer_crc, member.footer_crc);
        }
    }
}

#[test]
fn torn_logs_end_silently_and_faulty_members_are_refused() {
    let bytes = std::fs::read(path("collection/tatami.manifest")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let manifest = directory.path().join("tatami.manifest");
    let mut counts = Vec::new();
    for length in 0..=bytes.len() {
        std::fs::write(&manifest, &bytes[..length]).unwrap();
        match Collection::open(&manifest) {
            Ok(collection) => counts.push(collection.members().len()),
            Err(error) => assert!(length < 5, "{length} bytes: {error}"),
        }
    }
    counts.dedup();
    assert_eq!(counts, [0, 1, 2, 3, 4, 3]);
    for name in ["../a.tatami", "/a.tatami", ""] {
        let mut body = vec![name.len() as u8];
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&[0; 40]);
        let mut record = vec![1, body.len() as u8];
        record.extend_from_slice(&body);
        record.extend_from_slice(&crc32c::crc32c(&record).to_le_bytes());
        std::fs::write(&manifest, [b"TMAN\x01".as_slice(), &record].concat()).unwrap();
        let error = Collection::open(&manifest).unwrap_err().to_string();
        assert!(
            error.contains("a path inside the directory of the manifest"),
            "{error}"
        );
    }
}
