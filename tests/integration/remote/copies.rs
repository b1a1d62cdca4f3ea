//! `COPY` to URLs.

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tet_sql::format::tet::Compression;
use url::Url;

use crate::remote::{session, write_grid};
use crate::support::http::{FaultKind, HttpServer};
use crate::support::sql::{error, rows};

#[tokio::test]
async fn arrays_are_written_to_stores() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write_grid(&path, 3, Compression::Raw);
    let memory = Arc::new(InMemory::new());
    let ctx = session();
    let store: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(&memory);
    ctx.register_object_store(&Url::parse("memory:///").unwrap(), store);
    let sum = |location: &str| format!("SELECT count(*), sum(value) FROM '{location}'");
    let expected = rows(&ctx, &sum(path.to_str().unwrap())).await;
    for (target, from) in [
        ("memory:///d/b.tet", "memory:///d/b.tet"),
        ("memory:///d/b.zarr", "memory:///d/b.zarr#t"),
    ] {
        let copy = format!("COPY (SELECT * FROM '{}') TO '{target}'", path.display());
        assert_eq!(rows(&ctx, &copy).await, ["12288"]);
        assert_eq!(rows(&ctx, &sum(from)).await, expected, "{target}");
    }
    // A file is replaced. A directory is not, because chunks of the old one could be left.
    let copy = "COPY (SELECT 1 AS x, 2 AS v) TO 'memory:///d/b.tet' OPTIONS (dims 'x')";
    rows(&ctx, copy).await;
    assert_eq!(
        rows(&ctx, "SELECT value FROM 'memory:///d/b.tet'").await,
        ["2"]
    );
    let copy = "COPY (SELECT 1 AS x, 2 AS v) TO 'memory:///d/b.zarr' OPTIONS (dims 'x')";
    let message = error(&ctx, copy).await;
    assert!(message.contains("memory:///d/b.zarr: exists"), "{message}");
    let all: Vec<_> = memory.list(None).try_collect().await.unwrap();
    assert!(
        all.iter()
            .all(|object| !object.location.as_ref().contains(".tmp")),
        "{all:?}"
    );
}

#[tokio::test]
async fn a_failed_copy_leaves_nothing_to_find() {
    let server = HttpServer::start();
    let ctx = session();
    let copy = |name: &str| {
        let url = server.url(name);
        format!(
            "COPY (SELECT value AS x, value * 2 AS v FROM generate_series(1, 9)) TO '{url}' OPTIONS (dims 'x')"
        )
    };
    rows(&ctx, &copy("a.zarr")).await;
    let log = server.take_log();
    let puts = log.iter().filter(|request| request.method == "PUT");
    let names: Vec<_> = puts.map(|request| request.target.clone()).collect();
    assert_eq!(
        names.last().map(String::as_str),
        Some("/a.zarr/zarr.json"),
        "{names:?}"
    );
    let sum = format!("SELECT sum(value) FROM '{}#v'", server.url("a.zarr"));
    assert_eq!(rows(&ctx, &sum).await, ["90"]);
    server.fail("/c/0", FaultKind::Status(403), 99);
    let message = error(&ctx, &copy("b.zarr")).await;
    assert!(
        message.contains("cannot write") && message.contains("403"),
        "{message}"
    );
    assert_eq!(server.content("b.zarr/zarr.json"), None);
    assert!(!Path::new("b.zarr").exists());
}
