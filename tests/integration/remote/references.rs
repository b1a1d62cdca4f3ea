//! References in JSON and in Parquet, whose chunks are parts of local and remote files.

use datafusion::physical_plan::collect;
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::DeduplicatingProtoConverter;
use serde_json::json;
use tet_sql::{ArrayOptions, ArrayPlanCodec, ArraySessionExt, Roots};

use crate::cells;
use crate::remote::session;
use crate::support::encoded::Encoded;
use crate::support::http::HttpServer;
use crate::support::sql::{error, rows};

/// The metadata of version 2 of an array of 4 x 3 cells in chunks of 2 x 3.
fn array() -> serde_json::Value {
    json!({
        "zarr_format": 2, "shape": [4, 3], "chunks": [2, 3], "dtype": "<f4", "fill_value": 9.0,
        "order": "C", "filters": null, "compressor": null,
    })
}

#[tokio::test]
async fn references_open_as_the_hierarchy_that_they_describe() {
    let folder = tempfile::tempdir().unwrap();
    let data = [vec![0; 10], cells!((0..6).map(|cell| cell as f32))].concat();
    std::fs::write(folder.path().join("data.bin"), &data).unwrap();
    let server = HttpServer::start();
    server.put("data.bin", data);
    let document = |target: &str, second: serde_json::Value| {
        let array = array().to_string();
        json!({"version": 1, "templates": {"u": target}, "refs": {
            ".zgroup": "{\"zarr_format\": 2}",
            "t/.zarray": array,
            "t/.zattrs": {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"},
            "t/0.0": ["{{u}}", 10, 24],
            "t/1.0": second,
        }})
        .to_string()
    };
    let zeros = json!(format!("base64:{}", "A".repeat(32)));
    let local = folder.path().join("refs.json");
    let url = server.url("data.bin");
    for (name, target, second, expected) in [
        ("refs.json", "data.bin", zeros.clone(), "15.0 12"),
        ("other.json", url.as_str(), zeros, "15.0 12"),
        (
            "again.json",
            "data.bin",
            json!(["{{u}}", 10, 24]),
            "30.0 12",
        ),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, document(target, second)).unwrap();
        let ctx = session();
        let query = format!(
            "SELECT sum(value), count(*) FROM '{}' WHERE x >= 0",
            path.display()
        );
        assert_eq!(rows(&ctx, &query).await, [expected], "{name}");
        ctx.register_array_file(&path, ArrayOptions::new())
            .await
            .unwrap();
    }
    // An absent reference is an absent chunk.
    let ctx = session();
    let mut sparse: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&local).unwrap()).unwrap();
    sparse["refs"].as_object_mut().unwrap().remove("t/1.0");
    server.put("sparse.json", sparse.to_string().replace("data.bin", &url));
    let query = format!(
        "SELECT y, max(value) FROM '{}#t' GROUP BY y ORDER BY y",
        server.url("sparse.json")
    );
    assert_eq!(
        rows(&ctx, &query).await,
        ["0 2.0", "1 5.0", "2 NULL", "3 NULL"]
    );
    // A document from elsewhere does not lead to local files.
    server.put("local.json", document("/etc/hostname", json!("")));
    let message = error(
        &ctx,
        &format!("SELECT * FROM '{}#t'", server.url("local.json")),
    )
    .await;
    assert!(message.contains("expected a URL"), "{message}");
    server.delete("data.bin");
    let table = format!(
        "SELECT value FROM '{}#t' WHERE y = 0 AND value > 100",
        server.url("sparse.json")
    );
    let message = error(&ctx, &table).await;
    assert!(message.contains("data.bin"), "{message}");
}

/// The references of one array `t`, whose first chunk is a part of `target`.
fn document(target: &str) -> String {
    json!({"version": 1, "refs": {
        ".zgroup": "{\"zarr_format\": 2}",
        "t/.zarray": array().to_string(),
        "t/.zattrs": {"_ARRAY_DIMENSIONS": ["y", "x"]},
        "t/0.0": [target, 0, 24],
    }})
    .to_string()
}

