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

/// Writes a classic NetCDF file with the record variables `a` and `b` of 1024 cells, and `more` of this many
/// cells, in records that alternate. The cells of `a` count from 0.
#[cfg(feature = "hdf5")]
fn alternating(records: u32, more: u32) -> Vec<u8> {
    let word = |number: u32| number.to_be_bytes().to_vec();
    let name = |text: &str| {
        let mut bytes = word(text.len() as u32);
        bytes.extend(text.bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let lengths = [("a", 1, 1024), ("b", 1, 1024), ("more", 2, more)];
    let header = |begins: [u32; 3]| {
        let mut bytes = [b"CDF\x01".to_vec(), word(records), word(10), word(3)].concat();
        for (dimension, length) in [("time", 0), ("x", 1024), ("y", more)] {
            bytes.extend([name(dimension), word(length)].concat());
        }
        // No attributes, then the variables.
        bytes.extend([word(0), word(0), word(11), word(3)].concat());
        for ((variable, axis, cells), begin) in lengths.into_iter().zip(begins) {
            bytes.extend([name(variable), word(2), word(0), word(axis)].concat());
            bytes.extend([word(0), word(0), word(5), word(4 * cells), word(begin)].concat());
        }
        bytes
    };
    let start = header([0; 3]).len() as u32;
    let mut file = header([start, start + 4096, start + 8192]);
    for record in 0..records {
        file.extend((0..1024).flat_map(|x| ((record * 1024 + x) as f32).to_be_bytes()));
        file.extend(vec![0; 4096 + 4 * more as usize]);
    }
    file
}

/// The records of several variables alternate in a classic NetCDF file.
#[cfg(feature = "hdf5")]
#[tokio::test]
async fn alternating_records_are_fetched_together() {
    let server = HttpServer::start();
    let records = 64;
    let sum: f64 = (0..u32::from(64u8) * 1024).map(f64::from).sum();
    for (name, more, requests) in [("near.nc", 1024, 1..=2), ("far.nc", 40_000, 60..=66)] {
        server.put(name, alternating(records, more));
        let ctx = session();
        let count = format!("SELECT count(*) FROM '{}#a'", server.url(name));
        assert_eq!(rows(&ctx, &count).await, ["65536"]);
        server.take_log();
        server.set_delay(Duration::from_millis(20));
        let query = format!("SELECT sum(value) FROM '{}#a'", server.url(name));
        let found = rows(&ctx, &query).await;
        assert_eq!(found[0].parse::<f64>().unwrap(), sum, "{name}");
        server.set_delay(Duration::ZERO);
        let log = server.take_log();
        // The first request opens the file.
        assert!(
            requests.contains(&(log.len() - 1)),
            "{name}: {} {log:?}",
            log.len()
        );
    }
    let most = server.most_running();
    assert!(most > 16, "{most}");
}

/// Pages of documents are fetched several at a time.
#[cfg(feature = "tatami")]
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_documents_are_fetched_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.tatami");
    let ctx = with_partitions(1);
    let copy = format!(
        "COPY (SELECT value AS k, value * 7919 % 1000003 AS v, random() AS r FROM generate_series(1, 200000))
         TO '{}' OPTIONS (row_group_rows '10000')",
        path.display()
    );
    rows(&ctx, &copy).await;
    let server = HttpServer::of(folder.path());
    let query = |from: &str| format!("SELECT count(*), sum(k), max(v), avg(r) FROM '{from}'");
    let expected = rows(&ctx, &query(path.to_str().unwrap())).await;
    server.set_delay(Duration::from_millis(20));
    let found = run(&ctx, &query(&server.url("d.tatami"))).await;
    assert_eq!(found.rows, expected);
    // 20 row groups, the first and last of which are in memory with the head and the footer.
    let requests = found.metric("requests");
    assert!((15..=20).contains(&requests), "{requests}");
    // Eight blocks are in flight, and those of a row group share its request.
    let most = server.most_running();
    assert!(most >= 3, "{most}");
    // A filter that zones answer fetches one row group.
    server.set_delay(Duration::ZERO);
    server.take_log();
    let query = format!(
        "SELECT sum(v) FROM '{}' WHERE k = 55555",
        server.url("d.tatami")
    );
    rows(&ctx, &query).await;
    let log = server.take_log();
    assert!(log.len() <= 6, "{log:?}");
}

/// Writes a file of documents in row groups of 10,000 rows, sorted by `k`.
#[cfg(feature = "tatami")]
async fn write_documents(path: &Path, page_rows: u64) {
    let ctx = with_partitions(1);
    let copy = format!(
        "COPY (SELECT value AS k, random() AS r, CASE WHEN value % 3 > 0 THEN value END AS n
               FROM generate_series(1, 200000))
         TO '{}' OPTIONS (row_group_rows '10000', page_rows '{page_rows}', sort_key 'k')",
        path.display()
    );
    rows(&ctx, &copy).await;
}

