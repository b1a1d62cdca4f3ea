//! Files with a few changed bytes. `variants.json` lists the changes to `groups_pages.tatami`, and whether
//! the reference implementation reads or refuses the result.

use serde_json::Value;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::{TatamiFile, verify};

use super::data::{Table, document, path};

/// Applies the changes of a variant.
fn variant(base: &[u8], case: &Value) -> Vec<u8> {
    let mut bytes = base.to_vec();
    bytes.resize(case["size"].as_u64().unwrap() as usize, 0);
    for patch in case["patches"].as_array().unwrap() {
        let offset = patch[0].as_u64().unwrap() as usize;
        let digits = patch[1].as_str().unwrap();
        for index in 0..digits.len() / 2 {
            bytes[offset + index] = u8::from_str_radix(&digits[2 * index..][..2], 16).unwrap();
        }
    }
    bytes
}

#[test]
fn variants_are_read_or_refused() {
    let base = std::fs::read(path("groups_pages.tatami")).unwrap();
    let expected: Vec<Value> = Table::open("groups_pages").rows().collect();
    let directory = tempfile::tempdir().unwrap();
    let cases = document("variants.json");
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 27);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let path = directory.path().join(format!("{name}.tatami"));
        std::fs::write(&path, variant(&base, case)).unwrap();
        for access in [Access::Mmap, Access::Pread] {
            let opened = TatamiFile::open(&path, access);
            let read = Table::read(&path, access);
            // The reference implementation reads the values of an undefined encoding as plain values.
            let kind = match name {
                "enc_dictionary_str" => "reject_on_read",
                _ => case["kind"].as_str().unwrap(),
            };
            match kind {
                "ok" => {
                    let rows: Vec<Value> = read.unwrap().rows().collect();
                    assert_eq!(rows, expected, "{name}");
                }
                "reject" => assert!(opened.is_err(), "{name}"),
                _ => {
                    assert!(opened.is_ok(), "{name}");
                    assert!(read.is_err(), "{name}");
                    let problems = verify(&std::sync::Arc::new(opened.unwrap()), true);
                    assert!(!problems.is_empty(), "{name}");
                }
            }
        }
    }
}

#[test]
fn parts_without_a_layout_are_refused_by_name() {
    let base = std::fs::read(path("groups_pages.tatami")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for case in document("variants.json").as_array().unwrap() {
        let expected = match case["name"].as_str().unwrap() {
            "list_type" => {
                "row group 0, column \"id\", page 0: column type is a list, which has no defined layout"
            }
            "lz4_page" => {
                "row group 0, column \"id\", page 0: codec is lz4, which has no defined layout"
            }
            "enc_dictionary_int" => "encoding is dictionary, which has no defined layout",
            "enc_dictionary_str" => "encoding is dictionary, which has no defined layout",
            "enc_fsst_int" => "encoding is fsst, which has no defined layout",
            "zstddict_page" => "codec is zstd_dict, which only blob runs can have",
            "bad_page_crc" => "row group 0, column \"id\", page 0: payload checksum is",
            "bad_blob_crc" => "blob run 0: payload checksum is",
            "major_2" => "header: version is 2.1, expected 1.1 or a later 1.x",
            "trailing_byte" => "trailer: end magic is",
            _ => continue,
        };
        let path = directory.path().join("variant.tatami");
        std::fs::write(&path, variant(&base, case)).unwrap();
        let error = Table::read(&path, Access::Pread).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn verification_finds_what_readers_ignore() {
    let base = std::fs::read(path("groups_pages.tatami")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for case in document("variants.json").as_array().unwrap() {
        let expected = match case["name"].as_str().unwrap() {
            "page_firstrow_garbage" => "first row is",
            "page_kind_garbage" => "page kind is 3, expected 0, a data page",
            _ => continue,
        };
        let path = directory.path().join("variant.tatami");
        std::fs::write(&path, variant(&base, case)).unwrap();
        let file = TatamiFile::open(&path, Access::Mmap).unwrap();
        let problems = verify(&std::sync::Arc::new(file), false);
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].to_string().contains(expected),
            "{}",
            problems[0]
        );
    }
}
