//! `COPY` to row files: a target is written completely, or left as it was.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};

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

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_written_to_one_file_unless_the_target_ends_in_a_slash() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = session();
    let copy = |query: &str, target: &str| {
        let path = folder.path().join(target);
        format!("COPY ({query}) TO '{}' STORED AS PARQUET", path.display())
    };
    for _ in 0..2 {
        rows(&ctx, &copy("SELECT 1 AS x", "one")).await;
        assert!(folder.path().join("one").is_file());
        rows(&ctx, &copy("SELECT 1 AS x", "all/")).await;
    }
    assert_eq!(names(&folder.path().join("all")).len(), 2);
    let told = error(&ctx, &copy("SELECT 1 AS x", "all")).await;
    assert!(
        told.contains("all: is a directory, expected the path of a file"),
        "{told}"
    );
    assert_eq!(names(folder.path()), ["all", "one"]);
}

#[tokio::test]
async fn a_name_does_not_promise_a_compression() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv.gz");
    let copy = format!("COPY (SELECT 1 AS x) TO '{}' STORED AS CSV", path.display());
    for options in ["", " OPTIONS (compression 'zstd')"] {
        let told = error(&session(), &format!("{copy}{options}")).await;
        assert!(told.contains("would not be compressed with gzip"), "{told}");
        assert_eq!(names(folder.path()), [""; 0]);
    }
}

/// The root of a store is a directory, with and without a slash.
#[tokio::test]
async fn rows_are_written_to_the_root_of_a_bucket() {
    use datafusion::object_store::{ObjectStore, memory::InMemory};
    use futures::TryStreamExt;
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let ctx = session();
    let url = url::Url::parse("s3://bucket").unwrap();
    ctx.register_object_store(&url, Arc::clone(&store));
    for (count, target) in [(1, "s3://bucket"), (2, "s3://bucket/")] {
        let copy = format!("COPY (SELECT 1 AS x) TO '{target}' STORED AS PARQUET");
        rows(&ctx, &copy).await;
        let found: Vec<_> = store.list(None).try_collect().await.unwrap();
        assert_eq!(found.len(), count, "{found:?}");
        let is_file = |path: &str| path.ends_with(".parquet");
        assert!(found.iter().all(|one| is_file(one.location.as_ref())));
    }
}

/// A file that replaces another one keeps its permissions, and is written to the target of a link.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn permissions_and_links_are_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let ctx = session();
    let mut endings = vec!["csv", "parquet", "tet"];
    if cfg!(feature = "zarr") {
        endings.push("zarr");
    }
    for ending in endings {
        let path = folder.path().join("a").with_extension(ending);
        let copy = |path: &Path| {
            let path = path.display();
            format!("COPY (SELECT 1 AS x, 2.0 AS v) TO '{path}' STORED AS {ending}")
        };
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        rows(&ctx, &copy(&path)).await;
        let modes = if path.is_dir() {
            [0o700, 0o500]
        } else {
            [0o600, 0o400]
        };
        for private in modes {
            assert_ne!(mode(), private, "{ending}");
            fs::set_permissions(&path, fs::Permissions::from_mode(private)).unwrap();
            rows(&ctx, &copy(&path)).await;
            assert_eq!(mode(), private, "{ending}");
        }
        let left = names(folder.path());
        let is_temporary = |name: &String| name.starts_with(".tet-writing");
        assert!(!left.iter().any(is_temporary), "{left:?}");
        if path.is_dir() {
            // So that the owner can delete the directory.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        } else {
            let link = folder.path().join("link").with_extension(ending);
            let middle = format!("middle.{ending}");
            let name = format!("linked.{ending}");
            symlink(&middle, &link).unwrap();
            symlink(&name, folder.path().join(&middle)).unwrap();
            for _ in 0..2 {
                rows(&ctx, &copy(&link)).await;
                let links = [&link, &folder.path().join(&middle)];
                assert!(links.iter().all(|link| link.is_symlink()));
                assert!(
                    folder
                        .path()
                        .join(&name)
                        .symlink_metadata()
                        .unwrap()
                        .is_file()
                );
            }
        }
    }
}