/// A chunk without a reference has the fill value. One whose file is missing is an error, as in fsspec.
#[tokio::test]
async fn files_of_references_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("refs.json");
    std::fs::write(&path, document("moved.bin")).unwrap();
    let server = HttpServer::start();
    server.put("refs.json", document("moved.bin"));
    for location in [path.display().to_string(), server.url("refs.json")] {
        let ctx = session();
        let query = |rows: &str| format!("SELECT sum(value) FROM '{location}#t' WHERE {rows}");
        let message = error(&ctx, &query("y < 2")).await;
        assert!(
            message.contains("moved.bin") && message.contains("there is no such object"),
            "{message}"
        );
        assert_eq!(rows(&ctx, &query("y >= 2")).await, ["NULL"]);
    }
}

#[tokio::test]
async fn references_and_their_paths_may_lead_upwards() {
    let folder = tempfile::tempdir().unwrap();
    let data: Vec<u8> = cells!((0..6).map(|cell| cell as f32));
    for directory in ["data", "references"] {
        std::fs::create_dir(folder.path().join(directory)).unwrap();
    }
    std::fs::write(folder.path().join("data/data.bin"), data).unwrap();
    let path = folder.path().join("references/refs.json");
    std::fs::write(&path, document("../data/data.bin")).unwrap();
    for path in [path, folder.path().join("data/../references/refs.json")] {
        let query = format!("SELECT sum(value) FROM '{}#t' WHERE y < 2", path.display());
        assert_eq!(rows(&session(), &query).await, ["15.0"]);
    }
}

#[tokio::test]
async fn references_lead_to_nothing_outside_of_the_roots_of_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let data: Vec<u8> = cells!((0..6).map(|cell| cell as f32));
    for directory in ["root/data", "root/references", "other"] {
        std::fs::create_dir_all(folder.path().join(directory)).unwrap();
        std::fs::write(folder.path().join(directory).join("data.bin"), &data).unwrap();
    }
    let server = HttpServer::start();
    server.put("data.bin", data);
    let worker = ArrayPlanCodec::new().with_roots(Roots::new([&root]).unwrap());
    let converter = DeduplicatingProtoConverter {};
    let path = root.join("references/refs.json");
    let absolute = |directory: &str| folder.path().join(directory).display().to_string();
    for (target, is_read) in [
        ("data.bin".to_string(), true),
        (absolute("root/data/data.bin"), true),
        ("../data/data.bin".to_string(), true),
        (absolute("other/data.bin"), false),
        ("../../other/data.bin".to_string(), false),
        ("../../none/data.bin".to_string(), false),
        (server.url("data.bin"), false),
    ] {
        std::fs::write(&path, document(&target)).unwrap();
        let ctx = session();
        let query = format!("SELECT value FROM '{}' WHERE y < 2", path.display());
        let rows = ctx.sql(&query).await.unwrap();
        let plan = rows.create_physical_plan().await.unwrap();
        let codec = ArrayPlanCodec::new();
        let bytes = physical_plan_to_bytes_with_proto_converter(plan, &codec, &converter).unwrap();
        let context = ctx.task_ctx();
        let decoded =
            physical_plan_from_bytes_with_proto_converter(&bytes, &context, &worker, &converter);
        let found = match decoded {
            Ok(plan) => collect(plan, context).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(batches) => {
                let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
                assert!(is_read && rows == 6, "{target}: {rows} rows");
            }
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("is not under the roots"), "{error}");
                assert!(!is_read, "{target}: {error}");
            }
        }
    }
}

