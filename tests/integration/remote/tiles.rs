//! The requests for TileDB arrays in a store that lists directories.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use crate::remote::logged::LoggedStore;
use crate::remote::with_partitions;
use crate::support::sql::{rows, run};

/// Counts the requests for each kind of file, such as `a0.tdb`.
fn by_file(log: &[String]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for path in log {
        let name = path.rsplit('/').next().unwrap();
        *counts.entry(name).or_insert(0) += 1;
    }
    counts
}

/// Creates a dense array in tiles of 64 x `x` cells of random numbers, with two attributes.
async fn write_dense(path: &Path, tiles: u64, x: u64) {
    let ctx = with_partitions(1);
    let copy = format!(
        "COPY (SELECT t, x, random() AS a, random() AS b
               FROM generate_series(0, {}) AS g(t) CROSS JOIN generate_series(0, {}) AS h(x))
         TO '{}' STORED AS TILEDB OPTIONS (dims 't, x', tile '64, {x}')",
        64 * tiles - 1,
        x - 1,
        path.display()
    );
    rows(&ctx, &copy).await;
}

/// Large tiles are fetched exactly, several blocks at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn dense_tiles_are_fetched_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d");
    // Tiles of 320 KiB, which do not compress much.
    write_dense(&path, 12, 640).await;
    let store = LoggedStore::of(folder.path()).await;
    let ctx = store.session(1);
    let query = |from: &str| format!("SELECT count(*), sum(a), min(b) FROM '{from}' WHERE b >= 0");
    let expected = rows(&ctx, &query(path.to_str().unwrap())).await;
    store.take_log();
    store.set_delay(Duration::from_millis(20));
    let found = run(&ctx, &query("s3://b/d")).await;
    assert_eq!(found.rows, expected);
    let log = store.take_log();
    let counts = by_file(&log);
    // One request opens the file, and each tile takes one.
    assert!(
        (12..=13).contains(&counts["a0.tdb"]) && (12..=13).contains(&counts["a1.tdb"]),
        "{counts:?}"
    );
    assert_eq!(found.metric("requests"), 24);
    let bytes = found.metric("bytes_fetched");
    assert!((24 * 256..24 * 321).contains(&(bytes >> 10)), "{bytes}");
    assert!(found.metric("fetch_wait") > 0);
    let most = store.take_most_running();
    assert!((4..=16).contains(&most), "{most}");
    // A slice fetches its tiles.
    store.take_log();
    let found = run(
        &ctx,
        "SELECT sum(a) FROM 's3://b/d' WHERE t BETWEEN 130 AND 260",
    )
    .await;
    let log = store.take_log();
    assert_eq!(found.metric("requests"), 3);
    // The array is opened again: schema, fragment, file and tiles.
    assert!(by_file(&log)["a0.tdb"] <= 4, "{log:?}");
    assert!(!by_file(&log).contains_key("a1.tdb"), "{log:?}");
}

/// Small tiles share requests with their neighbours.
#[tokio::test(flavor = "multi_thread")]
async fn small_tiles_share_requests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d");
    // 256 tiles of 16 KiB, 4 MiB of each attribute.
    write_dense(&path, 256, 32).await;
    let store = LoggedStore::of(folder.path()).await;
    let ctx = store.session(1);
    let query = |from: &str| format!("SELECT count(*), sum(a), avg(b) FROM '{from}' WHERE b >= 0");
    let expected = rows(&ctx, &query(path.to_str().unwrap())).await;
    store.take_log();
    store.set_delay(Duration::from_millis(5));
    let found = run(&ctx, &query("s3://b/d")).await;
    assert_eq!(found.rows, expected);
    let log = store.take_log();
    let counts = by_file(&log);
    // Six or seven each, and a few more if the machine is busy.
    assert!(
        counts["a0.tdb"] <= 16 && counts["a1.tdb"] <= 16,
        "{counts:?}"
    );
    let requests = found.metric("requests");
    assert!(requests <= 32, "{requests}");
    // One tile takes few bytes.
    let found = run(&ctx, "SELECT sum(a) FROM 's3://b/d' WHERE t = 9000").await;
    assert!(found.metric("requests") <= 1);
    assert!(
        found.metric("bytes_fetched") <= 64 << 10,
        "{}",
        found.metric("bytes_fetched")
    );
}

/// Data tiles are fetched ahead, with those that they are compared with, and the metadata of fragments at the
/// same time.
#[tokio::test(flavor = "multi_thread")]
async fn sparse_tiles_and_footers_are_fetched_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let ctx = with_partitions(1);
    let copy = format!(
        "COPY (SELECT n AS x, random() AS v FROM generate_series(0, 99999) AS g(n))
         TO '{}' STORED AS TILEDB OPTIONS (dims 'x', sparse 'true')",
        path.display()
    );
    rows(&ctx, &copy).await;
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{}'",
        path.display()
    );
    rows(&ctx, &create).await;
    for number in 0..7 {
        let insert = format!(
            "INSERT INTO t SELECT n, random() FROM generate_series({}, {}, 3) AS g(n)",
            number * 10_000,
            number * 10_000 + 20_000
        );
        rows(&ctx, &insert).await;
    }
    let store = LoggedStore::of(folder.path()).await;
    let ctx = store.session(1);
    let query = |from: &str| format!("SELECT count(*), sum(x), sum(v) FROM '{from}'");
    let expected = rows(&ctx, &query(path.to_str().unwrap())).await;
    store.take_log();
    store.set_delay(Duration::from_millis(20));
    // The metadata of the eight fragments are read at the same time.
    let create = "CREATE EXTERNAL TABLE r STORED AS TILEDB LOCATION 's3://b/s'";
    rows(&ctx, create).await;
    let log = store.take_log();
    assert_eq!(by_file(&log)["__fragment_metadata.tdb"], 8, "{log:?}");
    let most = store.take_most_running();
    assert!((4..=8).contains(&most), "{most}");
    let found = run(&ctx, &query("r")).await;
    assert_eq!(found.rows, expected);
    let log = store.take_log();
    // Files of less than 64 KiB take one request, and the largest, of 800 KB, a few.
    assert!(log.len() <= 30, "{}: {log:?}", log.len());
    assert!(store.take_most_running() >= 2);
    assert!(found.metric("fetch_wait") > 0);
}
