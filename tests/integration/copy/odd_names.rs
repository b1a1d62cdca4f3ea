//! Conversions of odd names, shapes and directories: nothing is lost silently.

use std::fs;
use std::path::Path;

use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, Converted, convert};
use tet_sql::provider::error::describe;

use crate::support::cells::data;
use crate::support::sql::{error, open, rows, session, write};

async fn converted(from: &Path, to: &Path) -> Result<Converted, String> {
    let options = ConvertOptions {
        overwrite: true,
        ..ConvertOptions::default()
    };
    let result = convert(from, to, &options, &ConvertProgress::default()).await;
    result.map_err(|error| describe(&error))
}

/// Characters that mean something in glob patterns or URLs are literal in file names.
#[tokio::test]
async fn special_characters_in_paths_are_literal() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("st*r [1] %20 ' # ?");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("a.csv"), "old").unwrap();
    let mut from = data("npy/int8.npy");
    for name in [
        "a.csv",
        "b*.parquet",
        "c[x].ndjson",
        "d #1.arrow",
        "é %.json",
    ] {
        let to = inner.join(name);
        let result = converted(&from, &to).await.unwrap();
        assert_eq!(result.cells, 12, "{name}");
        assert!(to.metadata().unwrap().len() > 50, "{name}");
        from = to;
    }
    assert_eq!(inner.read_dir().unwrap().count(), 5);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[tokio::test]
async fn scalar_and_empty_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let all = "SELECT count(*), sum(value), min(value) FROM scalar WHERE value > 0";
    let mut formats = vec!["scalar.npy"];
    if cfg!(feature = "zarr") {
        formats.push("scalar.zarr");
    }
    for name in formats {
        converted(&data("npy/scalar.npy"), &at(name)).await.unwrap();
        let ctx = open(&at(name), ArrayOptions::new()).await;
        assert_eq!(rows(&ctx, all).await, ["1 1.5 1.5"], "{name}");
        assert_eq!(rows(&ctx, "SELECT * FROM scalar").await, ["1.5"], "{name}");
        converted(&data("npy/empty.npy"), &at("empty.npz"))
            .await
            .unwrap();
        let ctx = open(&at("empty.npz"), ArrayOptions::new()).await;
        assert_eq!(rows(&ctx, "SELECT * FROM empty").await, [""; 0]);
    }
    let error = converted(&data("npy/scalar.npy"), &at("scalar.tet"))
        .await
        .unwrap_err();
    let words = ["there is no array to convert", "dataset \"scalar\""];
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

#[cfg(feature = "zarr")]
#[tokio::test]
async fn directories_with_foreign_files_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("a.zarr");
    converted(&data("npy/int8.npy"), &target).await.unwrap();
    converted(&data("npy/bool.npy"), &target).await.unwrap();
    fs::create_dir_all(target.join("notes/2024")).unwrap();
    fs::write(target.join("notes/2024/mine.txt"), "precious").unwrap();
    let error = converted(&data("npy/int8.npy"), &target).await.unwrap_err();
    assert!(
        error.contains("mine.txt in it is not part of a Zarr hierarchy"),
        "{error}"
    );
    let copy = format!(
        "COPY (SELECT * FROM '{}') TO '{}' STORED AS ZARR",
        data("npy/int8.npy").display(),
        target.display()
    );
    let error = crate::support::sql::error(&session(), &copy).await;
    assert!(error.contains("it will not be replaced"), "{error}");
    assert_eq!(
        fs::read(target.join("notes/2024/mine.txt")).unwrap(),
        b"precious"
    );
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[cfg(feature = "zarr")]
#[tokio::test]
async fn null_strings_and_two_dimensional_strings() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let categories = r#"{"codes":{"rain":0,"snow":1},"missing":-1}"#;
    let text = |name: &str, shape: &[u64]| {
        DatasetSpec::new(name, Dtype::I64, shape, shape)
            .with_attribute("tetration_categories", categories)
    };
    let cells = || crate::cells!([0i64, -1, 1, 0]);
    write(
        &at("a.tet"),
        &[
            (text("line", &[4]), cells()),
            (text("square", &[2, 2]), cells()),
        ],
    );
    let result = converted(&at("a.tet"), &at("a.zarr")).await.unwrap();
    assert_eq!(result.warnings.len(), 2, "{:?}", result.warnings);
    for (warning, name) in result.warnings.iter().zip(["line", "square"]) {
        let expected = format!("\"{name}\": 1 null strings are written as empty strings");
        assert!(warning.contains(&expected), "{warning}");
    }
    let ctx = open(&at("a.zarr"), ArrayOptions::new()).await;
    let line = rows(&ctx, "SELECT value, value IS NULL FROM line ORDER BY dim_0").await;
    assert_eq!(line, ["rain false", " false", "snow false", "rain false"]);
    let square = rows(&ctx, "SELECT value FROM square ORDER BY dim_0, dim_1").await;
    assert_eq!(square, ["rain", "", "snow", "rain"]);
    let copy = format!("COPY (SELECT * FROM line) TO '{}'", at("b.zarr").display());
    let ctx = open(&at("a.tet"), ArrayOptions::new()).await;
    let error = error(&ctx, &copy).await;
    assert!(error.contains("line has null or missing texts"), "{error}");
}

