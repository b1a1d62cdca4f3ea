//! The stores of a session: registered, created on first use, and created from options.

use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use tet_sql::format::tet::Compression;
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};
use url::Url;

use crate::remote::{session, write_grid};
use crate::support::http::HttpServer;
use crate::support::sql::{error, rows};

#[tokio::test]
async fn stores_that_the_program_registers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    write_grid(&path, 2, Compression::Raw);
    let memory = InMemory::new();
    let content = std::fs::read(&path).unwrap();
    memory
        .put(&ObjectPath::from("d/a.tet"), content.into())
        .await
        .unwrap();
    let ctx = enable_arrays(SessionContext::new(), ArrayOptions::new());
    let query = "SELECT count(value) FROM 's3://bucket/d/a.tet'";
    let message = error(&ctx, query).await;
    assert!(message.contains("register_object_store"), "{message}");
    let store: Arc<dyn ObjectStore> = Arc::new(memory);
    ctx.register_object_store(&Url::parse("s3://bucket").unwrap(), Arc::clone(&store));
    assert_eq!(rows(&ctx, query).await, ["8192"]);
    // A session without the rules of `enable_arrays`.
    let plain = SessionContext::new();
    plain.register_object_store(&Url::parse("s3://bucket").unwrap(), store);
    let url = Path::new("s3://bucket/d/a.tet");
    plain
        .register_array_file(url, ArrayOptions::new())
        .await
        .unwrap();
    assert_eq!(rows(&plain, "SELECT count(value) FROM a.t").await, ["8192"]);
}

#[tokio::test]
async fn tables_with_options_of_stores() {
    let ctx = session();
    let create = |options: &str| {
        format!(
            "CREATE EXTERNAL TABLE t STORED AS ZARR LOCATION 's3://no-such-bucket/a.zarr' OPTIONS ({options})"
        )
    };
    let message = error(&ctx, &create("'aws.colour' 'red'")).await;
    assert!(
        message.contains("colour") && message.contains("s3://no-such-bucket"),
        "{message}"
    );
    let server = HttpServer::start();
    let metadata = r#"{
        "zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 7,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}"#;
    // A store of S3 by path, as those of its servers for tests.
    server.put("no-such-bucket/a.zarr/zarr.json", metadata);
    let options = format!(
        "'aws.endpoint' 'http://{}', 'aws.region' 'us-east-1', anonymous true, dataset 'a'",
        server.address()
    );
    rows(&ctx, &create(&options)).await;
    assert_eq!(rows(&ctx, "SELECT sum(value) FROM t").await, ["21"]);
    let log = server.take_log();
    assert!(
        log.iter().all(|request| request.authorization.is_none()),
        "{log:?}"
    );
    let local = "CREATE EXTERNAL TABLE u STORED AS TET LOCATION 'a.tet' OPTIONS ('aws.region' 'x')";
    let message = error(&ctx, local).await;
    assert!(message.contains("need a URL"), "{message}");
}

#[tokio::test]
async fn rows_by_url() {
    let server = HttpServer::start();
    server.put("a.csv", "k,v\n1,2\n3,4\n");
    server.put("a.json", "{\"k\": 1}\n{\"k\": 5}\n");
    let ctx = session();
    let query = format!("SELECT sum(v) FROM '{}'", server.url("a.csv"));
    assert_eq!(rows(&ctx, &query).await, ["6"]);
    let query = format!("SELECT sum(k) FROM '{}'", server.url("a.json"));
    assert_eq!(rows(&ctx, &query).await, ["6"]);
    let create = format!(
        "CREATE EXTERNAL TABLE c STORED AS CSV LOCATION '{}' OPTIONS ('has_header' 'true')",
        server.url("a.csv")
    );
    rows(&ctx, &create).await;
    assert_eq!(rows(&ctx, "SELECT max(k) FROM c").await, ["3"]);
}

