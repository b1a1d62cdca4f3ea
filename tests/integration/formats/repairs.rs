//! Repairs of broken footers that a fuzzer found. A repair must never damage the cells before the
//! footer.

use std::fs;
use std::path::PathBuf;

use tet_sql::format::tet::repair::{index, repair};
use tet_sql::format::tet::verify::VerifyOptions;
use tet_sql::format::tet::{OpenOptions, TetFile};
use tet_sql::{Access, ArrayOptions, ArrayTable};

use crate::hostile::mutations::exercise;
use crate::support::cells;
use crate::support::sql::{rows, session};

const DEEP: VerifyOptions = VerifyOptions {
    deep: true,
    access: Access::Pread,
    threads: 1,
};

/// Copies a file from `tests/data/footers` into a temporary directory.
fn copy(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::copy(cells::data(&format!("footers/{name}")), &path).unwrap();
    (folder, path)
}

/// The footer claims regions that are larger than the space after the payloads.
#[test]
fn repair_never_cuts_payloads_claimed_by_a_footer() {
    for name in ["lost_all.tet", "lost_payload.tet"] {
        let (folder, path) = copy(name);
        let before = fs::read(&path).unwrap();
        let repaired = repair(&path, true, DEEP).unwrap();
        assert!(repaired.steps.is_empty(), "{name}: {repaired:?}");
        for clear in [true, false] {
            let error = index(&path, clear).unwrap_err().to_string();
            assert!(error.contains("cannot tell which is wrong"), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), before, "{name}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "{name}");
        // The cells are intact and readable.
        let options = OpenOptions {
            ignore_footer: true,
            ..OpenOptions::default()
        };
        TetFile::open(&path, options).unwrap();
        let options = ArrayOptions::new().with_ignore_footer(true);
        let table = ArrayTable::open(&path, &options).unwrap();
        assert_eq!(exercise::read_table(&table, Access::Pread).unwrap(), 4);
    }
}

#[test]
fn a_file_without_datasets_keeps_its_superblock() {
    let (_folder, path) = copy("lost_superblock.tet");
    let before = fs::read(&path).unwrap();
    let repaired = repair(&path, true, DEEP).unwrap();
    assert_eq!(repaired.steps[0].name, "cut_footer");
    assert!(repaired.report.ok, "{repaired:?}");
    // The first 12 bytes are unchanged. The flags after them record whether there is a footer.
    assert_eq!(fs::read(&path).unwrap()[..12], before[..12]);
    assert_eq!(path.metadata().unwrap().len(), 32);
}

/// A report keeps a limited number of findings. An unreadable dataset counts even if its finding is
/// not kept.
#[test]
fn zone_maps_of_unreadable_datasets_are_dropped() {
    let (_folder, path) = copy("many_warnings.tet");
    let repaired = repair(&path, true, DEEP).unwrap();
    assert_eq!(repaired.steps[0].name, "drop_zone_maps", "{repaired:?}");
}

/// A version 1 footer has no indexes, even if it has keys for them. Indexing must not activate what
/// these keys name.
#[tokio::test]
async fn indexing_ignores_index_keys_of_version_1_footers() {
    let (_folder, path) = copy("version_1_with_index.tet");
    let sql = format!("SELECT value FROM '{}' WHERE value = 3", path.display());
    let before = rows(&session(), &sql).await;
    assert_eq!(before.len(), 1);
    index(&path, false).unwrap();
    assert_eq!(rows(&session(), &sql).await, before);
    let file = TetFile::open(&path, OpenOptions::default()).unwrap();
    assert!(file.footer().has_zone_maps() && !file.footer().has_secondary_index());
}

/// Footer keys that tet-sql does not know are kept verbatim, even those with values that not every
/// JSON parser accepts.
#[test]
fn unknown_footer_keys_are_kept_verbatim() {
    for (name, kept) in [
        ("unreadable_deep.tet", "[[[[[["),
        ("unreadable_number.tet", "1e999"),
        ("unreadable_surrogate.tet", "\\ud800"),
        ("number_changed.tet", "12345678901234567890123"),
    ] {
        let (_folder, path) = copy(name);
        let contains = |bytes: &[u8]| {
            bytes
                .windows(kept.len())
                .any(|part| part == kept.as_bytes())
        };
        assert!(contains(&fs::read(&path).unwrap()), "{name}");
        index(&path, false).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(contains(&fs::read(&path).unwrap()), "{name}");
        let repaired = repair(&path, true, DEEP).unwrap();
        assert!(repaired.report.ok, "{name}: {repaired:?}");
    }
}