/// A `.tet` dataset holds at most 64 attributes. Those that define the meaning of its cells are
/// kept first.
#[cfg(feature = "zarr")]
#[tokio::test]
async fn the_fill_value_is_never_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let spec = DatasetSpec::new("a", Dtype::I16, &[3], &[3])
        .with_attribute("_FillValue", "-9")
        .with_attribute("units", "K");
    write(&at("a.tet"), &[(spec, crate::cells!([1i16, -9, 5]))]);
    converted(&at("a.tet"), &at("a.zarr")).await.unwrap();
    let path = at("a.zarr/a/zarr.json");
    let mut document: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for number in 0..70 {
        document["attributes"][format!("A{number:03}")] = "x".into();
    }
    fs::write(&path, document.to_string()).unwrap();
    let result = converted(&at("a.zarr"), &at("b.tet")).await.unwrap();
    let [warning] = result.warnings.as_slice() else {
        panic!("{:?}", result.warnings);
    };
    assert!(warning.contains("\"A069\" are left out"), "{warning}");
    let ctx = open(&at("b.tet"), ArrayOptions::new()).await;
    let sql = "SELECT count(value), min(value) FROM a";
    assert_eq!(rows(&ctx, sql).await, ["2 1"]);
}

/// A hierarchy of small metadata documents may claim any number of cells.
#[cfg(feature = "zarr")]
#[tokio::test]
async fn absent_chunks_cost_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a.zarr");
    let array = |name: &str, chunk: u64| {
        fs::create_dir_all(root.join(name)).unwrap();
        let document = serde_json::json!({
            "zarr_format": 3, "node_type": "array", "shape": [1u64 << 36], "data_type": "float64",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0.0, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": {}, "dimension_names": ["x"],
        });
        fs::write(root.join(name).join("zarr.json"), document.to_string()).unwrap();
    };
    fs::create_dir(&root).unwrap();
    fs::write(
        root.join("zarr.json"),
        r#"{"zarr_format":3,"node_type":"group","attributes":{}}"#,
    )
    .unwrap();
    array("x", 1 << 20);
    array("v", 1 << 36);
    let ctx = open(&root, ArrayOptions::new()).await;
    let coordinates = error(&ctx, "SELECT x FROM v WHERE x > 5 LIMIT 1").await;
    assert!(
        coordinates.contains("of coordinates, expected at most"),
        "{coordinates}"
    );
    let ctx = open(&root, ArrayOptions::new().with_decode_coords(false)).await;
    let cells = error(&ctx, "SELECT value FROM v LIMIT 1").await;
    assert!(cells.contains("chunk shape is [68719476736]"), "{cells}");
    assert_eq!(rows(&ctx, "SELECT count(*) FROM v").await, ["68719476736"]);
}