#[tokio::test]
async fn passwords_and_signatures_are_sent_but_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    write_grid(&folder.path().join("a.tet"), 2, Compression::Raw);
    let server = HttpServer::of(folder.path());
    let ctx = session();
    let url = format!("http://me:hunter2@{}/a.tet?sig=topsecret", server.address());
    let schema = ctx
        .register_array_file(Path::new(&url), ArrayOptions::new())
        .await
        .unwrap();
    assert_eq!(schema.path(), Path::new(&server.url("a.tet")));
    assert_eq!(schema.name(), "a");
    assert_eq!(rows(&ctx, "SELECT count(value) FROM a.t").await, ["8192"]);
    let log = server.take_log();
    let is_signed = |target: &str| target == "/a.tet?sig=topsecret";
    assert!(
        log.iter().all(|request| is_signed(&request.target)),
        "{log:?}"
    );
    assert!(
        log.iter().all(|request| request.authorization.is_some()),
        "{log:?}"
    );
    let create = format!("CREATE EXTERNAL TABLE e STORED AS TET LOCATION '{url}'");
    rows(&ctx, &create).await;
    let mut shown = rows(&ctx, "EXPLAIN VERBOSE SELECT sum(value) FROM e").await;
    shown.extend(rows(&ctx, "SELECT * FROM tet_files()").await);
    server.delete("a.tet");
    shown.push(error(&ctx, &format!("SELECT * FROM '{url}'")).await);
    let closed = "http://me:hunter2@127.0.0.1:1/a.tet?sig=topsecret";
    shown.push(error(&ctx, &format!("SELECT * FROM '{closed}'")).await);
    for text in shown {
        assert!(
            !text.contains("hunter2") && !text.contains("topsecret"),
            "{text}"
        );
    }
}

/// `COPY` to a store that its options describe, whose plan does not show them.
#[tokio::test]
async fn copies_with_options_of_stores() {
    let server = HttpServer::start();
    let options = format!(
        "'aws.endpoint' 'http://{}', 'aws.region' 'us-east-1', 'aws.access_key_id' 'me', \
         'aws.secret_access_key' 'hunter2'",
        server.address()
    );
    let rows_of = "SELECT value AS x, value * 2 AS v FROM generate_series(1, 9)";
    for (number, (name, more)) in [
        ("a.tet", ", dims 'x'"),
        ("a.csv", ", 'format.has_header' 'true'"),
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("s3://no-such-bucket-{number}/{name}");
        let copy = format!("COPY ({rows_of}) TO '{target}' OPTIONS ({options}{more})");
        // By the statement alone, and by the planner that keeps the options out of the plan.
        let ctx = session();
        rows(&ctx, &copy).await;
        let content = server.content(&format!("no-such-bucket-{number}/{name}"));
        assert!(content.is_some(), "{name}");
        let ctx = session();
        let explain = format!("EXPLAIN VERBOSE {copy}");
        let plan = tet_sql::create_logical_plan(&ctx.state(), &explain)
            .await
            .unwrap();
        let shown = ctx.execute_logical_plan(plan).await.unwrap();
        let shown = shown.to_string().await.unwrap();
        assert!(
            shown.contains(name) && !shown.contains("hunter2"),
            "{shown}"
        );
        server.delete(&format!("no-such-bucket-{number}/{name}"));
        let plan = tet_sql::create_logical_plan(&ctx.state(), &copy)
            .await
            .unwrap();
        let frame = ctx.execute_logical_plan(plan).await.unwrap();
        frame.collect().await.unwrap();
        // The bucket has the store of the options from now on.
        let column = if number == 0 { "value" } else { "v" };
        let sum = format!("SELECT sum({column}) FROM '{target}'");
        assert_eq!(rows(&ctx, &sum).await, ["90"], "{name}");
    }
    let log = server.take_log();
    assert!(log.iter().all(|request| request.authorization.is_some()));
    let ctx = session();
    let local = format!("COPY ({rows_of}) TO 'a.tet' OPTIONS ({options}, dims 'x')");
    let message = error(&ctx, &local).await;
    assert!(
        message.contains("need a URL") && !message.contains("hunter2"),
        "{message}"
    );
}
