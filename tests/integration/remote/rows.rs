//! Files of rows behind URLs: errors, patterns, and answers of the wrong length.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use crate::remote::session;
use crate::support::http::{FaultKind, HttpServer};
use crate::support::sql::{error, rows};

/// Creates a session with a bucket of files.
async fn with_bucket(name: &str, files: &[(&str, &str)]) -> SessionContext {
    let ctx = session();
    add_bucket(&ctx, name, files).await;
    ctx
}

async fn add_bucket(ctx: &SessionContext, name: &str, files: &[(&str, &str)]) {
    let store = InMemory::new();
    for (key, content) in files {
        let content = (*content).to_string();
        store
            .put(&ObjectPath::from(*key), content.into())
            .await
            .unwrap();
    }
    let store: Arc<dyn ObjectStore> = Arc::new(store);
    let url = Url::parse(&format!("s3://{name}")).unwrap();
    ctx.register_object_store(&url, store);
}

/// Returns the errors of opening a URL in place of a table, and in `CREATE EXTERNAL TABLE`.
async fn errors(ctx: &SessionContext, url: &str) -> [String; 2] {
    let create = format!("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '{url}'");
    [
        error(ctx, &format!("SELECT * FROM '{url}'")).await,
        error(ctx, &create).await,
    ]
}

#[tokio::test]
async fn the_reason_is_shown_if_rows_cannot_be_opened() {
    let server = HttpServer::start();
    let ctx = session();
    let url = server.url("nope.csv");
    for message in errors(&ctx, &url).await {
        let expected = format!("{url}: there is no such file (404 Not Found)");
        assert!(message.contains(&expected), "{message}");
    }
    server.put("a.csv", "k,v\n1,2\n");
    let url = server.url("a.csv");
    for (status, expected) in [
        (401, "credentials are missing or invalid (401 Unauthorized)"),
        (403, "access is denied (403 Forbidden); check the cred"),
        (405, "405"),
    ] {
        server.fail("a.csv", FaultKind::Status(status), 2);
        for message in errors(&ctx, &url).await {
            let place = format!("{url}: cannot open: ");
            assert!(message.contains(&place), "{message}");
            assert!(message.contains(expected), "{message}");
        }
    }
    assert_eq!(rows(&ctx, &format!("SELECT v FROM '{url}'")).await, ["2"]);
    server.put("a.doc", "x");
    let message = error(&ctx, &format!("SELECT * FROM '{}'", server.url("a.doc"))).await;
    assert!(
        message.contains("expected one such as .parquet"),
        "{message}"
    );
    for message in errors(&ctx, &server.url("a*.csv")).await {
        assert!(
            message.contains("a*.csv: the files of this pattern are not known"),
            "{message}"
        );
        assert!(message.contains("cannot list"), "{message}");
    }
    let ctx = with_bucket("b", &[("a.csv", "k\n1\n")]).await;
    for message in errors(&ctx, "s3://b/nope.csv").await {
        let expected = "s3://b/nope.csv: there is no such file (404 Not Found)";
        assert!(message.contains(expected), "{message}");
    }
    // Only schemes without a store are not supported.
    for message in errors(&ctx, "ftp://h/a.csv").await {
        let expected = "ftp://h/a.csv: ftp:// locations are not supported; copy the file";
        assert!(message.contains(expected), "{message}");
    }
}

/// The signature of a URL is part of every request, also if it is one for GET only.
#[tokio::test]
async fn signatures_of_files_are_sent() {
    let server = HttpServer::start();
    server.put("a.csv", "k,v\n1,2\n");
    let ctx = session();
    let url = format!("{}?X-Amz-Signature=abc%2F1&b=2", server.url("a.csv"));
    let sum = format!("SELECT sum(v) FROM '{url}'");
    assert_eq!(rows(&ctx, &sum).await, ["2"]);
    let create =
        format!("CREATE EXTERNAL TABLE y STORED AS CSV LOCATION '{url}' OPTIONS (has_header true)");
    rows(&ctx, &create).await;
    // HEAD is refused.
    server.fail("a.csv", FaultKind::Status(403), 1);
    assert_eq!(rows(&ctx, "SELECT sum(k) FROM y").await, ["1"]);
    let log = server.take_log();
    let is_signed = |target: &str| target == "/a.csv?X-Amz-Signature=abc%2F1&b=2";
    assert!(
        log.iter().all(|request| is_signed(&request.target)),
        "{log:?}"
    );
    assert!(log.len() > 3, "{log:?}");
    // Other files of the host are read as before.
    server.put("b.csv", "k,v\n1,5\n");
    let sum = format!("SELECT sum(v) FROM '{}'", server.url("b.csv"));
    assert_eq!(rows(&ctx, &sum).await, ["5"]);
    server.fail("a.csv", FaultKind::Status(403), 100);
    for message in errors(&ctx, &url).await {
        assert!(message.contains("access is denied"), "{message}");
        assert!(!message.contains("Signature"), "{message}");
    }
}

/// With a list of columns, the files can be written after the table was created.
#[tokio::test]
async fn tables_with_columns_need_no_file() {
    let ctx = with_bucket("b", &[]).await;
    let create = "CREATE EXTERNAL TABLE x (k INT) STORED AS CSV LOCATION 's3://b/a.csv'";
    rows(&ctx, create).await;
}

