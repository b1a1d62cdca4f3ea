//! The number of requests that opening and querying takes.

use std::path::Path;
use std::time::Duration;

use datafusion::catalog::SchemaProvider;
use futures::StreamExt;
use serde_json::{Value, json};
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt};

use crate::cells;
use crate::remote::{session, value, with_partitions, write_grid};
use crate::support::http::{HttpServer, Request};
use crate::support::sql::{rows, run, write};

/// Returns the ranges of the requests for a path.
fn ranges(log: &[Request]) -> Vec<String> {
    log.iter()
        .filter_map(|request| request.range.clone())
        .collect()
}

fn chunk_requests(log: &[Request], array: &str) -> usize {
    let is_chunk = |request: &&Request| request.target.contains(&format!("/{array}/c/"));
    log.iter().filter(is_chunk).count()
}

/// The metadata of an uncompressed array of version 3.
fn array(shape: &[u64], chunk: &[u64], names: &[&str]) -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 1.5,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "dimension_names": names, "attributes": {},
    })
}

/// Puts a group with consolidated metadata.
fn put_group(server: &HttpServer, name: &str, arrays: &[(String, Value)]) {
    let metadata: serde_json::Map<String, Value> = arrays.iter().cloned().collect();
    let group = json!({
        "zarr_format": 3, "node_type": "group", "attributes": {},
        "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": metadata},
    });
    server.put(&format!("{name}/zarr.json"), group.to_string());
}

#[tokio::test]
async fn a_consolidated_store_of_100_arrays_opens_with_3_requests() {
    let server = HttpServer::start();
    let arrays = (0..100).map(|number| {
        let array = array(&[8, 8], &[4, 4], &["y", "x"]);
        (format!("a{number}"), array)
    });
    put_group(&server, "many.zarr", &arrays.collect::<Vec<_>>());
    let ctx = session();
    let url = server.url("many.zarr");
    let path = Path::new(&url);
    let schema = ctx.register_array_file(path, ArrayOptions::new()).await;
    assert!(schema.unwrap().table_names().len() >= 100);
    let log = server.take_log();
    assert!(log.len() <= 3, "{log:?}");
    // Absent chunks hold the fill value.
    let sum = format!("SELECT sum(value) FROM '{url}#a7' WHERE y < 4");
    assert_eq!(rows(&ctx, &sum).await, ["48.0"]);
    let log = server.take_log();
    assert_eq!(chunk_requests(&log, "a7"), 2, "{log:?}");
    assert!(log.len() <= 5, "{log:?}");
}

#[tokio::test]
async fn a_slice_fetches_exactly_its_chunks() {
    let folder = tempfile::tempdir().unwrap();
    write_grid(&folder.path().join("a.tet"), 50, Compression::Raw);
    let server = HttpServer::of(folder.path());
    let url = server.url("a.tet");
    for query in [
        format!("SELECT sum(value) FROM '{url}' WHERE time IN (10, 11, 20)"),
        format!("SELECT * FROM '{url}' WHERE time IN (10, 11, 20) AND y = 2"),
    ] {
        let found = run(&session(), &query).await;
        assert_eq!(found.reads(), 3);
        let log = server.take_log();
        let chunks = ranges(&log).into_iter().filter(|range| {
            let (start, end) = range
                .strip_prefix("bytes=")
                .unwrap()
                .split_once('-')
                .unwrap();
            let [start, end] = [start, end].map(|number| number.parse::<u64>().unwrap());
            end + 1 - start == 64 * 64 * 4
        });
        assert_eq!(chunks.count(), 3, "{log:?}");
        assert!(log.len() <= 6, "{log:?}");
        assert!(log.iter().all(|request| request.method == "GET"), "{log:?}");
        assert_eq!(found.metric("requests"), 3);
        assert_eq!(found.metric("bytes_fetched"), 3 * 64 * 64 * 4);
        assert!(found.metric("fetch_wait") > 0);
    }
    // The headers of a file that was opened before are in memory.
    rows(&session(), &format!("SELECT count(*) FROM '{url}'")).await;
    let log = server.take_log();
    assert_eq!(log.len(), 1, "{log:?}");
}

