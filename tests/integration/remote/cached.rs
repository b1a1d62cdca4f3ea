//! The setting `tet.cache_dir` for files behind URLs: what a session has fetched, later sessions do not.

use std::path::Path;

use datafusion::prelude::SessionContext;
use serde_json::json;
use tet_sql::format::tet::Compression;

use crate::cells;
use crate::remote::{session, value, write_grid};
use crate::support::http::HttpServer;
use crate::support::sql::{error, rows};

/// Creates a session that keeps what it fetches in a directory.
async fn keeping(directory: &Path) -> SessionContext {
    let ctx = session();
    let set = format!("SET tet.cache_dir = '{}'", directory.display());
    ctx.sql(&set).await.unwrap();
    ctx
}

#[tokio::test]
async fn chunks_of_a_file_are_fetched_once() {
    let folder = tempfile::tempdir().unwrap();
    write_grid(&folder.path().join("a.tet"), 40, Compression::Raw);
    let server = HttpServer::of(folder.path());
    let cache = tempfile::tempdir().unwrap();
    let sum = |condition: &str| {
        let url = server.url("a.tet");
        format!("SELECT count(*), sum(value) FROM '{url}' WHERE {condition}")
    };
    let expected = rows(&session(), &sum("time < 20")).await;
    server.take_log();
    let first = keeping(cache.path()).await;
    assert_eq!(rows(&first, &sum("time < 20")).await, expected);
    assert!(server.take_log().len() > 10);
    // Only the request that finds the version of the file is left, and it transfers nothing.
    let second = keeping(cache.path()).await;
    server.take_sent();
    assert_eq!(rows(&second, &sum("time < 20")).await, expected);
    let log = server.take_log();
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].is_conditional, "{log:?}");
    assert_eq!(server.take_sent(), 0);
    // A chunk that is not kept is fetched. The last ones are in memory, with the footer.
    rows(&second, &sum("time IN (10, 21)")).await;
    assert_eq!(server.take_log().len(), 2);
    // A file that was replaced has another version, so that nothing kept is used.
    write_grid(&folder.path().join("b.tet"), 41, Compression::Raw);
    server.put("a.tet", std::fs::read(folder.path().join("b.tet")).unwrap());
    let third = keeping(cache.path()).await;
    assert_eq!(
        rows(&third, &sum("time >= 0")).await[0].split(' ').next(),
        Some("167936")
    );
    let small = keeping(cache.path()).await;
    small.sql("SET tet.cache_size = 0").await.unwrap();
    assert_eq!(rows(&small, &sum("time < 20")).await, expected);
    assert!(server.take_log().len() > 10);
}

/// Chunks side by side take one request, but each of them is kept.
#[tokio::test]
async fn chunks_of_one_request_are_kept_one_by_one() {
    use tet_sql::format::tet::{DatasetSpec, Dtype};
    let folder = tempfile::tempdir().unwrap();
    let dataset = |name: &str, chunk: u64| {
        let spec = DatasetSpec::new(name, Dtype::F32, &[80, 64, 64], &[chunk, 64, 64]);
        let cells = (0..80 * 64 * 64).map(value);
        (spec.with_dim_names(["time", "y", "x"]), cells!(cells))
    };
    let path = folder.path().join("wide.tet");
    crate::support::sql::write(&path, &[dataset("a", 8), dataset("b", 1)]);
    let server = HttpServer::of(folder.path());
    let cache = tempfile::tempdir().unwrap();
    let ctx = keeping(cache.path()).await;
    let query = format!(
        "SELECT sum(a - b) FROM '{}#time_y_x'",
        server.url("wide.tet")
    );
    assert_eq!(rows(&ctx, &query).await, ["0.0"]);
    server.take_log();
    let ctx = keeping(cache.path()).await;
    let local = format!(
        "SELECT sum(value) FROM '{}#b' WHERE time = 3",
        path.display()
    );
    let query = format!(
        "SELECT sum(value) FROM '{}#b' WHERE time = 3",
        server.url("wide.tet")
    );
    assert_eq!(rows(&ctx, &query).await, rows(&ctx, &local).await);
    let log = server.take_log();
    assert_eq!(log.len(), 1, "{log:?}");
}

