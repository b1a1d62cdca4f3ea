//! The requests for TileDB arrays in a store that lists directories.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::prelude::SessionContext;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use url::Url;

use crate::remote::{put_directory, with_partitions};
use crate::support::sql::{rows, run};

/// A store in memory that logs its `get` requests.
#[derive(Debug, Default)]
struct LoggedStore {
    inner: InMemory,
    /// The paths of the requests since the last call of [`Self::take_log`].
    log: Mutex<Vec<String>>,
    delay: Mutex<Duration>,
    running: AtomicUsize,
    most_running: AtomicUsize,
}

impl LoggedStore {
    /// Creates a store of the files in a directory.
    async fn of(directory: &Path) -> Arc<Self> {
        let store = Self::default();
        put_directory(&store.inner, directory).await;
        Arc::new(store)
    }

    fn set_delay(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// The maximum number of requests at the same time since the last call.
    fn take_most_running(&self) -> usize {
        self.most_running.swap(0, Ordering::SeqCst)
    }

    /// Creates a session with this store as the bucket `b`.
    fn session(self: &Arc<Self>, partitions: usize) -> SessionContext {
        let ctx = with_partitions(partitions);
        let store: Arc<dyn ObjectStore> = Arc::<Self>::clone(self);
        ctx.register_object_store(&Url::parse("s3://b").unwrap(), store);
        ctx
    }
}

impl fmt::Display for LoggedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoggedStore")
    }
}

#[async_trait]
impl ObjectStore for LoggedStore {
    async fn put_opts(
        &self,
        location: &ObjectPath,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &ObjectPath,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &ObjectPath, options: GetOptions) -> Result<GetResult> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        self.log.lock().unwrap().push(location.to_string());
        let delay = *self.delay.lock().unwrap();
        tokio::time::sleep(delay).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<ObjectPath>>,
    ) -> BoxStream<'static, Result<ObjectPath>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &ObjectPath,
        to: &ObjectPath,
        options: CopyOptions,
    ) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

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
