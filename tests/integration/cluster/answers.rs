//! The answers of workers are those of one process, and EXPLAIN shows the tasks.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion_distributed::WorkerResolver;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ClusterAccess, enable_cluster};
use url::Url;

use crate::cells;
use crate::cluster::{Workers, sorted};
use crate::support::sql::{error, plan, rows, run, sample};

/// Returns a session over the array `a` of 12 x 6 x 8 cells in 24 chunks, with the values 0, 1, ...
/// modulo 101, on some workers.
pub(crate) async fn cluster(count: usize) -> (tempfile::TempDir, SessionContext, Workers) {
    let cells = cells!((0..12 * 6 * 8).map(|cell| (cell * 7 % 101) as f32));
    let spec = DatasetSpec::new("a", Dtype::F32, &[12, 6, 8], &[2, 3, 4]);
    let spec = spec.with_dim_names(["time", "lat", "lon"]);
    let (folder, _, ctx) = sample(&[(spec, cells)], ArrayOptions::new()).await;
    let workers = Workers::start(count, &[folder.path()]).await;
    (folder, ctx, workers)
}

const QUERIES: [&str; 32] = [
    "SELECT * FROM a",
    "SELECT time, lat FROM a",
    "SELECT value FROM a WHERE value > 50 AND lat > 1",
    "SELECT value FROM a WHERE lat + lon > 7",
    "SELECT count(*), sum(value), min(value), max(value), round(stddev(value), 9) FROM a",
    "SELECT time, avg(value), count(*) FROM a GROUP BY time",
    "SELECT lat, lon, sum(value), count(*) FROM a GROUP BY lat, lon",
    "SELECT lon, count(value) FROM a WHERE value > 30 GROUP BY lon",
    "SELECT lat, count(*) FROM a WHERE value > 100 GROUP BY lat",
    "SELECT time % 5, max(value) FROM a WHERE lon > 2 GROUP BY 1",
    "SELECT value, count(*) FROM a GROUP BY value",
    "SELECT lat + lon AS k, sum(value) FROM a GROUP BY k",
    "SELECT count(*), sum(value) FROM a WHERE time + lon < 7",
    "SELECT time, count(*), sum(value) FROM a WHERE abs(time - lon) < 2 GROUP BY time",
    "SELECT lat, count(*), count(*) FILTER (WHERE time < lon) FROM a WHERE time + lon < 9 GROUP BY lat",
    "SELECT lat, lon % 2, count(*), sum(value) FROM a GROUP BY CUBE (lat, lon % 2)",
    "SELECT time, lat, lon, rank() OVER (PARTITION BY lat, lon ORDER BY value DESC) FROM a",
    "SELECT DISTINCT lat FROM a",
    "SELECT count(DISTINCT time), count(DISTINCT value) FROM a",
    "SELECT lat, median(value) FROM a GROUP BY lat",
    "SELECT lat, approx_distinct(time) FROM a WHERE value > 9 GROUP BY lat",
    "SELECT lat, sum(value) FROM a GROUP BY lat HAVING sum(value) > 4000",
    "SELECT lat, sum(value) FILTER (WHERE lon > 3), count(*) FROM a GROUP BY lat",
    "SELECT time % 2, lon, count(DISTINCT value), median(value) FROM a WHERE value > 9 GROUP BY 1, 2",
    "SELECT lat, lon, avg(value), round(stddev(value), 9) FROM a WHERE time BETWEEN 3 AND 8 GROUP BY lat, lon",
    "SELECT x.time, count(*) FROM a x JOIN a y ON x.value = y.value GROUP BY x.time",
    "SELECT lat, value - avg(value) OVER (PARTITION BY lat) FROM a WHERE time = 3",
    "SELECT time, value FROM a WHERE time = (SELECT max(time) FROM a)",
    "SELECT lat, sum(value) FROM (SELECT * FROM a UNION ALL SELECT * FROM a) GROUP BY lat",
    "SELECT sum(value) FROM (SELECT value FROM a ORDER BY value DESC LIMIT 5)",
    "SELECT value + 1 FROM (SELECT value FROM a ORDER BY value LIMIT 5) WHERE value < 1",
    "SELECT count(*) FROM (SELECT value FROM a WHERE value > 20 LIMIT 7)",
];

