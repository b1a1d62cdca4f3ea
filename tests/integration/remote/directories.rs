//! Directories of files in stores: TileDB arrays and groups, packages, and collections of documents.

use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tetration::catalog::TetPackage;
use url::Url;

use crate::formats::packages::publish;
use crate::remote::answers::contents_or_error;
use crate::remote::{put_directory, session};
use crate::support::cells::data;
use crate::support::http::HttpServer;
#[cfg(feature = "zarr")]
use crate::support::image::{RESOLUTIONS, write_image};
use crate::support::sql::{error, rows};

/// Creates a session with the store of the bucket `b`.
fn with_store(store: &Arc<InMemory>) -> SessionContext {
    let ctx = session();
    let store: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(store);
    ctx.register_object_store(&Url::parse("s3://b").unwrap(), store);
    ctx
}

/// Every array and group that TileDB has written for the tests, in a store as in the file system. Those that
/// cannot be opened, or not without a key, have the same error.
#[cfg(feature = "tiledb")]
#[tokio::test]
async fn tiledb_arrays_in_a_store() {
    let arrays = data("tiledb/arrays");
    let store = Arc::new(InMemory::new());
    put_directory(&store, &arrays).await;
    let mut opened = 0;
    let mut names: Vec<_> = arrays
        .read_dir()
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    names.sort_by_key(std::fs::DirEntry::file_name);
    for entry in names {
        let name = entry.file_name().into_string().unwrap();
        let ctx = with_store(&store);
        let local = entry.path().to_str().unwrap().to_string();
        let url = format!("s3://b/{name}/");
        let expected = contents_or_error(&ctx, "l", &local).await;
        let found = contents_or_error(&ctx, "r", &url).await;
        let without = |text: String| {
            let places = [url.as_str(), url.trim_end_matches('/'), &local];
            let text = places
                .iter()
                .fold(text, |text, place| text.replace(place, ""));
            text.replace("/__", "__")
        };
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                let found = without(format!("{found:#?}"));
                assert_eq!(found, without(format!("{expected:#?}")), "{name}");
                opened += 1;
            }
            (Err(found), Err(expected)) => {
                let found = without(found.to_string());
                assert_eq!(found, without(expected.to_string()), "{name}");
            }
            (found, expected) => panic!("{name}: {found:?}, {expected:?}"),
        }
    }
    assert!(opened > 100, "{opened}");
}

#[cfg(feature = "tiledb")]
#[tokio::test]
async fn tiledb_arrays_are_found_by_name_filtered_and_not_written() {
    let store = Arc::new(InMemory::new());
    let arrays = data("tiledb/arrays/dense_overlapping_fragments");
    let directory = tempfile::tempdir().unwrap();
    let copied = directory.path().join("d.tiledb");
    copy(&arrays, &copied);
    put_directory(&store, directory.path()).await;
    let ctx = with_store(&store);
    let query = |from: &str| format!("SELECT count(*) AS n FROM '{from}'");
    let expected = rows(&ctx, &query(copied.to_str().unwrap())).await;
    assert_eq!(rows(&ctx, &query("s3://b/d.tiledb")).await, expected);
    let create = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 's3://b/d.tiledb'";
    rows(&ctx, create).await;
    let message = error(&ctx, "INSERT INTO t SELECT * FROM t").await;
    assert!(message.contains("behind a URL"), "{message}");
    let message = error(&ctx, &query("s3://b/none.tiledb")).await;
    assert!(message.contains("s3://b/none.tiledb"), "{message}");
    // Web servers list nothing.
    let server = HttpServer::of(directory.path());
    let message = error(&ctx, &query(&server.url("d.tiledb"))).await;
    assert!(message.contains("cannot list"), "{message}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(std::fs::copy(&path, target).unwrap()),
        }
    }
}

#[tokio::test]
async fn packages_over_http_and_in_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weather.tet.d");
    let package = TetPackage::create(&path).unwrap();
    let server = HttpServer::of(directory.path());
    let ctx = session();
    let query = |from: &str| format!("SELECT count(value), max(value) FROM '{from}#temperature'");
    let message = error(&ctx, &query(&server.url("weather.tet.d"))).await;
    assert!(message.contains("no CURRENT file"), "{message}");
    publish(&package, 1, &data("weather_small.tet"));
    let server = HttpServer::of(directory.path());
    let store = Arc::new(InMemory::new());
    put_directory(&store, directory.path()).await;
    let ctx = with_store(&store);
    let expected = rows(&ctx, &query(path.to_str().unwrap())).await;
    for url in [
        server.url("weather.tet.d"),
        "s3://b/weather.tet.d".to_string(),
        "s3://b/weather.tet.d/".to_string(),
    ] {
        assert_eq!(rows(&ctx, &query(&url)).await, expected, "{url}");
    }
    server.put("weather.tet.d/CURRENT", "{\"generation\": 9}");
    let message = error(&ctx, &query(&server.url("weather.tet.d"))).await;
    assert!(message.contains("generations/00000009"), "{message}");
    let message = error(&ctx, &query(&server.url("none.tet.d"))).await;
    assert!(message.contains("none.tet.d"), "{message}");
}

#[cfg(feature = "tatami")]
#[tokio::test]
async fn collections_over_http() {
    let collection = data("tatami/collection");
    let server = HttpServer::of(&collection);
    let ctx = session();
    let local = collection.join("tatami.manifest");
    for query in [
        "SELECT count(*), min(k), max(k) FROM '{}'",
        "SELECT * FROM '{}' WHERE k IN (5, 105, 305) ORDER BY k",
        "SELECT * FROM '{}' WHERE name = 'n0-5'",
    ] {
        let expected = rows(&ctx, &query.replace("{}", local.to_str().unwrap())).await;
        let remote = query.replace("{}", &server.url("tatami.manifest"));
        assert_eq!(rows(&ctx, &remote).await, expected, "{query}");
    }
    // Members that the manifest rules out are not opened.
    server.take_log();
    let query = format!(
        "SELECT count(*) FROM '{}' WHERE k >= 300",
        server.url("tatami.manifest")
    );
    assert_eq!(rows(&session(), &query).await, ["100"]);
    let log = server.take_log();
    assert!(
        !log.iter().any(|r| r.target.contains("part-1.tatami")),
        "{log:?}"
    );
}

/// The metadata of a group is known from consolidated metadata, or from its own documents.
#[cfg(feature = "zarr")]
#[tokio::test]
async fn images_in_a_store_have_the_coordinates_of_their_pixels() {
    for (version, is_consolidated) in [("0.4", true), ("0.4", false), ("0.5", false)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cells.zarr");
        write_image(&path, version);
        if is_consolidated {
            let mut metadata = serde_json::Map::new();
            for name in [".zgroup", ".zattrs", "0/.zarray", "1/.zarray"] {
                let document = std::fs::read(path.join(name)).unwrap();
                let document = serde_json::from_slice(&document).unwrap();
                metadata.insert(name.to_string(), document);
            }
            let document = serde_json::json!({"zarr_consolidated_format": 1, "metadata": metadata});
            std::fs::write(path.join(".zmetadata"), document.to_string()).unwrap();
        }
        let store = Arc::new(InMemory::new());
        put_directory(&store, directory.path()).await;
        let ctx = with_store(&store);
        for (level, resolution) in RESOLUTIONS.iter().enumerate() {
            for separator in ["/", "#"] {
                let query =
                    format!("SELECT * FROM 's3://b/cells.zarr{separator}{level}' ORDER BY c, y, x");
                assert_eq!(rows(&ctx, &query).await, resolution.rows(), "{version}");
            }
        }
    }
}
