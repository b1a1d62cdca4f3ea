//! Queries on collections. Members are opened only if they may hold a matching row.

use std::path::{Path, PathBuf};

use datafusion::prelude::SessionContext;

use super::sql::folder;
use crate::support::sql::{error, rows, session};

/// Copies the collection of the corpus, in which `k` is 0 to 99 in the first member, 100 to 199 in the second,
/// and 300 to 399 in the third.
fn copy(directory: &Path) -> PathBuf {
    for entry in folder().join("collection").read_dir().unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, directory.join(path.file_name().unwrap())).unwrap();
    }
    directory.join("tatami.manifest")
}

async fn open(manifest: &Path, options: &str) -> SessionContext {
    let ctx = session();
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS TATAMI LOCATION '{}' {options}",
        manifest.display()
    );
    rows(&ctx, &sql).await;
    ctx
}

#[tokio::test]
async fn members_that_are_ruled_out_are_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let manifest = copy(directory.path());
    std::fs::remove_file(directory.path().join("part-1.tatami")).unwrap();
    let ctx = open(&manifest, "").await;
    for (sql, expected) in [
        ("SELECT count(*) FROM t", "300"),
        ("SELECT count(*) FROM (SELECT 1 FROM t)", "300"),
        ("SELECT count(*), max(k) FROM t WHERE k < 100", "100 99"),
        ("SELECT min(k), max(k) FROM t WHERE k >= 200", "300 399"),
        ("SELECT count(*) FROM t WHERE name = 'n0-5'", "1"),
    ] {
        assert_eq!(rows(&ctx, sql).await, [expected], "{sql}");
    }
    let plan = rows(&ctx, "EXPLAIN SELECT * FROM t WHERE k = 300").await;
    let plan = plan.join("\n");
    assert!(plan.contains("slice=[file: 1 of 3]"), "{plan}");
    // Without zone maps, each member may hold a matching row.
    rows(&ctx, "SET tet.zone_maps = false").await;
    let text = error(&ctx, "SELECT max(k) FROM t WHERE k < 100").await;
    assert!(text.contains("part-1.tatami"), "{text}");
    rows(&ctx, "SET tet.zone_maps = true").await;
    for sql in ["SELECT * FROM t", "SELECT * FROM t WHERE k = 150"] {
        let text = error(&ctx, sql).await;
        assert!(text.contains("part-1.tatami"), "{text}");
    }
}

#[tokio::test]
async fn the_file_column_names_the_member() {
    let directory = tempfile::tempdir().unwrap();
    let manifest = copy(directory.path());
    let ctx = open(&manifest, "OPTIONS (file_column 'true')").await;
    let sql = "SELECT DISTINCT k / 100, file FROM t WHERE k > 150 ORDER BY 1";
    let found = rows(&ctx, sql).await;
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("1 ") && found[0].ends_with("part-1.tatami"));
    assert!(found[1].starts_with("3 ") && found[1].ends_with("part-3.tatami"));
}

#[tokio::test]
async fn a_file_that_the_manifest_does_not_describe_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let manifest = copy(directory.path());
    let of = |name: &str| directory.path().join(name);
    std::fs::copy(of("part-2.tatami"), of("part-1.tatami")).unwrap();
    let ctx = open(&manifest, "").await;
    assert_eq!(rows(&ctx, "SELECT count(*) FROM t").await, ["300"]);
    let text = error(&ctx, "SELECT name FROM t").await;
    for part in ["part-1.tatami", "as the manifest states"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn filters_have_the_answers_of_all_rows() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = open(&copy(directory.path()), "").await;
    rows(&ctx, "CREATE TABLE memory AS SELECT * FROM t").await;
    for operator in ["<", "<=", "=", "<>", ">=", ">"] {
        for value in ["-1", "0", "99", "100", "150", "250", "300", "399", "400"] {
            let of = |table: &str| {
                format!("SELECT count(*), sum(k) FROM {table} WHERE k {operator} {value}")
            };
            let expected = rows(&ctx, &of("memory")).await;
            assert_eq!(rows(&ctx, &of("t")).await, expected, "{}", of("t"));
        }
    }
}

#[cfg(feature = "proto")]
#[tokio::test]
async fn scans_are_decoded_in_another_session() {
    let directory = tempfile::tempdir().unwrap();
    let manifest = copy(directory.path());
    let ctx = open(&manifest, "OPTIONS (file_column 'true')").await;
    crate::support::encoded::Encoded::add_to(&ctx, &[]);
    for (sql, expected) in [
        (
            "SELECT sum(k) FROM t WHERE k >= 150 AND name <> ''",
            "38422",
        ),
        ("SELECT count(*) FROM (SELECT 1 FROM t)", "300"),
        ("SELECT count(DISTINCT file) FROM t WHERE k < 200", "2"),
    ] {
        assert_eq!(rows(&ctx, sql).await, [expected], "{sql}");
    }
}

#[tokio::test]
async fn unknown_options_and_inserts_name_the_format() {
    let directory = tempfile::tempdir().unwrap();
    let manifest = copy(directory.path());
    let ctx = open(&manifest, "").await;
    let sql = format!(
        "CREATE EXTERNAL TABLE u STORED AS TATAMI LOCATION '{}' OPTIONS (txt 'lossy')",
        manifest.display()
    );
    let text = error(&ctx, &sql).await;
    let names = "access, auxiliary_coordinates, blobs, dataset, declare_ordering, decode_coords, decode_times, dims, \
                 file_column, fill_as_null, ignore_footer, nan_as_null, text, text_labels, unpack or zone_maps";
    assert!(
        text.contains(&format!("unknown option txt, expected one of {names}")),
        "{text}"
    );
    let text = error(&ctx, "INSERT INTO t SELECT * FROM t").await;
    assert!(text.contains("TO 'new.tatami'"), "{text}");
}
