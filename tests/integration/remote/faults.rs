//! Servers that fail, and files that change: the right answer or a clear error, never a mix.

use std::path::Path;

use datafusion::prelude::SessionContext;
use tet_sql::format::tet::Compression;
use tet_sql::{ArrayOptions, ArraySessionExt};

use crate::remote::{session, write_grid};
use crate::support::http::{FaultKind, HttpServer};
use crate::support::sql::{error, rows};

const SUM: &str = "SELECT sum(value) FROM f.t";

/// Opens a file of 40 chunks as `f` on a server, and returns the sum of its cells.
async fn opened() -> (HttpServer, SessionContext, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.tet");
    write_grid(&path, 40, Compression::Raw);
    let server = HttpServer::of(folder.path());
    let ctx = session();
    let local = format!("SELECT sum(value) FROM '{}'", path.display());
    let expected = rows(&ctx, &local).await;
    let url = server.url("f.tet");
    ctx.register_array_file(Path::new(&url), ArrayOptions::new())
        .await
        .unwrap();
    server.take_log();
    (server, ctx, expected)
}

#[tokio::test]
async fn bursts_of_503_are_waited_out() {
    let (server, ctx, expected) = opened().await;
    server.fail("f.tet", FaultKind::Status(503), 4);
    assert_eq!(rows(&ctx, SUM).await, expected);
}

#[tokio::test]
async fn broken_connections_are_resumed() {
    let (server, ctx, expected) = opened().await;
    server.fail("f.tet", FaultKind::Truncated, 3);
    assert_eq!(rows(&ctx, SUM).await, expected);
}

#[tokio::test]
async fn answers_of_the_wrong_length_are_errors() {
    let (server, ctx, _) = opened().await;
    server.fail("f.tet", FaultKind::Short, 100);
    let message = error(&ctx, SUM).await;
    assert!(message.contains("bytes, expected"), "{message}");
    assert!(message.contains(&server.url("f.tet")), "{message}");
}

#[tokio::test]
async fn a_file_that_is_replaced_is_an_error() {
    for is_checked_by_server in [true, false] {
        let (server, ctx, _) = opened().await;
        if !is_checked_by_server {
            server.ignore_conditions();
        }
        let folder = tempfile::tempdir().unwrap();
        write_grid(&folder.path().join("g.tet"), 41, Compression::Raw);
        server.put("f.tet", std::fs::read(folder.path().join("g.tet")).unwrap());
        let message = error(&ctx, SUM).await;
        assert!(message.contains("replaced or changed"), "{message}");
        assert!(message.contains(&server.url("f.tet")), "{message}");
    }
}

#[tokio::test]
async fn statuses_are_explained() {
    let server = HttpServer::start();
    let ctx = session();
    let message = error(&ctx, &format!("SELECT * FROM '{}'", server.url("none.tet"))).await;
    assert!(
        message.contains("none.tet") && message.contains("404"),
        "{message}"
    );
    server.put("secret.tet", "x");
    server.fail("secret.tet", FaultKind::Status(403), 9);
    let message = error(
        &ctx,
        &format!("SELECT * FROM '{}'", server.url("secret.tet")),
    )
    .await;
    assert!(message.contains("403 Forbidden"), "{message}");
    assert!(message.contains("check the credentials"), "{message}");
    // Some stores answer 403 for objects that do not exist.
    server.fail("/old.zarr/zarr.json", FaultKind::Status(403), 9);
    let metadata = r#"{"metadata": {".zgroup": {"zarr_format": 2}, "a/.zarray": {
        "zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|u1", "fill_value": null, "order": "C",
        "filters": null, "compressor": null}}}"#;
    server.put("old.zarr/.zmetadata", metadata);
    server.put("old.zarr/a/0", [3, 4]);
    let query = format!("SELECT sum(value) FROM '{}#a'", server.url("old.zarr"));
    assert_eq!(rows(&ctx, &query).await, ["7"]);
    // A group without consolidated metadata, on a server that cannot list.
    let group = r#"{"zarr_format": 3, "node_type": "group"}"#;
    server.put("plain.zarr/zarr.json", group);
    let message = error(
        &ctx,
        &format!("SELECT * FROM '{}#a'", server.url("plain.zarr")),
    )
    .await;
    assert!(message.contains("consolidate"), "{message}");
    // One of its arrays, by its own path.
    let array = r#"{
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 5,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}"#;
    server.put("plain.zarr/g/a/zarr.json", array);
    let query = format!("SELECT sum(value) FROM '{}'", server.url("plain.zarr/g/a"));
    assert_eq!(rows(&ctx, &query).await, ["20"]);
}

#[tokio::test]
async fn servers_without_ranges_send_whole_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write_grid(&path, 3, Compression::Zstd { level: 1 });
    let server = HttpServer::of(folder.path());
    server.ignore_ranges();
    let ctx = session();
    let query = |path: &str| format!("SELECT sum(value) FROM '{path}'");
    let expected = rows(&ctx, &query(path.to_str().unwrap())).await;
    assert_eq!(rows(&ctx, &query(&server.url("a.tet"))).await, expected);
    assert_eq!(server.take_log().len(), 2);
}

#[tokio::test]
async fn errors_of_chunks_name_the_array_and_the_chunk() {
    let server = HttpServer::start();
    let array = r#"{
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}"#;
    server.put("t.zarr/zarr.json", array);
    server.put("t.zarr/c/1", "xyz");
    let ctx = session();
    let url = server.url("t.zarr");
    let message = error(&ctx, &format!("SELECT * FROM '{url}'")).await;
    assert!(
        message.contains(&format!("{url}, dataset \"t\", chunk [1]")),
        "{message}"
    );
    server.fail("c/1", FaultKind::Status(403), 9);
    let message = error(&ctx, &format!("SELECT sum(value) FROM '{url}'")).await;
    let place = format!("{url}/c/1, dataset \"t\", chunk [1]: cannot read: access is denied (403");
    assert!(message.contains(&place), "{message}");
}

/// Simple servers do not know the request that lists a directory. Sending it again changes nothing.
#[cfg(feature = "zarr")]
#[tokio::test]
async fn servers_that_list_nothing_are_not_asked_again() {
    let server = HttpServer::start();
    server.fail("none.zarr", FaultKind::Status(501), 100);
    let query = format!("SELECT * FROM '{}'", server.url("none.zarr"));
    let message = error(&session(), &query).await;
    assert!(message.contains("none.zarr"), "{message}");
    let log = server.take_log();
    let lists = log.iter().filter(|request| request.method == "PROPFIND");
    assert!((1..4).contains(&lists.count()), "{log:?}");
}