#[cfg(feature = "parquet")]
#[tokio::test]
async fn a_column_that_parquet_cannot_store_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("i.parquet");
    for value in ["INTERVAL '1 day'", "[INTERVAL '1 day']"] {
        let copy = format!(
            "COPY (SELECT 1 AS a, {value} AS lag) TO '{}'",
            path.display()
        );
        let message = error(&session(), &copy).await;
        let expected =
            "column \"lag\" is of type INTERVAL, which cannot be written to Parquet; cast it";
        assert!(message.contains(expected), "{message}");
        assert!(!path.exists());
    }
    let text = "CAST(INTERVAL '1 day' AS VARCHAR)";
    let copy = format!("COPY (SELECT {text} AS lag) TO '{}'", path.display());
    assert_eq!(rows(&session(), &copy).await, ["1"]);
}

/// Parquet has no times in seconds, and other readers would read integers.
#[cfg(feature = "parquet")]
#[tokio::test(flavor = "multi_thread")]
async fn parquet_stores_times_that_it_has_types_for() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = session();
    let query = "SELECT arrow_cast(t, 'Timestamp(s)') AS s, arrow_cast(t, 'Timestamp(s, \"+02:00\")') AS z, \
                 arrow_cast(arrow_cast(t, 'Time64(us)'), 'Time32(s)') AS c, arrow_cast(t, 'Date64') AS d, \
                 make_array(named_struct('t', arrow_cast(t, 'Timestamp(s)'))) AS n \
                 FROM (SELECT TIMESTAMP '2024-01-01T06:00:00' AS t) ORDER BY s";
    let path = folder.path().join("t.parquet");
    let copy = format!("COPY ({query}) TO '{}'", path.display());
    assert_eq!(rows(&ctx, &copy).await, ["1"]);
    let columns = ["s", "z", "c", "d", "n"];
    let types = columns.map(|name| format!("arrow_typeof({name}) AS {name}"));
    let types = format!("SELECT {} FROM '{}'", types.join(", "), path.display());
    let types = rows(&ctx, &types).await.concat();
    assert!(
        !types.contains("(s") && !types.contains("Date64"),
        "{types}"
    );
    assert_eq!(types.matches("(ms").count(), 5, "{types}");
    assert!(types.contains("+02:00"), "{types}");
    let read = format!("SELECT * FROM '{}'", path.display());
    assert_eq!(rows(&ctx, &read).await, rows(&ctx, query).await);
}

/// Files that pandas writes have metadata of their own.
#[tokio::test(flavor = "multi_thread")]
async fn arrow_files_with_other_metadata_are_combined() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let fields = vec![Field::new("y", DataType::Int64, true)];
        let metadata = [("pandas".to_string(), name.to_string())].into();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 5]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
        let file = fs::File::create(folder.path().join(format!("{name}.feather"))).unwrap();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &schema).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    }
    let ctx = session();
    let path = folder.path().display();
    for source in ["a.feather", "*.feather"] {
        let query = format!("SELECT y FROM '{path}/{source}' UNION SELECT 2 ORDER BY y");
        assert_eq!(rows(&ctx, &query).await, ["1", "2", "5"], "{source}");
    }
}

/// The test session reads files in ranges if it can.
#[tokio::test(flavor = "multi_thread")]
async fn json_files_hold_lines_or_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = session();
    rows(&ctx, "SET datafusion.execution.target_partitions = 4").await;
    let objects: Vec<String> = (0..100).map(|n| format!("{{\"n\":{n}}}")).collect();
    let path = folder.path().display();
    for (name, text) in [
        ("array.json", format!("\n [{}]\n", objects.join(",\n"))),
        ("lines.json", objects.join("\n")),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
        let sum = format!("SELECT sum(n) FROM '{path}/{name}'");
        assert_eq!(rows(&ctx, &sum).await, ["4950"], "{name}");
    }
    let told = error(&ctx, &format!("SELECT sum(n) FROM '{path}/*.json'")).await;
    assert!(
        told.contains("holds one array, expected an object per line"),
        "{told}"
    );
}