#[tokio::test]
async fn patterns_of_rows_in_stores() {
    let files = [
        ("d/rows1.csv", "station,t\n1,20\n"),
        ("d/rows2.csv", "station,t\n2,21\n"),
        ("d/other.csv", "x\n5\n"),
        ("d/e/rows3.csv", "station,t\n3,22\n"),
    ];
    let ctx = with_bucket("b", &files).await;
    let sum = "SELECT sum(station), sum(t) FROM 's3://b/d/rows*.csv'";
    assert_eq!(rows(&ctx, sum).await, ["3 41"]);
    let only = "SELECT sum(t) FROM 's3://b/d/rows[2-9].csv'";
    assert_eq!(rows(&ctx, only).await, ["21"]);
    rows(
        &ctx,
        "CREATE EXTERNAL TABLE r STORED AS CSV LOCATION 's3://b/d/rows*.csv' OPTIONS (has_header true)",
    )
    .await;
    assert_eq!(rows(&ctx, "SELECT sum(t) FROM r").await, ["41"]);
    rows(
        &ctx,
        "CREATE EXTERNAL TABLE c (n INT, t INT) STORED AS CSV LOCATION 's3://b/d/rows*.csv' \
         OPTIONS (has_header true)",
    )
    .await;
    assert_eq!(rows(&ctx, "SELECT sum(n) FROM c").await, ["3"]);
    // The same path in another bucket.
    add_bucket(&ctx, "c", &[("d/rows9.csv", "station,t\n9,90\n")]).await;
    let sum = "SELECT sum(t) FROM 's3://c/d/rows*.csv'";
    assert_eq!(rows(&ctx, sum).await, ["90"]);
    for (pattern, expected) in [
        (
            "s3://b/d/none*.csv",
            "none*.csv: no file matches the pattern",
        ),
        ("s3://b/*/rows1.csv", "only be in the last part of a URL"),
        ("s3://b/d/[.csv", "the pattern is malformed"),
    ] {
        for message in errors(&ctx, pattern).await {
            assert!(message.contains(expected), "{message}");
        }
    }
    let partitioned = "CREATE EXTERNAL TABLE p (t INT, k INT) STORED AS CSV PARTITIONED BY (k) \
                       LOCATION 's3://b/d/rows*.csv'";
    let message = error(&ctx, partitioned).await;
    assert!(message.contains("PARTITIONED BY"), "{message}");
    let ctx = with_bucket(
        "b",
        &[("rows1.csv", "t,p\n1,2\n"), ("rows2.csv", "p,t\n1,2\n")],
    )
    .await;
    for message in errors(&ctx, "s3://b/rows*.csv").await {
        let expected = "rows2.csv: the columns are p, t, expected t, p as in rows1.csv";
        assert!(message.contains(expected), "{message}");
    }
}

/// A proxy that answers with a part of the range, which the reader of Parquet does not expect.
#[cfg(feature = "parquet")]
#[tokio::test]
async fn parquet_in_answers_of_the_wrong_length_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let copy = format!(
        "COPY (SELECT value AS k FROM generate_series(1, 1000)) TO '{}'",
        path.display()
    );
    rows(&session(), &copy).await;
    let server = HttpServer::of(folder.path());
    let url = server.url("a.parquet");
    let sum = format!("SELECT sum(k) FROM '{url}'");
    let ctx = session();
    assert_eq!(rows(&ctx, &sum).await, ["500500"]);
    rows(
        &ctx,
        &format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{url}'"),
    )
    .await;
    server.fail("a.parquet", FaultKind::Short, 100);
    // While the file is opened, and of a table that is open.
    let message = error(&session(), &sum).await;
    assert!(
        message.contains(&url) && message.contains("bytes, expected"),
        "{message}"
    );
    let message = error(&ctx, "SELECT sum(k) FROM t").await;
    assert!(message.contains("a.parquet has"), "{message}");
}

#[cfg(feature = "parquet")]
#[tokio::test]
async fn parquet_needs_ranges() {
    let server = HttpServer::start();
    server.put("a.parquet", "PAR1 and so on PAR1");
    server.ignore_ranges();
    let url = server.url("a.parquet");
    let message = error(&session(), &format!("SELECT * FROM '{url}'")).await;
    let expected = format!("{url}: cannot read: the server does not support the request");
    assert!(message.contains(&expected), "{message}");
}

#[cfg(feature = "parquet")]
#[tokio::test]
async fn damaged_files_are_errors_with_their_url() {
    let server = HttpServer::start();
    server.put("a.parquet", "PAR1xxxxPAR1");
    server.put("a.arrow", "ARROW1 and no more");
    server.put("b.arrow", "just,some,text");
    for (name, expected) in [
        (
            "a.parquet",
            "a damaged Parquet file: its footer has 2021161080 bytes",
        ),
        (
            "a.arrow",
            "found \"o more\", expected \"ARROW1\" at its end",
        ),
        ("b.arrow", "found \"just,som\" at its start"),
    ] {
        let url = server.url(name);
        let message = error(&session(), &format!("SELECT * FROM '{url}'")).await;
        let is_told = message.contains(&format!("{url}: ")) && message.contains(expected);
        assert!(is_told, "{message}");
    }
}
