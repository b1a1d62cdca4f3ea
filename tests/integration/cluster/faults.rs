//! Workers that fail, refuse or are slow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use tempfile::TempDir;
use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
use tet_sql::{ArrayOptions, ClusterAccess, ClusterWorker};
use tet_sql_flight::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::cells;
use crate::cluster::{Workers, use_workers, with_memory, with_token};
use crate::support::sql::{error, open, rows, sample};

/// Returns a session over the array `a` of the values 0 to 99 in 10 chunks.
async fn hundred() -> (TempDir, SessionContext) {
    let spec = DatasetSpec::new("a", Dtype::I64, &[100], &[10]).with_dim_names(["x"]);
    let (folder, _, ctx) = sample(&[(spec, cells!(0..100i64))], ArrayOptions::new()).await;
    (folder, ctx)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_wants_its_token() {
    let (folder, ctx) = hundred().await;
    let roots = [folder.path()];
    let workers = Workers::start_with(2, &roots, with_token("s3cret"), Arc::default()).await;
    let urls = workers.urls.join(",");
    let sum = "SELECT sum(value) FROM a";
    for access in [
        ClusterAccess::new(),
        ClusterAccess::new().with_token("guess"),
    ] {
        use_workers(&ctx, &urls, access).await;
        let refused = error(&ctx, sum).await;
        assert!(refused.contains("refuses the coordinator"), "{refused}");
        assert!(refused.contains("http://127.0.0.1:"), "{refused}");
        assert!(refused.contains("--cluster-token-file"), "{refused}");
    }
    use_workers(&ctx, &urls, ClusterAccess::new().with_token("s3cret")).await;
    assert_eq!(rows(&ctx, sum).await, ["4950"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_outside_of_the_roots_are_refused() {
    let (folder, ctx) = hundred().await;
    let other = tempfile::tempdir().unwrap();
    let workers = Workers::start(2, &[other.path()]).await;
    workers.join(&ctx).await;
    for sql in [
        "SELECT sum(value) FROM a",
        "SELECT x FROM a WHERE value > 3",
    ] {
        let refused = error(&ctx, sql).await;
        let path = folder.path().join("sample.tet");
        assert!(refused.contains(&path.display().to_string()), "{refused}");
        assert!(refused.contains("is not under the roots"), "{refused}");
    }
}

/// The file is replaced between planning and the decoding of the plan in the workers, which have it open from an
/// earlier query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_file_is_an_error() {
    let (folder, ctx) = hundred().await;
    let workers = Workers::start(2, &[folder.path()]).await;
    workers.join(&ctx).await;
    let sum = "SELECT sum(value) FROM a";
    assert_eq!(rows(&ctx, sum).await, ["4950"]);
    let frame = ctx.sql(sum).await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let spec = DatasetSpec::new("a", Dtype::I64, &[100], &[10]).with_dim_names(["x"]);
    let path = folder.path().join("sample.tet");
    std::fs::remove_file(&path).unwrap();
    let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
    writer.write_dataset(0, &cells!(100..200i64)).unwrap();
    writer.finish().unwrap();
    let run = datafusion::physical_plan::collect(plan, ctx.task_ctx()).await;
    let refused = run.unwrap_err().to_string();
    assert!(refused.contains("was replaced or changed"), "{refused}");
    let ctx = open(&path, ArrayOptions::new()).await;
    workers.join(&ctx).await;
    assert_eq!(rows(&ctx, sum).await, ["14950"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_memory_pool_names_the_worker() {
    let spec = DatasetSpec::new("a", Dtype::I64, &[40_000], &[10_000]).with_dim_names(["x"]);
    let (folder, _, ctx) = sample(&[(spec, cells!(0..40_000i64))], ArrayOptions::new()).await;
    let (roots, small) = ([folder.path()], with_memory(1000));
    let workers = Workers::start_with(2, &roots, Options::default(), small).await;
    workers.join(&ctx).await;
    let refused = error(&ctx, "SELECT value, x FROM a ORDER BY value DESC").await;
    assert!(refused.contains("worker http://127.0.0.1:"), "{refused}");
    assert!(refused.contains("Resources exhausted"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_does_not_answer_is_left_out() {
    let (folder, ctx) = hundred().await;
    let workers = Workers::start(1, &[folder.path()]).await;
    // A port on which nobody listens.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let urls = format!("{dead},{}", workers.urls[0]);
    use_workers(&ctx, &urls, ClusterAccess::new()).await;
    assert_eq!(rows(&ctx, "SELECT sum(value) FROM a").await, ["4950"]);
    use_workers(&ctx, &dead, ClusterAccess::new()).await;
    let lost = error(&ctx, "SELECT sum(value) FROM a").await;
    assert!(lost.contains(&format!("lost the worker {dead}")), "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_is_no_worker() {
    let (_folder, ctx) = hundred().await;
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = other.accept().await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n").await;
        }
    });
    use_workers(&ctx, &url, ClusterAccess::new()).await;
    let lost = error(&ctx, "SELECT sum(value) FROM a").await;
    assert!(lost.contains(&format!("lost the worker {url}")), "{lost}");
    serving.abort();
}

/// Forwards connections to a worker, as slowly as `pause` per message, until `cut` bytes have come back.
async fn proxy(worker: &str, pause: Duration, cut: usize) -> String {
    let worker = worker.trim_start_matches("http://").to_string();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut left = cut;
        while left > 0 {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(&worker).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            let up = tokio::spawn(async move {
                let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
            });
            let mut buffer = vec![0; 16 << 10];
            while left > 0 {
                let Ok(read) = from_server.read(&mut buffer).await else {
                    break;
                };
                let read = read.min(left);
                tokio::time::sleep(pause).await;
                if read == 0 || to_client.write_all(&buffer[..read]).await.is_err() {
                    break;
                }
                left -= read;
            }
            up.abort();
        }
    });
    url
}

/// A query with rows of about a megabyte per worker.
const LONG: &str = "SELECT x, value, value + 1, value * 3 FROM a WHERE value >= 0";

async fn long() -> (TempDir, SessionContext) {
    let spec = DatasetSpec::new("a", Dtype::I64, &[100_000], &[5_000]).with_dim_names(["x"]);
    let cells = cells!((0..100_000i64).map(|x| x * 7_919 % 100_003));
    let (folder, _, ctx) = sample(&[(spec, cells)], ArrayOptions::new()).await;
    (folder, ctx)
}

/// After the first rows, a lost worker fails the query, and no rows are lost silently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_lost_in_the_middle_fails_the_query() {
    let (folder, ctx) = long().await;
    let workers = Workers::start(2, &[folder.path()]).await;
    let cut = proxy(&workers.urls[0], Duration::ZERO, 200 << 10).await;
    let urls = format!("{cut},{}", workers.urls[1]);
    use_workers(&ctx, &urls, ClusterAccess::new()).await;
    let lost = error(&ctx, LONG).await;
    assert!(lost.contains(&format!("lost the worker {cut}")), "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_worker_only_takes_longer() {
    let (folder, ctx) = long().await;
    let workers = Workers::start(2, &[folder.path()]).await;
    let slow = proxy(&workers.urls[0], Duration::from_millis(20), usize::MAX).await;
    let urls = format!("{slow},{}", workers.urls[1]);
    use_workers(&ctx, &urls, ClusterAccess::new()).await;
    assert_eq!(rows(&ctx, LONG).await.len(), 100_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_has_its_own_time_limit() {
    let (folder, ctx) = hundred().await;
    for (limit, is_enough) in [
        (Duration::from_nanos(1), false),
        (Duration::from_secs(3600), true),
        (Duration::MAX, true),
    ] {
        let limited = |worker: ClusterWorker| worker.with_time_limit(limit);
        let roots = [folder.path()];
        let workers =
            Workers::start_on(2, &roots, Options::default(), Arc::default(), limited).await;
        workers.join(&ctx).await;
        let sum = "SELECT sum(value) FROM a";
        if is_enough {
            assert_eq!(rows(&ctx, sum).await, ["4950"]);
            continue;
        }
        let refused = error(&ctx, sum).await;
        assert!(
            refused.contains("the time limit of the worker"),
            "{refused}"
        );
        assert!(refused.contains("worker http://127.0.0.1:"), "{refused}");
    }
}

/// Dropping a query, as a time limit does, ends it although a worker is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_limit_ends_tasks() {
    let (folder, ctx) = long().await;
    let workers = Workers::start(1, &[folder.path()]).await;
    let slow = proxy(&workers.urls[0], Duration::from_secs(5), usize::MAX).await;
    use_workers(&ctx, &slow, ClusterAccess::new()).await;
    let start = Instant::now();
    let frame = ctx.sql(LONG).await.unwrap();
    let limited = tokio::time::timeout(Duration::from_millis(500), frame.collect()).await;
    assert!(limited.is_err());
    assert!(start.elapsed() < Duration::from_secs(5));
}