/// Checks the arrays of a reference against what h5py reads from the file that it describes.
async fn check(references: &str) {
    let values = std::fs::read(data().join("values.json")).unwrap();
    let values: serde_json::Value = serde_json::from_slice(&values).unwrap();
    let ctx = session();
    if !references.contains("://") {
        // Plans over local files are encoded and decoded, as for a worker. Its session has no store for URLs.
        Encoded::add_to(&ctx, &[]);
    }
    for (name, values) in values.as_object().unwrap() {
        let mut expected = Vec::new();
        flatten(values, &mut expected);
        let query = format!("SELECT value FROM '{references}#{name}'");
        let found = rows(&ctx, &query).await;
        let found = found.iter().map(|text| text.parse::<f64>().ok());
        let mut found: Vec<_> = found.collect();
        // The fill value of the array is null.
        let fill = if name == "sparse" { -1.0 } else { 0.0 };
        let expected = expected.into_iter();
        let mut expected: Vec<_> = expected
            .map(|value| (value != fill).then_some(value))
            .collect();
        // Rows come chunk by chunk.
        for values in [&mut found, &mut expected] {
            values.sort_by(|one, other| one.partial_cmp(other).unwrap());
        }
        assert_eq!(found, expected, "{references}#{name}");
    }
    // The coordinates of t are arrays of references as well.
    let query =
        format!("SELECT y, max(value) FROM '{references}#t' WHERE x < 3 GROUP BY y ORDER BY y");
    assert_eq!(
        rows(&ctx, &query).await,
        [
            "0.0 3.0",
            "10.0 12.0",
            "20.0 21.0",
            "30.0 30.0",
            "40.0 39.0"
        ]
    );
}

fn flatten(value: &serde_json::Value, numbers: &mut Vec<f64>) {
    match value.as_array() {
        Some(list) => list.iter().for_each(|value| flatten(value, numbers)),
        None => numbers.push(value.as_f64().unwrap()),
    }
}

fn data() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/references")
}

#[tokio::test]
async fn references_of_kerchunk_in_json_and_in_parquet() {
    let server = HttpServer::of(&data());
    for name in ["refs.json", "mapper.parq", "frame.parq"] {
        check(data().join(name).to_str().unwrap()).await;
        check(&server.url(name)).await;
    }
    // One partition of `t`, and the coordinate that the query needs.
    server.take_log();
    let url = server.url("mapper.parq");
    let query = format!("SELECT sum(value) FROM '{url}#t' WHERE y >= 40");
    assert_eq!(rows(&session(), &query).await, ["238.5"]);
    let log = server.take_log();
    let of = |end: &str| log.iter().filter(|r| r.target.ends_with(end)).count();
    assert_eq!(of("/t/refs.1.parq"), 1, "{log:?}");
    assert_eq!(of("/t/refs.0.parq"), 0, "{log:?}");
    assert_eq!(of("/sparse/refs.0.parq"), 0, "{log:?}");
    // A directory as a table, in a store that lists nothing.
    let ctx = session();
    let create =
        format!("CREATE EXTERNAL TABLE t STORED AS ZARR LOCATION '{url}' OPTIONS (dataset 't')");
    rows(&ctx, &create).await;
    assert_eq!(rows(&ctx, "SELECT max(value) FROM t").await, ["43.5"]);
}

#[tokio::test]
async fn broken_partitions_are_errors() {
    let server = HttpServer::of(&data());
    let ctx = session();
    let query = |name: &str| format!("SELECT sum(value) FROM '{}#t'", server.url(name));
    server.put("mapper.parq/t/refs.0.parq", "PAR1 but no more");
    let message = error(&ctx, &query("mapper.parq")).await;
    assert!(message.contains("mapper.parq/t/refs.0.parq"), "{message}");
    assert!(message.contains("path, offset, size and raw"), "{message}");
    server.put(
        "frame.parq/.zmetadata",
        "{\"record_size\": 0, \"metadata\": {}}",
    );
    let message = error(&ctx, &query("frame.parq")).await;
    assert!(message.contains("record_size"), "{message}");
    let message = error(&ctx, &query("none.parq")).await;
    assert!(message.contains("none.parq"), "{message}");
}