/// Indexing or replacing a file through a link changes the file that the link leads to, and keeps
/// the link.
#[cfg(unix)]
#[tokio::test]
async fn indexing_and_converting_follow_links() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("store")).unwrap();
    fs::copy(data("weather_small_v1footer.tet"), at("store/real.tet")).unwrap();
    std::os::unix::fs::symlink(at("store/real.tet"), at("link.tet")).unwrap();
    let before = at("store/real.tet").metadata().unwrap().len();
    tet_sql::format::tet::repair::index(&at("link.tet"), false).unwrap();
    assert!(at("store/real.tet").metadata().unwrap().len() > before);
    converted(&data("npy/int8.npy"), &at("link.tet"))
        .await
        .unwrap();
    assert!(at("link.tet").is_symlink());
    let ctx = open(&at("store/real.tet"), ArrayOptions::new()).await;
    assert_eq!(rows(&ctx, "SELECT sum(value) FROM int8").await, ["-6"]);
    assert_eq!(folder.path().read_dir().unwrap().count(), 2);
    assert_eq!(at("store").read_dir().unwrap().count(), 1);
}

/// Bytes with a sign keep their type, except in `.tet` files, which have no such type.
#[cfg(feature = "zarr")]
#[tokio::test]
async fn signed_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let ctx = session();
    let copy = format!(
        "COPY (SELECT dim_0, dim_1, value FROM '{}') TO '{}' OPTIONS (dims 'dim_0, dim_1')",
        data("npy/int8.npy").display(),
        at("copied.zarr").display()
    );
    rows(&ctx, &copy).await;
    for (from, to, expected) in [
        (data("npy/int8.npy"), "a.zarr", "Int8"),
        (at("a.zarr"), "b.zarr", "Int8"),
        (at("b.zarr"), "c.npz", "Int8"),
        (at("a.zarr"), "d.tet", "Int16"),
        (at("d.tet"), "e.zarr", "Int16"),
        (at("copied.zarr"), "f.zarr", "Int8"),
    ] {
        converted(&from, &at(to)).await.unwrap();
        let sql = format!(
            "SELECT arrow_typeof(min(value)), min(value), max(value), sum(value), count(*) FILTER (WHERE value < -2) \
             FROM '{}'",
            at(to).display()
        );
        let found = rows(&ctx, &sql).await;
        assert_eq!(found, [format!("{expected} -6 5 -6 4")], "{to}");
    }
}

/// In Zarr, a slash in a name stands for a group, in which other programs do not find the array.
#[cfg(feature = "zarr")]
#[tokio::test]
async fn names_with_slashes_are_refused_in_zarr() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    for (query, column) in [
        (r#"SELECT 1 AS x, 2.5 AS "m/s""#, "m/s"),
        (r#"SELECT 1 AS "a/b", 2.5 AS v"#, "a/b"),
    ] {
        let copy = format!("COPY ({query}) TO '{}'", path.display());
        let told = error(&session(), &copy).await;
        let expected = format!("column {column:?} has a slash in its name");
        assert!(told.contains(&expected), "{told}");
        assert!(!path.exists());
    }
    // The option names a group on purpose.
    let copy = format!(
        "COPY (SELECT 1 AS x, 2.5 AS v) TO '{}' OPTIONS (dataset 'group/v')",
        path.display()
    );
    rows(&session(), &copy).await;
    assert!(path.join("group/v").is_dir());
}

/// Zarr does not limit the attributes that hold texts, as `.tet` does.
#[cfg(feature = "zarr")]
#[tokio::test]
async fn many_texts_fit_in_zarr() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    for count in [10_000, 70_000] {
        let copy = format!(
            "COPY (SELECT value AS x, concat('a text that is long ', value) AS v FROM generate_series(1, {count})) TO \
             '{}' OPTIONS (dims 'x')",
            path.display()
        );
        rows(&session(), &copy).await;
        let ctx = open(&path, ArrayOptions::new()).await;
        let found = rows(&ctx, "SELECT count(DISTINCT value), max(value) FROM v").await;
        assert_eq!(found, [format!("{count} a text that is long 9999")]);
    }
    let copy = format!(
        "COPY (SELECT 1 AS x, repeat('a', 1025) AS v) TO '{}' OPTIONS (dims 'x')",
        path.display()
    );
    let told = error(&session(), &copy).await;
    assert!(
        told.contains("v has a text of more than 1024 bytes"),
        "{told}"
    );
}