/// Lookup joins, with build sides that are aggregates, rows and arrays.
const JOINS: [&str; 9] = [
    "SELECT x.time, x.lat, value - m FROM a x JOIN (SELECT lat, avg(value) AS m FROM a GROUP BY lat) c ON x.lat = c.lat",
    "SELECT time, c.lat, value * w FROM a JOIN (VALUES (1, 0.5), (4, 2.0), (4, 3.0), (9, 1.0)) c(lat, w) ON a.lat = c.lat",
    "SELECT time, value FROM a JOIN (VALUES (0, 2, 'n'), (3, 5, 's')) c(s, n, name) ON lat BETWEEN s AND n WHERE name = 's'",
    "SELECT time, lat, value FROM a WHERE lat IN (SELECT column1 FROM (VALUES (1), (4)) WHERE column1 > 1)",
    "SELECT time, lat, value FROM a WHERE NOT EXISTS (SELECT 1 FROM (VALUES (1), (4)) m(l) WHERE l = lat)",
    "SELECT lat, w, value FROM (VALUES (1, 0.5), (77, 2.0)) c(l, w) RIGHT JOIN a ON a.lat = c.l",
    "SELECT x.time, x.value, y.value FROM a x JOIN (SELECT lat, lon, value FROM a WHERE time = 3) y
     ON x.lat = y.lat AND x.lon = y.lon",
    "SELECT x.time, value - m + w FROM a x JOIN (SELECT lat, avg(value) AS m FROM a GROUP BY lat) c ON x.lat = c.lat
     JOIN (VALUES (1, 0.5), (4, 2.0)) d(t, w) ON x.time = d.t",
    "SELECT name, avg(value) FROM a JOIN (VALUES (1, 'p'), (4, 'q'), (5, 'p')) c(l, name) ON lat = l GROUP BY name",
];

