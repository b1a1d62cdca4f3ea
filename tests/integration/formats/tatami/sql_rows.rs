//! Queries of documents have the answers that they have on the same rows as JSON lines, which DataFusion
//! reads itself, and `tatami_pages` shows the layout that the reference implementation shows.

use super::data::{document, names, path};
use crate::support::sql::{rows, session};

#[tokio::test]
async fn queries_have_the_answers_of_json_lines() {
    let ctx = session();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let generated = "SELECT n AS id, CASE WHEN n % 11 = 0 THEN NULL ELSE 'host' || (n * 7919 % 40) || '.example' END AS host, \
         arrow_cast(n * 0.25 - 300, 'Float64') AS weight, n % 5 = 0 AS is_root, \
         CASE WHEN n % 13 = 0 THEN NULL ELSE repeat('ä word ' || n, 1 + n % 9) END AS body FROM generate_series(1, 5000) AS s(n)";
    let layout = "bloom 'host', blob 'body', page_rows '128', row_group_rows '1000'";
    for statement in [
        format!(
            "COPY ({generated}) TO '{}' STORED AS JSON",
            path("rows.json")
        ),
        format!(
            "COPY ({generated}) TO '{}' STORED AS TATAMI OPTIONS ({layout}, sort_key 'id')",
            path("a.tatami")
        ),
        format!(
            "COPY ({generated}) TO '{}' STORED AS TATAMI OPTIONS (compression 'none')",
            path("b.tatami")
        ),
        format!(
            "CREATE EXTERNAL TABLE lines STORED AS JSON LOCATION '{}'",
            path("rows.json")
        ),
        format!(
            "CREATE EXTERNAL TABLE a STORED AS TATAMI LOCATION '{}' OPTIONS (blobs 'strict')",
            path("a.tatami")
        ),
        format!(
            "CREATE EXTERNAL TABLE b STORED AS TATAMI LOCATION '{}'",
            path("b.tatami")
        ),
    ] {
        rows(&ctx, &statement).await;
    }
    for query in [
        "SELECT id, host, weight, is_root, body FROM {} ORDER BY id",
        "SELECT host, count(*), sum(weight), max(body) FROM {} GROUP BY host ORDER BY host",
        "SELECT id, body FROM {} WHERE host = 'host7.example' AND weight > 100 ORDER BY id",
        "SELECT id FROM {} WHERE host IN ('host1.example', 'nosuch') OR body IS NULL ORDER BY id",
        "SELECT count(*), count(body), min(host), max(id) FROM {} WHERE NOT is_root",
        "SELECT substr(body, 3, 9), length(body) FROM {} WHERE id BETWEEN 1200 AND 1212 ORDER BY id",
        "SELECT id, host FROM {} WHERE host LIKE 'host3%' AND body LIKE '%ä word 33%' ORDER BY id",
        "SELECT DISTINCT upper(host) FROM {} WHERE id < 300 ORDER BY 1",
        "SELECT l.id FROM {} l JOIN {} r ON l.host = r.host AND l.id = r.id + 40 ORDER BY l.id LIMIT 50",
    ] {
        let expected = rows(&ctx, &query.replace("{}", "lines")).await;
        assert!(!expected.is_empty(), "{query}");
        for table in ["a", "b"] {
            let found = rows(&ctx, &query.replace("{}", table)).await;
            assert_eq!(found, expected, "{query}, {table}");
        }
    }
}

#[tokio::test]
async fn pages_are_listed_as_the_reference_lists_them() {
    let mut count = 0;
    for name in names() {
        let ctx = session();
        let file = path(&format!("{name}.tatami"));
        let sql = format!(
            "CREATE EXTERNAL TABLE t STORED AS TATAMI LOCATION '{}'",
            file.display()
        );
        if ctx.sql(&sql).await.is_err() {
            // A type that the format gives no layout.
            continue;
        }
        let layout = document(&format!("{name}.layout.json"));
        let mut expected = Vec::new();
        for (number, group) in layout["groups"].as_array().unwrap().iter().enumerate() {
            for chunk in group["chunks"].as_array().unwrap() {
                let column = chunk["col"].as_u64().unwrap() as usize;
                let column = layout["schema"][column]["name"].as_str().unwrap();
                for (page_number, page) in chunk["pages"].as_array().unwrap().iter().enumerate() {
                    expected.push(format!(
                        "{number} {column} {page_number} {} {} {} {} {} {} {}",
                        page["num"],
                        page["nulls"],
                        page["enc"].as_str().unwrap(),
                        page["codec"].as_str().unwrap(),
                        page["off"],
                        page["comp"],
                        page["raw"],
                    ));
                }
            }
        }
        let sql = "SELECT row_group, column_name, page, rows, nulls, encoding, codec, page_offset, stored_bytes, raw_bytes \
                   FROM tatami_pages('t')";
        assert_eq!(rows(&ctx, sql).await, expected, "{name}");
        count += expected.len();
    }
    assert!(count > 500, "{count}");
}

#[tokio::test]
async fn batches_of_a_long_page_keep_only_their_own_texts() {
    let ctx = session();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.tatami");
    let sql = format!(
        "COPY (SELECT 'a text that is longer than a view: ' || n AS text FROM generate_series(1, 50000) AS s(n)) TO '{}' \
         STORED AS TATAMI OPTIONS (page_rows '65536')",
        path.display()
    );
    rows(&ctx, &sql).await;
    let sql = format!("SELECT text FROM '{}'", path.display());
    let frame = ctx.sql(&sql).await.unwrap();
    let batches = frame.collect().await.unwrap();
    assert!(batches.len() > 5, "{}", batches.len());
    for batch in batches {
        // A text has about 40 bytes, and its view 16; the views of a batch are allocated at once.
        let bytes = batch.get_array_memory_size();
        assert!(bytes < 200_000 + 60 * batch.num_rows(), "{bytes}");
    }
}
