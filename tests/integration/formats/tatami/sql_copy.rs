//! `COPY ... STORED AS TATAMI`.

use std::path::Path;

use datafusion::prelude::SessionContext;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::{Encoding, TatamiFile};

use super::data;
use super::search::corpus::path;
use super::sql::{batch, readable};
use crate::support::sql::{error, rows, run, session};

async fn create(ctx: &SessionContext, table: &str, path: &Path) {
    let path = path.display();
    let sql = format!(
        "CREATE EXTERNAL TABLE {table} STORED AS TATAMI LOCATION '{path}' OPTIONS (text 'binary')"
    );
    rows(ctx, &sql).await;
}

#[tokio::test]
async fn copies_have_the_rows_of_the_original() {
    let copies = tempfile::tempdir().unwrap();
    for name in readable() {
        let ctx = session();
        create(&ctx, "t", &data::path(&format!("{name}.tatami"))).await;
        let copy = copies.path().join("copy.tatami");
        let options = "OPTIONS (page_rows '100', row_group_rows '250')";
        let sql = format!(
            "COPY (SELECT * FROM t) TO '{}' STORED AS TATAMI {options}",
            copy.display()
        );
        rows(&ctx, &sql).await;
        create(&ctx, "copy", &copy).await;
        let (expected, found) = (
            batch(&ctx, "SELECT * FROM t").await,
            batch(&ctx, "SELECT * FROM copy").await,
        );
        assert_eq!(expected.columns(), found.columns(), "{name}");
    }
}

#[tokio::test]
async fn options_decide_the_layout() {
    let ctx = session();
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("pages.tatami");
    let rows_of = "SELECT (n * 7919) % 1000 AS id, 'https://example.org/' || n AS url, \
                   CASE WHEN n % 10 = 0 THEN NULL ELSE repeat('text ', n % 50) END AS body, \
                   CAST(n AS TIMESTAMP) AS seen, n % 2 = 0 AS is_even, CAST(n AS REAL) / 3 AS part \
                   FROM generate_series(0, 999) AS s(n)";
    let sql = format!(
        "COPY ({rows_of}) TO '{}' STORED AS TATAMI OPTIONS (sort_key 'id', bloom 'url', blob 'body', \
         search 'body, url', page_rows '100', row_group_rows '500')",
        copy.display()
    );
    assert_eq!(rows(&ctx, &sql).await, ["1000"]);
    let file = TatamiFile::open(&copy, Access::Pread).unwrap();
    assert_eq!(file.row_groups().len(), 2);
    assert_eq!(file.schema().sort_key(), Some(0));
    assert_eq!(file.pages(0, 0).unwrap().len(), 5);
    assert!(file.page_index(1).unwrap().is_some() && file.bloom(1, 1).unwrap().is_some());
    assert_eq!(file.footer().blobs.len(), 1);
    let encoding = Encoding::from_id(file.pages(0, 0).unwrap()[0].header.encoding);
    assert_ne!(encoding, Some(Encoding::Plain));
    assert!(tet_sql::format::tatami::verify(&std::sync::Arc::new(file), true).is_empty());

    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS TATAMI LOCATION '{}' OPTIONS (blobs 'strict')",
        copy.display()
    );
    rows(&ctx, &sql).await;
    let expected = batch(&ctx, &format!("SELECT * FROM ({rows_of}) ORDER BY id")).await;
    let found = batch(&ctx, "SELECT * FROM t").await;
    for (found, expected) in found.columns().iter().zip(expected.columns()) {
        let expected = arrow::compute::cast(expected, found.data_type()).unwrap();
        assert_eq!(found, &expected);
    }
    for (predicate, pruned) in [
        ("id = 437", "pruned_by_page_index="),
        ("url = 'https://example.org/77'", "pruned_by_bloom="),
    ] {
        let sql = format!("EXPLAIN SELECT body FROM t WHERE {predicate}");
        let plan = rows(&ctx, &sql).await.join("\n");
        assert!(
            plan.contains("chunks=1 of 10") || plan.contains(pruned),
            "{plan}"
        );
        assert!(plan.contains(pruned), "{plan}");
    }
    // A search finds the same documents as `matches` on the texts.
    for word in ["text", "77", "example", "nosuchword"] {
        let searched = format!("SELECT doc FROM tatami_search('t', '{word}') ORDER BY doc");
        let expected = format!(
            "SELECT n FROM (SELECT row_number() OVER (ORDER BY id) - 1 AS n, body, url FROM t) \
             WHERE matches(coalesce(body, '') || ' ' || url, '{word}') ORDER BY n"
        );
        assert_eq!(
            rows(&ctx, &searched).await,
            rows(&ctx, &expected).await,
            "{word}"
        );
        let sql = format!("SELECT count(*) FROM t WHERE matches(body, '{word}')");
        let expected = format!("SELECT count(*) FROM ({rows_of}) WHERE matches(body, '{word}')");
        assert_eq!(
            rows(&ctx, &sql).await,
            rows(&ctx, &expected).await,
            "{word}"
        );
    }
}