/// Planning a query reads no page headers unless their statistics matter, and then those of all row groups at
/// the same time.
#[cfg(feature = "tatami")]
#[tokio::test(flavor = "multi_thread")]
async fn page_headers_are_read_ahead() {
    let folder = tempfile::tempdir().unwrap();
    write_documents(&folder.path().join("d.tatami"), 1000).await;
    let server = HttpServer::of(folder.path());
    let url = server.url("d.tatami");
    let local = folder.path().join("d.tatami");
    let ctx = with_partitions(2);
    // Opening takes the head and the footer.
    rows(
        &ctx,
        &format!("EXPLAIN SELECT sum(k), sum(r), sum(n) FROM '{url}'"),
    )
    .await;
    let log = server.take_log();
    assert!(log.len() <= 2, "{log:?}");
    let query = |from: &str| format!("SELECT count(*), sum(k), sum(n), max(r) FROM '{from}'");
    let expected = rows(&ctx, &query(local.to_str().unwrap())).await;
    let found = run(&ctx, &query(&url)).await;
    assert_eq!(found.rows, expected);
    // 20 row groups of three small chunks that are next to each other.
    let log = server.take_log();
    assert!(log.len() <= 21, "{}: {log:?}", log.len());
    // The page index of every row group counts, because each has odd keys of several pages.
    let keys: Vec<String> = (0..20)
        .map(|group| (group * 10_000 + 1500).to_string())
        .collect();
    let filtered = |from: &str| {
        let keys = keys.join(", ");
        format!("SELECT count(*), sum(n), max(r) FROM '{from}' WHERE k IN ({keys})")
    };
    let expected = rows(&ctx, &filtered(local.to_str().unwrap())).await;
    // Nothing of another server is in memory.
    let server = HttpServer::of(folder.path());
    let url = server.url("d.tatami");
    server.set_delay(Duration::from_millis(20));
    let ctx = with_partitions(1);
    let explain = format!("EXPLAIN {}", filtered(&url));
    let plan = rows(&ctx, &explain).await.join(" ");
    assert!(plan.contains("pruned_by_page_index=180"), "{plan}");
    let log = server.take_log();
    assert!(log.len() <= 22, "{}: {log:?}", log.len());
    let most = server.most_running();
    assert!(most >= 6, "{most}");
    assert_eq!(rows(&ctx, &filtered(&url)).await, expected);
}

/// A store of 10,000 chunks with a latency of 20 ms: the average takes at most 1.3 times as long as the
/// requests in flight allow. Run it on a quiet machine: `cargo test --release -- --ignored slow_store`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time"]
async fn a_slow_store_is_read_at_the_speed_of_its_requests() {
    const CHUNKS: u64 = 10_000;
    let server = HttpServer::start();
    let array = array(&[CHUNKS, 256], &[1, 256], &["time", "x"]);
    put_group(&server, "slow.zarr", &[("t".to_string(), array)]);
    for chunk in 0..CHUNKS {
        let cells = (0..256).map(|x| (chunk * 256 + x) as f32);
        server.put(&format!("slow.zarr/t/c/{chunk}/0"), cells!(cells));
    }
    let latency = Duration::from_millis(20);
    for partitions in [1, 2, 4] {
        server.set_delay(latency);
        let ctx = with_partitions(partitions);
        let query = format!("SELECT avg(value) FROM '{}#t'", server.url("slow.zarr"));
        rows(
            &ctx,
            &format!("SELECT count(*) FROM '{}#t'", server.url("slow.zarr")),
        )
        .await;
        let start = std::time::Instant::now();
        let found = rows(&ctx, &query).await;
        let elapsed = start.elapsed().as_secs_f64();
        assert_eq!(found, ["1279999.5"]);
        let in_flight = 8 * partitions as u64;
        let allowed = latency.as_secs_f64() * (CHUNKS / in_flight) as f64;
        println!(
            "{partitions} partitions, {in_flight} requests in flight: {elapsed:.1} s, at best {allowed:.1} s, \
             ratio {:.2}",
            elapsed / allowed
        );
        assert!(elapsed <= 1.3 * allowed, "{elapsed} {allowed}");
    }
}