/// Chunks of one array that lie in a chunk of another are next to each other in the file.
#[tokio::test]
async fn chunks_side_by_side_take_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.tet");
    let dataset = |name: &str, chunk: u64| {
        let spec = DatasetSpec::new(name, Dtype::F32, &[80, 64, 64], &[chunk, 64, 64]);
        let cells = (0..80 * 64 * 64).map(value);
        (spec.with_dim_names(["time", "y", "x"]), cells!(cells))
    };
    write(&path, &[dataset("a", 8), dataset("b", 1)]);
    let server = HttpServer::of(folder.path());
    let query = |path: &str| format!("SELECT sum(a - b), count(*) FROM '{path}#time_y_x'");
    let expected = rows(&session(), &query(path.to_str().unwrap())).await;
    server.take_log();
    let found = run(&session(), &query(&server.url("wide.tet"))).await;
    assert_eq!(found.rows, expected);
    let log = server.take_log();
    // Ten chunks of `a`, ten times eight chunks of `b`, and the headers.
    assert!(log.len() <= 23, "{}: {log:?}", log.len());
}

#[tokio::test]
async fn a_limit_ends_the_requests() {
    let server = HttpServer::start();
    let array = array(&[10_000, 8], &[1, 8], &["time", "x"]);
    put_group(&server, "long.zarr", &[("t".to_string(), array)]);
    let ctx = session();
    let query = format!("SELECT * FROM '{}#t' LIMIT 10", server.url("long.zarr"));
    assert_eq!(rows(&ctx, &query).await.len(), 10);
    let log = server.take_log();
    let most = 2 * 8;
    assert!(chunk_requests(&log, "t") <= most, "{}", log.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_are_in_flight() {
    let server = HttpServer::start();
    let array = array(&[200, 8], &[1, 8], &["time", "x"]);
    put_group(&server, "slow.zarr", &[("t".to_string(), array)]);
    server.set_delay(Duration::from_millis(20));
    let ctx = with_partitions(2);
    let query = format!("SELECT avg(value) FROM '{}#t'", server.url("slow.zarr"));
    assert_eq!(rows(&ctx, &query).await, ["1.5"]);
    let log = server.take_log();
    assert_eq!(chunk_requests(&log, "t"), 200);
    // Two workers with up to eight requests each.
    let most = server.most_running();
    assert!((8..=16).contains(&most), "{most}");
}

#[tokio::test]
async fn a_dropped_query_sends_no_more_requests() {
    let server = HttpServer::start();
    let array = array(&[1000, 2048], &[1, 2048], &["time", "x"]);
    put_group(&server, "slow.zarr", &[("t".to_string(), array)]);
    let ctx = session();
    let query = format!("SELECT value FROM '{}#t'", server.url("slow.zarr"));
    let frame = ctx.sql(&query).await.unwrap();
    server.set_delay(Duration::from_millis(20));
    let mut stream = frame.execute_stream().await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.take_log();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.take_log(), []);
}

/// A shard of 4 chunks with its index at the end, and one that is absent.
#[tokio::test]
async fn the_index_of_a_shard_is_read_once() {
    let server = HttpServer::start();
    let mut sharded = array(&[8, 16], &[4, 16], &["y", "x"]);
    sharded["codecs"] = json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [1, 16],
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "index_location": "end"}}]);
    put_group(&server, "shards.zarr", &[("t".to_string(), sharded)]);
    let mut shard = Vec::new();
    let mut index = Vec::new();
    for chunk in 0..4u64 {
        if chunk == 2 {
            index.extend([u64::MAX; 2].map(u64::to_le_bytes).concat());
            continue;
        }
        index.extend([shard.len() as u64, 64].map(u64::to_le_bytes).concat());
        let cells = (0..16).map(|x| value(chunk as usize * 16 + x));
        shard.extend(cells.flat_map(f32::to_le_bytes));
    }
    shard.extend(index);
    server.put("shards.zarr/t/c/0/0", shard);
    let ctx = session();
    let query = format!(
        "SELECT y, sum(value) FROM '{}#t' GROUP BY y ORDER BY y",
        server.url("shards.zarr")
    );
    let sums = rows(&ctx, &query).await;
    for (y, sum) in sums.iter().enumerate() {
        let expected: f64 = match y {
            0 | 1 | 3 => (0..16).map(|x| f64::from(value(y * 16 + x))).sum(),
            _ => 24.0,
        };
        let (_, sum) = sum.split_once(' ').unwrap();
        assert!(
            (sum.parse::<f64>().unwrap() - expected).abs() < 1e-3,
            "{y}: {sum} {expected}"
        );
    }
    let log = server.take_log();
    let of_shard = |name: &str| log.iter().filter(|r| r.target.ends_with(name)).count();
    // The index and three chunks; one request finds the absent shard.
    assert_eq!(of_shard("t/c/0/0"), 4, "{log:?}");
    assert_eq!(of_shard("t/c/1/0"), 1, "{log:?}");
}
