//! Keys and links that lead out of a Zarr hierarchy.
#![cfg(unix)]

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tet_sql::format::zarr::{OutwardLinks, ZarrHierarchy};

fn document(keys: Value) -> String {
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": keys, "fill_value": 0, "codecs": ["bytes"],
    });
    document.to_string()
}

fn write(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Writes an array of the four cells 1 to 4.
fn array(folder: &Path) {
    write(&folder.join("zarr.json"), document(json!("default")));
    write(&folder.join("c/0"), [1, 2]);
    write(&folder.join("c/1"), [3, 4]);
}

fn group(folder: &Path) {
    write(
        &folder.join("zarr.json"),
        r#"{"zarr_format": 3, "node_type": "group"}"#,
    );
}

fn names(opened: &ZarrHierarchy) -> Vec<&str> {
    opened.arrays().iter().map(|array| array.name()).collect()
}

fn chunk(opened: &ZarrHierarchy, array: usize, chunk: u64) -> Result<Vec<u8>, String> {
    let mut cells = Vec::new();
    match opened.read_chunk(array, &[chunk], &mut cells) {
        Ok(()) => Ok(cells),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn chunk_keys_cannot_leave_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    write(&folder.path().join("secret"), [7, 7]);
    group(&store);
    array(&store.join("a"));
    for (name, keys) in [
        (
            "b",
            json!({"name": "zarrs.default_suffix", "configuration": {"suffix": "/../../../../secret"}}),
        ),
        (
            "d",
            json!({"name": "default", "configuration": {"separator": "/../"}}),
        ),
        ("e", json!({"name": "../../secret"})),
        (
            "f",
            json!({"name": "suffix", "configuration": {"suffix": "/../../secret", "base-encoding": "v2"}}),
        ),
    ] {
        write(&store.join(name).join("zarr.json"), document(keys));
        // The directories must exist for the operating system to resolve the `..` in the keys.
        for chunk in ["c/0", "c/1", "0", "1"] {
            std::fs::create_dir_all(store.join(name).join(chunk)).unwrap();
        }
    }
    let opened = ZarrHierarchy::open(&store).unwrap();
    assert_eq!(names(&opened), ["a"]);
    assert_eq!(opened.warnings().len(), 4, "{:?}", opened.warnings());
    for warning in opened.warnings() {
        assert!(warning.contains("chunk_key_encoding: "), "{warning}");
    }
}

#[test]
fn suffix_chunk_keys_are_supported() {
    let folder = tempfile::tempdir().unwrap();
    let keys =
        json!({"name": "suffix", "configuration": {"suffix": ".bin", "base-encoding": "v2"}});
    write(&folder.path().join("zarr.json"), document(keys));
    write(&folder.path().join("0.bin"), [1, 2]);
    write(&folder.path().join("1.bin"), [3, 4]);
    let opened = ZarrHierarchy::open(folder.path()).unwrap();
    assert_eq!(chunk(&opened, 0, 1), Ok(vec![3, 4]));
}

#[test]
fn outward_links_are_warned_about_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, outside) = (folder.path().join("store"), folder.path().join("outside"));
    group(&store);
    array(&outside);
    for name in ["a", "inside"] {
        array(&store.join(name));
    }
    // Links to a directory, a chunk and a metadata document outside, and one link within the store.
    symlink(&outside, store.join("b")).unwrap();
    std::fs::remove_file(store.join("a/c/1")).unwrap();
    symlink(outside.join("c/1"), store.join("a/c/1")).unwrap();
    std::fs::create_dir(store.join("d")).unwrap();
    symlink(outside.join("zarr.json"), store.join("d/zarr.json")).unwrap();
    symlink("inside", store.join("e")).unwrap();

    let opened = ZarrHierarchy::open(&store).unwrap();
    assert_eq!(names(&opened), ["a", "b", "d", "e", "inside"]);
    assert_eq!(opened.warnings().len(), 3, "{:?}", opened.warnings());
    for (warning, link) in opened.warnings().iter().zip(["store/b", "a/c/1", "d/zarr"]) {
        let expected = "the link leads out of the Zarr hierarchy";
        assert!(
            warning.contains(expected) && warning.contains(link),
            "{warning}"
        );
    }
    assert_eq!(chunk(&opened, 0, 1), Ok(vec![3, 4]));
    assert_eq!(chunk(&opened, 1, 0), Ok(vec![1, 2]));

    // The path of the store itself may be a link.
    symlink(&store, folder.path().join("linked")).unwrap();
    for path in [store, folder.path().join("linked")] {
        let opened = ZarrHierarchy::open_with(&path, OutwardLinks::Refuse).unwrap();
        assert_eq!(names(&opened), ["a", "e", "inside"]);
        assert_eq!(opened.warnings().len(), 2, "{:?}", opened.warnings());
        assert_eq!(chunk(&opened, 0, 0), Ok(vec![1, 2]));
        assert_eq!(chunk(&opened, 1, 1), Ok(vec![3, 4]));
        let error = chunk(&opened, 0, 1).unwrap_err();
        assert!(error.contains("leads out of the Zarr hierarchy"), "{error}");
        assert!(opened.stored_bytes(0, &[1]).is_err());
    }
}