/// Lookup joins that return rows of the build side, which have matches in all tasks, in one of them, or in none. Each
/// with the kind of join in the plan.
const WITH_BUILD_ROWS: [(&str, &str); 9] = [
    ("Left", "SELECT name, time, value FROM (VALUES (3, 'p'), (99, 'q'), (11, 'r'), (98, NULL)) c(t, name) LEFT JOIN a ON time = t"),
    ("Full", "SELECT name, time, value FROM (VALUES (3, 'p'), (99, 'q'), (3, 'r')) c(t, name) FULL JOIN a ON time = t"),
    ("Full", "SELECT c.t, c.l, value FROM (VALUES (3, 1), (99, 1), (11, 77)) c(t, l) FULL JOIN a ON time = t AND lat = l"),
    ("LeftSemi", "SELECT t FROM (VALUES (3), (99), (11), (99)) c(t) WHERE EXISTS (SELECT 1 FROM a WHERE time = t AND value > 90)"),
    ("LeftAnti", "SELECT t FROM (VALUES (3), (99), (11), (NULL)) c(t) WHERE NOT EXISTS (SELECT 1 FROM a WHERE time = t AND value > 90)"),
    ("LeftSemi", "SELECT l, name FROM (VALUES (3, 'p'), (1, 'q')) c(l, name) WHERE l IN (SELECT lat FROM a WHERE value > 20)"),
    ("Left", "SELECT name, sum(time) FROM (VALUES (0, 2, 'n'), (9, 12, 's'), (40, 50, 'x')) c(s, n, name)
     LEFT JOIN a ON time BETWEEN s AND n GROUP BY name"),
    ("Left", "SELECT count(*) FROM (VALUES (3), (99), (11)) c(t) LEFT JOIN a ON time = t AND value > 95"),
    ("Left", "SELECT name, value + 1 FROM (VALUES (3, 'p'), (99, 'q')) c(t, name) LEFT JOIN a ON time = t WHERE value IS NULL OR value < 50"),
];

/// Aggregates over lookup joins, and the mode of the operator that computes their partial stage in tasks.
const JOINED_AGGREGATES: [(&str, &str); 10] = [
    (
        "Partial",
        "SELECT x.lon, max(value - m), count(*) FROM a x JOIN (SELECT lat, avg(value) AS m FROM a GROUP BY lat) c
         ON x.lat = c.lat GROUP BY x.lon",
    ),
    (
        "Partial",
        "SELECT name, time, sum(value * w), min(w) FROM a JOIN (VALUES (0, 2, 'n', 0.5), (1, 5, 's', 2.0)) c(s, n, name, w)
         ON lat BETWEEN s AND n GROUP BY name, time",
    ),
    (
        "Partial",
        "SELECT x.time, sum(x.value - y.value) FROM a x JOIN (SELECT lat, lon, value FROM a WHERE time = 3) y
         ON x.lat = y.lat AND x.lon = y.lon GROUP BY x.time",
    ),
    (
        "Partial",
        "SELECT count(*), round(avg(value - m + w), 9) FROM a x JOIN (SELECT lat, avg(value) AS m FROM a GROUP BY lat) c
         ON x.lat = c.lat JOIN (VALUES (1, 0.5), (4, 2.0)) d(t, w) ON x.time = d.t",
    ),
    (
        "PartialReduce",
        "SELECT name, avg(value), count(*), max(value) FROM a JOIN (VALUES (0, 2, 'n'), (1, 5, 's')) c(s, n, name)
         ON lat BETWEEN s AND n GROUP BY name",
    ),
    (
        "PartialReduce",
        "SELECT lon % 2, w, sum(value) FILTER (WHERE value > 9) FROM a JOIN (VALUES (1, 0.5), (4, 2.0), (4, 3.0)) c(lat, w)
         ON a.lat = c.lat WHERE lon > (SELECT min(lat) FROM a) GROUP BY 1, 2",
    ),
    (
        "PartialReduce",
        "SELECT y.value > 50, count(*), sum(x.value) FROM a x JOIN (SELECT lat, lon, value FROM a WHERE time = 3) y
         ON x.lat = y.lat AND x.lon = y.lon GROUP BY 1",
    ),
    // The build sides have several partitions, which DataFusion repartitions by hash, or merges in order.
    (
        "PartialReduce",
        "SELECT name, count(*), sum(value) FROM a JOIN (
             SELECT l, max(n) AS name FROM (
                 SELECT * FROM (VALUES (1, 'p'), (4, 'q')) u(l, n) UNION ALL SELECT * FROM (VALUES (1, 'z')) v(l, n)
             ) GROUP BY l
         ) c ON a.lat = c.l GROUP BY name",
    ),
    (
        "Partial",
        "SELECT time, sum(value * n) FROM a JOIN (
             SELECT * FROM (VALUES (1, 2), (4, 3)) u(l, n) UNION ALL SELECT * FROM (VALUES (5, 1), (0, 9)) v(l, n)
             ORDER BY n DESC LIMIT 3
         ) c ON a.lat = c.l GROUP BY time",
    ),
    (
        "PartialReduce",
        "SELECT count(*), sum(value) FROM a WHERE NOT EXISTS (SELECT 1 FROM (VALUES (1), (4)) m(l) WHERE l = lat)",
    ),
];

/// Windows along an axis.
const WINDOWS: [&str; 4] = [
    "SELECT time, lat, lon, avg(value) OVER (PARTITION BY lat, lon ORDER BY time ROWS 2 PRECEDING) FROM a",
    "SELECT time, lon, value - lag(value) OVER (PARTITION BY time, lon ORDER BY lat) AS step FROM a WHERE lon > 1",
    "SELECT lat, lon, value, row_number() OVER (PARTITION BY lat, lon ORDER BY time DESC) AS n FROM a",
    "SELECT lon, max(anomaly) FROM (
         SELECT lon, value - avg(value) OVER (PARTITION BY lat, lon) AS anomaly FROM a
     ) GROUP BY lon",
];

