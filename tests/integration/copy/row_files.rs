//! `COPY` to row files: a target is written completely, or left as it was.

use std::fs;
use std::path::Path;

use crate::support::sql::{error, rows, session};

/// A query that fails on its last rows.
const BROKEN: &str =
    "SELECT value, 1 / (value - 90000) AS x FROM generate_series(1, 100000) t(value)";

fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_copy_keeps_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = session();
    for ending in ["csv", "parquet", "json", "ndjson", "arrow", "feather"] {
        let path = folder.path().join("a").with_extension(ending);
        let copy = |query: &str| format!("COPY ({query}) TO '{}'", path.display());
        let told = error(&ctx, &copy(BROKEN)).await;
        assert!(told.contains("Divide by zero"), "{told}");
        assert_eq!(names(folder.path()), [""; 0], "{ending}");
        fs::write(&path, "precious").unwrap();
        error(&ctx, &copy(BROKEN)).await;
        assert_eq!(fs::read(&path).unwrap(), b"precious", "{ending}");
        assert_eq!(rows(&ctx, &copy("SELECT 1 AS x")).await, ["1"]);
        let found = rows(&ctx, &format!("SELECT x FROM '{}'", path.display())).await;
        assert_eq!(found, ["1"], "{ending}");
        assert_eq!(names(folder.path()), [format!("a.{ending}")]);
        // COPY may replace the file that its query reads.
        let more = format!("SELECT x + 1 AS x FROM '{}'", path.display());
        rows(&ctx, &copy(&more)).await;
        let found = rows(&ctx, &format!("SELECT x FROM '{}'", path.display())).await;
        assert_eq!(found, ["2"], "{ending}");
        fs::remove_file(&path).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitioned_copy_fails_cleanly_and_appends() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = session();
    let target = folder.path().join("by");
    let copy = |query: &str| {
        let target = target.display();
        format!("COPY ({query}) TO '{target}/' STORED AS PARQUET PARTITIONED BY (value)")
    };
    error(&ctx, &copy(&format!("{BROKEN} WHERE value > 89990"))).await;
    assert_eq!(names(folder.path()), [""; 0]);
    for (query, count) in [
        ("SELECT 7 AS x, 1 AS value", 1),
        ("SELECT 8 AS x, 1 AS value", 2),
    ] {
        rows(&ctx, &copy(query)).await;
        assert_eq!(names(folder.path()), ["by"]);
        assert_eq!(names(&target), ["value=1"]);
        // A second COPY adds files beside the existing ones.
        assert_eq!(names(&target.join("value=1")).len(), count);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unwritable_target_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = session();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    let mut permissions = closed.metadata().unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&closed, permissions).unwrap();
    // Root can write to read-only directories.
    let is_root = fs::write(closed.join("probe"), "").is_ok();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let mut places = vec![file];
    if !is_root {
        places.push(closed);
    }
    for place in places {
        for ending in ["csv", "parquet"] {
            let path = place.join("a").with_extension(ending);
            let told = error(
                &ctx,
                &format!("COPY (SELECT 1 AS x) TO '{}'", path.display()),
            )
            .await;
            assert!(told.contains(path.to_str().unwrap()), "{told}");
        }
    }
}