#[tokio::test]
async fn a_segment_can_be_copied() {
    let ctx = session();
    create(&ctx, "t", &path("full.tatami")).await;
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("copy.parquet");
    rows(
        &ctx,
        &format!("COPY (SELECT * FROM t) TO '{}'", copy.display()),
    )
    .await;
    let found = rows(&ctx, &format!("SELECT count(*) FROM '{}'", copy.display())).await;
    assert_eq!(found, ["320"]);
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_without_a_file() {
    let ctx = session();
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("copy.tatami");
    for (columns, options, expected) in [
        ("[1, 2] AS a", "", "column \"a\" has the type"),
        (
            "1 AS a",
            "OPTIONS (bloom 'b')",
            "option bloom names the column \"b\", expected one of a",
        ),
        ("1 AS a", "OPTIONS (blob 'a')", "expected text or binary"),
        ("1 AS a", "OPTIONS (search 'a')", "expected text"),
        (
            "1 AS a",
            "OPTIONS (page_rows '0')",
            "expected a number from 1",
        ),
        (
            "1 AS a",
            "OPTIONS (nonsense '0')",
            "unknown option nonsense",
        ),
    ] {
        let sql = format!(
            "COPY (SELECT {columns}) TO '{}' STORED AS TATAMI {options}",
            copy.display()
        );
        let text = error(&ctx, &sql).await;
        assert!(text.contains(expected), "{sql}: {text}");
    }
    let sql = format!(
        "COPY (SELECT 10 / (n - 500) AS a FROM generate_series(1, 1000) AS s(n)) TO '{}' STORED AS TATAMI",
        copy.display()
    );
    let text = error(&ctx, &sql).await;
    assert!(text.to_lowercase().contains("divide by zero"), "{text}");
    assert_eq!(copies.path().read_dir().unwrap().count(), 0);
}

/// If the segment indexes one column, its postings alone tell which rows match, and no text is read.
#[tokio::test]
async fn texts_of_a_column_with_its_own_index_are_not_read() {
    let ctx = session();
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("texts.tatami");
    let rows_of = "SELECT n AS id, CASE WHEN n % 7 = 0 THEN NULL ELSE \
                   'Wörter no' || (n % 13) || ' and no' || (n % 11) || repeat(', more', n % 50) END AS body \
                   FROM generate_series(0, 1999) AS s(n)";
    let sql = format!(
        "COPY ({rows_of}) TO '{}' STORED AS TATAMI OPTIONS (sort_key 'id', blob 'body', \
         search 'body', page_rows '100', row_group_rows '500')",
        copy.display()
    );
    rows(&ctx, &sql).await;
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS TATAMI LOCATION '{}' OPTIONS (blobs 'strict')",
        copy.display()
    );
    rows(&ctx, &sql).await;
    for (predicate, reads_texts) in [
        ("matches(body, 'no3')", false),
        ("matches(body, 'no3 no7')", false),
        (
            "matches(body, 'no3 no12', 'any') AND matches(body, 'more')",
            false,
        ),
        ("matches(body, 'wörter no1 nosuchword')", false),
        ("matches(body, 'no3') AND id > 700", true),
        ("matches(body, 'no3') AND body LIKE '%no5%'", true),
        ("NOT matches(body, 'no3')", true),
        ("matches(body, 'no3') OR id = 5", true),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {predicate}");
        let ran = run(&ctx, &sql).await;
        let expected = format!("SELECT count(*) FROM ({rows_of}) WHERE {predicate}");
        assert_eq!(ran.rows, rows(&ctx, &expected).await, "{predicate}");
        assert_eq!(ran.metric("bytes_read") > 0, reads_texts, "{predicate}");
        let of_rows =
            |from: &str| format!("SELECT id, body FROM {from} WHERE {predicate} ORDER BY id");
        let (found, expected) = (of_rows("t"), of_rows(&format!("({rows_of})")));
        assert_eq!(
            rows(&ctx, &found).await,
            rows(&ctx, &expected).await,
            "{predicate}"
        );
    }
}

#[tokio::test]
async fn rows_are_sorted_by_the_key_whatever_order_they_come_in() {
    let ctx = session();
    let copies = tempfile::tempdir().unwrap();
    let path = copies.path().join("sorted.tatami");
    let numbers = "SELECT n, (n * 37) % 101 AS k FROM generate_series(1, 100) AS g(n)";
    for (number, query) in [
        format!("{numbers} ORDER BY n"),
        format!("{numbers} ORDER BY k DESC"),
        format!("SELECT n, k, row_number() OVER (ORDER BY n) AS r FROM ({numbers})"),
    ]
    .iter()
    .enumerate()
    {
        let target = path.display();
        let sql = format!("COPY ({query}) TO '{target}' STORED AS TATAMI OPTIONS (sort_key 'k')");
        rows(&ctx, &sql).await;
        let table = format!("t{number}");
        create(&ctx, &table, &path).await;
        let found = rows(&ctx, &format!("SELECT n, k FROM {table}")).await;
        let expected = rows(&ctx, &format!("SELECT n, k FROM ({numbers}) ORDER BY k")).await;
        assert_eq!(found, expected, "{query}");
        std::fs::remove_file(&path).unwrap();
    }
}