const ORDERED: [&str; 5] = [
    "SELECT time, lat, lon, value FROM a ORDER BY value DESC, time, lat, lon LIMIT 9",
    "SELECT time, lat, lon, value FROM a ORDER BY time DESC, lat, lon",
    "SELECT lat, sum(value) AS s FROM a GROUP BY lat ORDER BY s DESC, lat LIMIT 3",
    "SELECT time, sum(value) FROM a GROUP BY time ORDER BY time",
    "SELECT value FROM a ORDER BY value, time, lat, lon LIMIT 3 OFFSET 100",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_one_process() {
    for (count, partitions) in [(1, 1), (2, 1), (3, 4)] {
        let (_folder, ctx, workers) = cluster(count).await;
        let partitions = format!("SET datafusion.execution.target_partitions = {partitions}");
        rows(&ctx, &partitions).await;
        let mut expected = Vec::new();
        let aggregates = JOINED_AGGREGATES.iter().map(|(_, sql)| sql);
        let queries = QUERIES.iter().chain(&JOINS).chain(&WINDOWS);
        let with_build_rows = WITH_BUILD_ROWS.iter().map(|(_, sql)| sql);
        let queries = queries.chain(aggregates).chain(with_build_rows);
        for sql in queries.clone() {
            expected.push(sorted(&ctx, sql).await);
        }
        let mut in_order = Vec::new();
        for sql in ORDERED {
            in_order.push(rows(&ctx, sql).await);
        }
        workers.join(&ctx).await;
        for (sql, expected) in queries.zip(expected) {
            assert_eq!(sorted(&ctx, sql).await, expected, "{count} workers: {sql}");
        }
        for (sql, expected) in ORDERED.iter().zip(in_order) {
            assert_eq!(rows(&ctx, sql).await, expected, "{count} workers: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_over_joins_run_in_tasks() {
    let (_folder, ctx, workers) = cluster(2).await;
    workers.join(&ctx).await;
    for (mode, sql) in JOINED_AGGREGATES {
        let shown = plan(&ctx, sql).await;
        let stage = format!("ArrayJoinAggregateExec: mode={mode}, ");
        let (above, below) = shown.split_once("NetworkCoalesceExec").expect(sql);
        assert!(!above.contains("ArrayJoinAggregateExec"), "{shown}");
        assert!(below.contains(&stage), "{shown}");
        // The metrics of the tasks reach the operators shown, and no chunk is read twice.
        let shown = rows(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await.concat();
        let (_, stage) = shown.split_once(&stage).expect(sql);
        let reads = match sql.contains("ON x.time = d.t") {
            true => "chunks_read=8,",
            false => "chunks_read=24,",
        };
        assert!(stage.contains(reads), "{sql}\n{shown}");
        assert!(!shown.contains("left_to_engine"), "{sql}\n{shown}");
    }
}

/// A plan that runs twice has new tasks each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_run_again() {
    let (_folder, ctx, workers) = cluster(2).await;
    workers.join(&ctx).await;
    let frame = ctx.sql("SELECT sum(value) FROM a").await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let collect = || datafusion::physical_plan::collect(Arc::clone(&plan), ctx.task_ctx());
    let (first, second) = futures::join!(collect(), collect());
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(collect().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_shows_stages_tasks_and_chunks() {
    let (_folder, ctx, workers) = cluster(2).await;
    workers.join(&ctx).await;
    let shown = plan(&ctx, "SELECT time % 5, avg(value) FROM a GROUP BY 1").await;
    for part in [
        "ClusterExec: workers=2",
        "AggregateExec: mode=Final",
        "[Stage 1] => NetworkCoalesceExec: output_partitions=2, input_tasks=2",
        "DistributedLeafExec: chunks_per_task=[12, 12]: ArrayAggregateExec: mode=Partial",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let shown = plan(&ctx, "SELECT value FROM a WHERE value > 99").await;
    assert!(
        shown.contains("chunks_per_task=[12, 12]: DataSourceExec"),
        "{shown}"
    );
    // Little work stays in this process.
    rows(&ctx, "SET tet.cluster_task_size = 10000000").await;
    let shown = plan(&ctx, "SELECT sum(value) FROM a").await;
    assert!(!shown.contains("ClusterExec"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn build_sides_of_lookup_joins_are_sent_to_all_tasks() {
    let (_folder, ctx, workers) = cluster(2).await;
    workers.join(&ctx).await;
    for (number, sql) in JOINS.iter().enumerate() {
        let shown = plan(&ctx, sql).await;
        let below = shown
            .split("NetworkCoalesceExec")
            .nth(1)
            .unwrap_or_default();
        let is_sent = below.contains("BroadcastExec");
        let in_tasks = below.contains("ArrayLookupJoinExec");
        match number {
            // An array as the build side is read by every task.
            6 => assert!(in_tasks && !is_sent, "{sql}\n{shown}"),
            _ => assert!(in_tasks && is_sent, "{sql}\n{shown}"),
        }
    }
    // The build side, which is an aggregate of the whole array, is divided as well.
    let shown = plan(&ctx, JOINS[0]).await;
    assert_eq!(shown.matches("NetworkCoalesceExec").count(), 2, "{shown}");
    let shown = rows(&ctx, &format!("EXPLAIN ANALYZE {}", JOINS[0]))
        .await
        .concat();
    assert!(shown.contains("BroadcastExec: rows=6"), "{shown}");
    assert!(shown.contains("chunks_read=24"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_return_build_rows_run_in_tasks() {
    let (_folder, ctx, workers) = cluster(2).await;
    workers.join(&ctx).await;
    for (kind, sql) in WITH_BUILD_ROWS {
        let shown = plan(&ctx, sql).await;
        let merge = format!("BuildRowsExec: join_type={kind}, tasks=2");
        let (_, below) = shown.split_once(&merge).expect(&shown);
        let (_, below) = below.split_once("NetworkCoalesceExec").expect(&shown);
        assert!(below.contains("ArrayLookupJoinExec"), "{sql}\n{shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_with_disjoint_groups_return_final_values() {
    let (folder, ctx, workers) = cluster(2).await;
    workers.join(&ctx).await;
    for (tasks, sql) in [
        (
            "[12, 12]",
            "SELECT lat, lon, avg(value) FROM a GROUP BY lat, lon",
        ),
        (
            "[8, 8]",
            "SELECT time, median(value) FROM a WHERE time < 8 GROUP BY time",
        ),
        (
            "[12, 12]",
            "SELECT time % 2, lon, median(value) FROM a GROUP BY 1, 2",
        ),
    ] {
        let shown = plan(&ctx, sql).await;
        let (above, below) = shown.split_once("NetworkCoalesceExec").expect(&shown);
        assert!(!above.contains("AggregateExec"), "{sql}\n{shown}");
        let task = format!("chunks_per_task={tasks}: ArrayAggregateExec: mode=Single");
        assert!(below.contains(&task), "{sql}\n{shown}");
    }
    // Two chunks along lat and lon are too few for three workers. Coordinates of several chunks may have the same
    // lat / 2.
    let workers = Workers::start(3, &[folder.path()]).await;
    workers.join(&ctx).await;
    for sql in [
        "SELECT lat, lon, avg(value) FROM a WHERE time < 6 GROUP BY lat, lon",
        "SELECT lat / 2, avg(value) FROM a GROUP BY 1",
    ] {
        let shown = plan(&ctx, sql).await;
        assert!(
            shown.contains("AggregateExec: mode=Final"),
            "{sql}\n{shown}"
        );
    }
}

/// A build side of 90 MB stays in this process, and so does the query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_build_sides_are_not_sent() {
    let (_folder, ctx, workers) = cluster(2).await;
    workers.join(&ctx).await;
    let sql = "SELECT time, length(s) AS n FROM a LEFT JOIN (
                   SELECT column1 AS l, repeat('x', 30000000 + column1) AS s FROM (VALUES (77), (78), (79))
               ) c ON lat = l";
    let shown = plan(&ctx, sql).await;
    assert!(shown.contains("BroadcastExec"), "{shown}");
    assert_eq!(rows(&ctx, sql).await.len(), 576);
}

/// Each task has whole series.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_along_an_axis_run_in_tasks() {
    let (_folder, ctx, workers) = cluster(2).await;
    workers.join(&ctx).await;
    for sql in WINDOWS {
        let shown = plan(&ctx, sql).await;
        let is_divided =
            shown.contains("chunks_per_task=[") && shown.contains("]: ArrayWindowExec");
        assert!(is_divided, "{sql}\n{shown}");
    }
    let sql = format!("EXPLAIN ANALYZE {}", WINDOWS[0]);
    let shown = rows(&ctx, &sql).await.concat();
    assert!(shown.contains("chunks_read=24"), "{shown}");
}

/// The value of a subquery reaches the tasks, which then skip chunks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subqueries_prune_chunks_in_tasks() {
    let (_folder, ctx, workers) = cluster(2).await;
    workers.join(&ctx).await;
    for sql in [
        "SELECT lat, value FROM a WHERE time = (SELECT max(time) FROM a)",
        "SELECT lat, sum(value) FROM a WHERE time = (SELECT max(time) FROM a) GROUP BY lat",
    ] {
        let shown = rows(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await.concat();
        assert!(shown.contains("ClusterExec"), "{shown}");
        assert!(shown.contains("chunks_read=4"), "{shown}");
    }
    // Subqueries that read values, one of which is NULL, run on workers as well.
    let sql = "SELECT count(*) FROM a WHERE value > (SELECT avg(value) FROM a WHERE lat > 1) \
               AND (SELECT max(value) FROM a WHERE value > 1000) IS NULL";
    let shown = plan(&ctx, sql).await;
    assert_eq!(shown.matches("ClusterExec").count(), 3, "{shown}");
    let on_workers = rows(&ctx, sql).await;
    rows(&ctx, "SET tet.cluster = ''").await;
    assert_eq!(on_workers, rows(&ctx, sql).await);
}

/// Every chunk is read once, by one of the workers. Their metrics arrive with the rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_chunk_is_read_once() {
    let (_folder, ctx, workers) = cluster(3).await;
    workers.join(&ctx).await;
    for sql in [
        "SELECT value FROM a",
        "SELECT lat, sum(value) FROM a GROUP BY lat",
        "SELECT value FROM a ORDER BY value LIMIT 500",
    ] {
        let shown = rows(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await.concat();
        assert!(shown.contains("chunks_read=24"), "{sql}\n{shown}");
    }
    assert_eq!(run(&ctx, "SELECT value FROM a").await.rows.len(), 576);
}

/// Settings of the session reach the workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_reach_the_workers() {
    let spec = DatasetSpec::new("a", Dtype::F32, &[6], &[1]).with_dim_names(["x"]);
    let cells = cells!([1f32, f32::NAN, 3.0, f32::NAN, 5.0, 6.0]);
    let (folder, _, ctx) = sample(&[(spec, cells)], ArrayOptions::new()).await;
    let workers = Workers::start(2, &[folder.path()]).await;
    workers.join(&ctx).await;
    let sql = "SELECT x FROM a WHERE value IS NULL ORDER BY x";
    assert!(plan(&ctx, sql).await.contains("ClusterExec"));
    assert_eq!(rows(&ctx, sql).await, ["1", "3"]);
    rows(&ctx, "SET tet.nan_as_null = false").await;
    assert!(rows(&ctx, sql).await.is_empty());
}

struct Resolver(Vec<Url>);

impl WorkerResolver for Resolver {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resolver_lists_the_workers() {
    let (_folder, ctx, workers) = cluster(2).await;
    rows(&ctx, "SET tet.cluster_task_size = 1").await;
    let urls = workers.urls.iter().map(|url| Url::parse(url).unwrap());
    let resolver = Arc::new(Resolver(urls.collect()));
    let ctx = enable_cluster(ctx, resolver, ClusterAccess::new());
    let sql = "SELECT count(value) FROM a";
    assert!(plan(&ctx, sql).await.contains("ClusterExec: workers=2"));
    assert_eq!(rows(&ctx, sql).await, ["576"]);
    let refused = error(&ctx, "SET tet.cluster = 'localhost'").await;
    assert!(
        refused.contains("is not a URL like http://host:50052"),
        "{refused}"
    );
}