/// Puts an array `t` of 4 chunks, and its sum.
fn put_array(server: &HttpServer, first: f32) {
    let metadata = json!({
        "zarr_format": 3, "node_type": "array", "shape": [64], "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 1.5,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    });
    server.put("t.zarr/zarr.json", metadata.to_string());
    for chunk in 0..3 {
        let cells = (0..16).map(|cell| first + (chunk * 16 + cell) as f32);
        server.put(&format!("t.zarr/c/{chunk}"), cells!(cells));
    }
}

#[cfg(feature = "zarr")]
#[tokio::test]
async fn chunks_that_are_files_are_validated() {
    let server = HttpServer::start();
    put_array(&server, 0.0);
    let cache = tempfile::tempdir().unwrap();
    let query = format!("SELECT sum(value) FROM '{}'", server.url("t.zarr"));
    let first = keeping(cache.path()).await;
    assert_eq!(rows(&first, &query).await, ["1152.0"]);
    assert!(server.take_sent() >= 3 * 64);
    server.take_log();
    let second = keeping(cache.path()).await;
    assert_eq!(rows(&second, &query).await, ["1152.0"]);
    let log = server.take_log();
    // The fourth chunk is absent.
    let chunks: Vec<_> = log
        .iter()
        .filter(|request| request.target.contains("/c/") && !request.target.ends_with("/3"))
        .collect();
    assert_eq!(chunks.len(), 3, "{log:?}");
    assert!(
        chunks.iter().all(|request| request.is_conditional),
        "{log:?}"
    );
    assert_eq!(server.take_sent(), 0);
    // One chunk changes: it alone is transferred.
    let cells = (0..16).map(|cell| 1.0 + cell as f32);
    server.put("t.zarr/c/0", cells!(cells));
    assert_eq!(rows(&second, &query).await, ["1168.0"]);
    assert_eq!(server.take_sent(), 64);
}

#[cfg(feature = "zarr")]
#[tokio::test]
async fn the_time_of_the_last_change_stands_in_for_a_tag() {
    for (time, is_kept) in [
        (Some("Wed, 01 Jan 2025 00:00:00 GMT"), true),
        (None, false),
        // A file that was changed just now may change again within the second.
        (Some("Wed, 01 Jan 2200 00:00:00 GMT"), false),
    ] {
        let server = HttpServer::start();
        server.set_modified(time);
        put_array(&server, 0.0);
        let cache = tempfile::tempdir().unwrap();
        let query = format!("SELECT sum(value) FROM '{}'", server.url("t.zarr"));
        for _ in 0..2 {
            let ctx = keeping(cache.path()).await;
            assert_eq!(rows(&ctx, &query).await, ["1152.0"], "{time:?}");
        }
        let log = server.take_log();
        let conditional = log.iter().filter(|request| request.is_conditional).count();
        assert_eq!(conditional > 0, is_kept, "{time:?}: {log:?}");
        let entries = cache.path().read_dir().unwrap().count();
        assert_eq!(entries > 0, is_kept, "{time:?}");
    }
}

#[tokio::test]
async fn the_cache_holds_no_secrets_and_gives_nobody_access() {
    let folder = tempfile::tempdir().unwrap();
    write_grid(&folder.path().join("a.tet"), 4, Compression::Raw);
    let server = HttpServer::of(folder.path());
    let cache = tempfile::tempdir().unwrap();
    let url = format!("http://me:hunter2@{}/a.tet?sig=topsecret", server.address());
    let ctx = keeping(cache.path()).await;
    rows(&ctx, &format!("SELECT sum(value) FROM '{url}'")).await;
    let mut entries = 0;
    for directory in cache.path().read_dir().unwrap() {
        for file in directory.unwrap().path().read_dir().unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("hunter2") && !text.contains("topsecret"));
            entries += 1;
        }
    }
    assert!(entries >= 1, "{entries}");
    // A session that the server refuses does not read what another one has fetched.
    server.fail("a.tet", crate::support::http::FaultKind::Status(403), 99);
    let other = keeping(cache.path()).await;
    let url = server.url("a.tet");
    let message = error(&other, &format!("SELECT sum(value) FROM '{url}'")).await;
    assert!(message.contains("403"), "{message}");
}