#[tokio::test]
async fn pipes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    array(&store);
    std::fs::remove_file(store.join("c/1")).unwrap();
    let pipe = |path: &Path| {
        let status = std::process::Command::new("mkfifo").arg(path).status();
        assert!(status.unwrap().success());
    };
    pipe(&store.join("c/1"));
    for links in [OutwardLinks::Follow, OutwardLinks::Refuse] {
        let opened = ZarrHierarchy::open_with(&store, links).unwrap();
        let error = chunk(&opened, 0, 1).unwrap_err();
        assert!(error.contains("chunk is not a file"), "{error}");
    }
    std::fs::remove_file(store.join("zarr.json")).unwrap();
    pipe(&store.join("zarr.json"));
    ZarrHierarchy::open(&store).unwrap_err();
    for name in ["x.tet", "x.npy", "x.npz", "x.zarr"] {
        let path = folder.path().join(name);
        pipe(&path);
        let error = tet_sql::ArrayTable::open(&path, &tet_sql::ArrayOptions::new()).unwrap_err();
        assert!(error.to_string().contains("regular file"), "{error}");
    }
    // Tables of row files do not read pipes either.
    let ctx = crate::support::sql::session();
    for name in ["x.csv", "x.parquet"] {
        let path = folder.path().join(name);
        pipe(&path);
        let format = name.rsplit('.').next().unwrap();
        let path = path.display();
        for sql in [
            format!("SELECT * FROM '{path}'"),
            format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{path}'"),
        ] {
            let error = crate::support::sql::error(&ctx, &sql).await;
            assert!(error.contains("not a regular file"), "{sql}: {error}");
        }
    }
}

/// A query fails if its path leads to another hierarchy, or its array has other metadata, so that
/// chunks of two stores are never mixed.
#[test]
fn replaced_or_changed_stores_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let expected = "was replaced or changed since it was opened";
    let fresh = || {
        let _ = std::fs::remove_dir_all(&store);
        group(&store);
        array(&store.join("a"));
        array(&store.join("b"));
        let opened = ZarrHierarchy::open(&store).unwrap();
        assert_eq!(chunk(&opened, 0, 0), Ok(vec![1, 2]));
        opened
    };
    // The whole store is replaced.
    let opened = fresh();
    let other = folder.path().join("other");
    group(&other);
    array(&other.join("a"));
    std::fs::rename(&store, folder.path().join("old")).unwrap();
    std::fs::rename(&other, &store).unwrap();
    assert!(chunk(&opened, 0, 1).unwrap_err().contains(expected));
    // The store is deleted and written again. The file system may reuse the inode numbers.
    let opened = fresh();
    let again = fresh();
    assert!(chunk(&opened, 0, 1).unwrap_err().contains(expected));
    assert_eq!(chunk(&again, 0, 1), Ok(vec![3, 4]));
    // The store is deleted. Absent chunks would otherwise read as fill values.
    std::fs::remove_dir_all(&store).unwrap();
    assert!(chunk(&again, 0, 1).unwrap_err().contains(expected));
    // The metadata of one array changes.
    let opened = fresh();
    write(
        &store.join("a/zarr.json"),
        document(json!("default")).replace("[4]", "[6]"),
    );
    assert!(chunk(&opened, 0, 1).unwrap_err().contains(expected));
    assert_eq!(chunk(&opened, 1, 1), Ok(vec![3, 4]));
    // If only a chunk changes, its new cells are read.
    let opened = fresh();
    write(&store.join("a/c/1"), [5, 6]);
    assert_eq!(chunk(&opened, 0, 1), Ok(vec![5, 6]));
}

/// A query over a store that is replaced returns rows of the old store only, and then fails.
#[tokio::test]
async fn queries_never_mix_two_stores() {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use futures::StreamExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.zarr");
    let write = async |version: i64| {
        let sql = format!(
            "COPY (SELECT value AS x, CAST({version} AS BIGINT) AS v FROM range(1000)) TO '{}' STORED AS ZARR \
             OPTIONS (dims 'x', chunk '10')",
            path.display()
        );
        crate::support::sql::rows(&crate::support::sql::session(), &sql).await;
    };
    write(1).await;
    let ctx = crate::support::sql::open(&path, tet_sql::ArrayOptions::new()).await;
    ctx.sql("SET datafusion.execution.batch_size = 10")
        .await
        .unwrap();
    let frame = ctx.sql("SELECT value FROM v").await.unwrap();
    let mut stream = frame.execute_stream().await.unwrap();
    let first = stream.next().await.unwrap().unwrap();
    let mut values = first
        .column(0)
        .as_primitive::<Int64Type>()
        .values()
        .to_vec();
    write(2).await;
    let error = loop {
        match stream.next().await.expect("an error before the end") {
            Ok(batch) => values.extend(batch.column(0).as_primitive::<Int64Type>().values()),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("was replaced or changed"), "{error}");
    assert!(values.iter().all(|value| *value == 1), "{values:?}");
    for sql in [
        "SELECT sum(value) FROM v",
        "SELECT max(value) FROM v WHERE x = 3",
    ] {
        let error = crate::support::sql::error(&ctx, sql).await;
        assert!(error.contains("was replaced or changed"), "{error}");
    }
    let sql = format!("SELECT sum(value) FROM '{}'", path.display());
    assert_eq!(crate::support::sql::rows(&ctx, &sql).await, ["2000"]);
}
