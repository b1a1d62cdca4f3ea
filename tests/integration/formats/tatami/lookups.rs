//! Lookups of single documents read as many pages of a long file as of a short one.

use std::path::Path;

use datafusion::prelude::SessionContext;

use crate::support::sql::{error, rows, run, session};

async fn write(ctx: &SessionContext, directory: &Path, documents: u32) -> String {
    let name = format!("pages_{documents}");
    let path = directory.join(format!("{name}.tatami"));
    let sql = format!(
        "COPY (SELECT n AS id, 'https://example.org/' || n AS url, 'digest-' || (n * 7919 % 104729) AS digest, n % 7 AS kind, \
         repeat('body of ' || n || ' ', 20) AS body FROM generate_series(1, {documents}) AS s(n)) \
         TO '{}' STORED AS TATAMI OPTIONS (sort_key 'id', bloom 'url', blob 'body', page_rows '100', \
         row_group_rows '1000', blob_run_bytes '10000')",
        path.display()
    );
    rows(ctx, &sql).await;
    let sql = format!(
        "CREATE EXTERNAL TABLE {name} STORED AS TATAMI LOCATION '{}' OPTIONS (blobs 'strict')",
        path.display()
    );
    rows(ctx, &sql).await;
    name
}

#[tokio::test]
async fn a_document_is_found_by_its_key_in_one_page_of_each_column() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = session();
    let [short, long] = [2000, 16_000].map(|documents| (documents, directory.path()));
    let mut bytes = Vec::new();
    for (documents, directory) in [short, long] {
        let table = write(&ctx, directory, documents).await;
        let sql = format!("SELECT url, digest, substr(body, 1, 12) FROM {table} WHERE id = 1234");
        let found = run(&ctx, &sql).await;
        assert_eq!(
            found.rows,
            ["https://example.org/1234 digest-32249 body of 1234"]
        );
        // The filter reads one block, and the other columns are read in the same block.
        assert_eq!(found.metric("chunks_read"), 2, "{table}");
        let groups = documents as usize / 1000;
        assert_eq!(
            (
                found.metric("chunks_pruned_by_zone_map"),
                found.metric("chunks_pruned_by_page_index")
            ),
            (10 * (groups - 1), 9),
            "{table}"
        );
        bytes.push(found.metric("bytes_read"));
    }
    // The dictionaries of the bodies differ, and so does the length of a run by a few bytes.
    assert!(bytes[0].abs_diff(bytes[1]) < 20, "{bytes:?}");
}

#[tokio::test]
async fn a_document_is_found_by_a_bloom_filter_in_one_row_group() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = session();
    let table = write(&ctx, directory.path(), 16_000).await;
    let sql = format!("SELECT id, digest FROM {table} WHERE url = 'https://example.org/1234'");
    let found = run(&ctx, &sql).await;
    assert_eq!(found.rows, ["1234 digest-32249"]);
    // The 10 pages of the row group for the filter, and one page for the other columns.
    assert_eq!(found.metric("chunks_read"), 11);
    let pruned = found.metric("chunks_pruned_by_bloom") + found.metric("chunks_pruned_by_zone_map");
    assert_eq!(pruned, 150);
}

#[tokio::test]
async fn row_groups_of_many_files_are_ruled_out_before_their_pages() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = session();
    for documents in [2000, 5000] {
        write(&ctx, directory.path(), documents).await;
    }
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS TATAMI LOCATION '{}'",
        directory.path().join("*.tatami").display()
    );
    rows(&ctx, &sql).await;
    let found = run(&ctx, "SELECT digest FROM t WHERE id = 1234").await;
    assert_eq!(found.rows, ["digest-32249", "digest-32249"]);
    let metrics = ["zone_map", "page_index"];
    let metrics = metrics.map(|name| found.metric(&format!("chunks_pruned_by_{name}")));
    assert_eq!(metrics, [50, 18]);
}

#[tokio::test]
async fn one_blob_run_is_read_for_one_document() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = session();
    let table = write(&ctx, directory.path(), 16_000).await;
    let bytes = async |columns: &str| {
        let sql = format!("SELECT {columns} FROM {table} WHERE url = 'https://example.org/1234'");
        run(&ctx, &sql).await.metric("bytes_read")
    };
    let runs = rows(
        &ctx,
        &format!(
            "SELECT max(stored_bytes) FROM tatami_pages('{table}') WHERE column_name = 'body'"
        ),
    )
    .await;
    let (without, with) = (bytes("id").await, bytes("id, body").await);
    // A run holds at most 10,000 bytes of bodies, which compress well.
    assert!(
        with > without && with - without < 2000,
        "{without}, {with}, {runs:?}"
    );
}

#[tokio::test]
async fn keys_of_joins_and_the_limit_of_a_sort_prune_while_the_query_runs() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = session();
    let table = write(&ctx, directory.path(), 16_000).await;
    // A page is a batch.
    rows(&ctx, "SET datafusion.execution.batch_size = 100").await;
    let sql = format!("SELECT id FROM {table} ORDER BY id LIMIT 3");
    let found = run(&ctx, &sql).await;
    assert_eq!(found.rows, ["1", "2", "3"]);
    assert!(found.reads() <= 2, "{}", found.reads());
    let sql = format!("SELECT id FROM {table} ORDER BY id DESC LIMIT 3");
    let found = run(&ctx, &sql).await;
    assert_eq!(found.rows, ["16000", "15999", "15998"]);
    let sql = format!(
        "SELECT t.id, k.label FROM {table} t JOIN (VALUES ('https://example.org/1234', 'a'), ('https://example.org/1239', 'b')) \
         k(url, label) ON t.url = k.url ORDER BY t.id"
    );
    let found = run(&ctx, &sql).await;
    assert_eq!(found.rows, ["1234 a", "1239 b"]);
    // Both are in the second of 16 row groups.
    assert!(
        found.metric("chunks_pruned_by_dynamic_filter") >= 100,
        "{}",
        found.metric("chunks_pruned_by_dynamic_filter")
    );
}

#[tokio::test]
async fn opening_and_counting_read_no_page() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = session();
    write(&ctx, directory.path(), 2000).await;
    let path = directory.path().join("pages_2000.tatami");
    let mut bytes = std::fs::read(&path).unwrap();
    let footer = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    bytes[64..footer].fill(0xee);
    let damaged = directory.path().join("damaged.tatami");
    std::fs::write(&damaged, bytes).unwrap();
    let counted = |rest: &str| format!("SELECT {rest} FROM '{}'", damaged.display());
    let sql = counted("count(*), min(id), max(id)");
    assert_eq!(rows(&ctx, &sql).await, ["2000 1 2000"]);
    let text = error(&ctx, &counted("sum(id)")).await;
    assert!(text.contains("damaged.tatami"), "{text}");
    rows(&ctx, "SET tet.zone_maps = false").await;
    let text = error(&ctx, &counted("min(id)")).await;
    assert!(text.contains("damaged.tatami"), "{text}");
}
