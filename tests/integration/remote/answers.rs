//! Files on an HTTP server and in a store answer as local files do.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use tet_sql::{ArrayOptions, ArraySessionExt};
use url::Url;

use crate::formats::zarr::stores::{document, files, put};
use crate::remote::{session, with_partitions, write_grid};
use crate::support::http::HttpServer;
use crate::support::sql::{rows, texts};
use tet_sql::format::tet::Compression;

/// Returns the rows of every table of a file, or the error of reading it, without the path.
async fn contents(ctx: &SessionContext, schema: &str, path: &str) -> BTreeMap<String, Vec<String>> {
    match contents_or_error(ctx, schema, path).await {
        Ok(contents) => contents,
        Err(error) => panic!("{path}: {error}"),
    }
}

/// Returns what [`contents`] returns, or the error of opening the file.
pub async fn contents_or_error(
    ctx: &SessionContext,
    schema: &str,
    path: &str,
) -> datafusion::common::Result<BTreeMap<String, Vec<String>>> {
    let opened = ctx.register_array_file_as(schema, Path::new(path), ArrayOptions::new());
    opened.await?;
    let names =
        format!("SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'");
    let mut contents = BTreeMap::new();
    for name in rows(ctx, &names).await {
        let query = format!("SELECT * FROM {schema}.\"{name}\"");
        let answer = match ctx.sql(&query).await {
            Ok(frame) => frame.collect().await.map(|batches| texts(&batches)),
            Err(error) => Err(error),
        };
        let answer = answer.unwrap_or_else(|error| vec![error.to_string().replace(path, "")]);
        contents.insert(name, answer);
    }
    Ok(contents)
}

#[tokio::test]
async fn files_over_http() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let server = HttpServer::of(&data);
    for (number, name) in [
        "weather_small.tet",
        "weather_small_nofooter.tet",
        "coordvars.tet",
        "big_i64.tet",
        "npy/c_order.npy",
        "npy/fortran_order.npy",
        "npy/texts.npy",
        "npy/times.npy",
        "npy/int8.npy",
        "npy/stored.npz",
        "npy/compressed.npz",
        "hdf5/netcdf.nc",
        "hdf5/filters.h5",
        "hdf5/layouts_earliest.h5",
        "hdf5/layouts_latest.h5",
        "hdf5/types.h5",
        "netcdf/cf_2000.nc",
        "netcdf/one_record_short.nc",
        "netcdf/texts.nc",
        "netcdf/types_cdf1.nc",
        "netcdf/types_cdf5.nc",
        "tatami/blob_mixed.tatami",
        "tatami/groups_pages.tatami",
        "tatami/sorted_str.tatami",
        "tatami/strings_special.tatami",
        "tatami/types_nullable.tatami",
        "tatami/wide.tatami",
        "tatami/zones.tatami",
    ]
    .into_iter()
    .enumerate()
    {
        let ctx = session();
        let local = data.join(name);
        let expected = contents(&ctx, &format!("l{number}"), local.to_str().unwrap()).await;
        let found = contents(&ctx, &format!("r{number}"), &server.url(name)).await;
        assert!(!expected.is_empty(), "{name}");
        assert_eq!(found, expected, "{name}");
    }
}

/// Adds consolidated metadata to the files of a store, as Zarr's tools do.
fn consolidate(files: &mut Vec<(String, Vec<u8>)>) {
    let of = |name: &str| name.rsplit('/').next().unwrap().to_string();
    let parsed = |bytes: &[u8]| -> Value {
        // Zarr writes NaN into the documents of version 2.
        let text = std::str::from_utf8(bytes).unwrap();
        serde_json::from_str(text).unwrap_or_else(|_| {
            let text = text
                .replace(": NaN", ": \"NaN\"")
                .replace(": Infinity", ": \"Infinity\"");
            serde_json::from_str(&text).unwrap()
        })
    };
    if files.iter().any(|(name, _)| name == "zarr.json") {
        let nested = files
            .iter()
            .filter(|(name, _)| name.ends_with("/zarr.json"));
        let nested: serde_json::Map<String, Value> = nested
            .map(|(name, bytes)| {
                (
                    name.trim_end_matches("/zarr.json").to_string(),
                    parsed(bytes),
                )
            })
            .collect();
        let root = files
            .iter_mut()
            .find(|(name, _)| name == "zarr.json")
            .unwrap();
        let mut value = parsed(&root.1);
        if value["node_type"] == "group" {
            let consolidated =
                json!({"kind": "inline", "must_understand": false, "metadata": nested});
            value["consolidated_metadata"] = consolidated;
            root.1 = value.to_string().into_bytes();
        }
    } else if !files
        .iter()
        .any(|(name, _)| name == ".zmetadata" || name == ".zarray")
    {
        let documents = [".zarray", ".zattrs", ".zgroup"];
        let of_metadata = files
            .iter()
            .filter(|(name, _)| documents.contains(&of(name).as_str()));
        let metadata: serde_json::Map<String, Value> = of_metadata
            .map(|(name, bytes)| (name.clone(), parsed(bytes)))
            .collect();
        let value = json!({"zarr_consolidated_format": 1, "metadata": metadata});
        files.push((".zmetadata".to_string(), value.to_string().into_bytes()));
    }
}

/// Every store that zarr-python and xarray have written for the tests, consolidated on an HTTP
/// server, which cannot list, and as it is in a store that lists.
#[tokio::test]
async fn zarr_stores_over_http_and_in_object_stores() {
    let folder = tempfile::tempdir().unwrap();
    let server = HttpServer::start();
    let memory = Arc::new(InMemory::new());
    let stores = document("stores.json");
    for (number, (name, store)) in stores.as_object().unwrap().iter().enumerate() {
        let mut files = files(store);
        put(&folder.path().join(name), &files);
        for (file, content) in &files {
            let path = ObjectPath::from(format!("{name}/{file}"));
            memory.put(&path, content.clone().into()).await.unwrap();
        }
        consolidate(&mut files);
        for (file, content) in files {
            server.put(&format!("{name}/{file}"), content);
        }
        let ctx = session();
        let store: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(&memory);
        ctx.register_object_store(&Url::parse("memory:///").unwrap(), store);
        let local = folder.path().join(name);
        let expected = contents(&ctx, &format!("l{number}"), local.to_str().unwrap()).await;
        assert!(!expected.is_empty(), "{name}");
        let found = contents(&ctx, &format!("h{number}"), &server.url(name)).await;
        assert_eq!(found, expected, "{name}");
        let found = contents(&ctx, &format!("m{number}"), &format!("memory:///{name}")).await;
        assert_eq!(found, expected, "{name} in memory");
    }
}

/// Objects have the names of arrays, which stores encode in URLs.
#[tokio::test]
async fn names_of_arrays_are_those_of_objects() {
    let memory = Arc::new(InMemory::new());
    let ctx = session();
    let store: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(&memory);
    ctx.register_object_store(&Url::parse("memory:///").unwrap(), store);
    for (number, name) in ["höhe", "p%q", "what?", "a b"].into_iter().enumerate() {
        let copy = format!(
            "COPY (SELECT value AS x, value * 2 AS \"{name}\" FROM range(1, 5)) TO 'memory:///n{number}.zarr' \
             STORED AS ZARR OPTIONS (dims 'x', dataset '{name}')"
        );
        rows(&ctx, &copy).await;
        let path = ObjectPath::parse(format!("n{number}.zarr/{name}/zarr.json")).unwrap();
        memory
            .head(&path)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let sum = format!("SELECT sum(value) FROM 'memory:///n{number}.zarr'");
        assert_eq!(rows(&ctx, &sum).await, ["20"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_over_http_in_all_kinds_of_sessions() {
    let folder = tempfile::tempdir().unwrap();
    for (name, compression) in [
        ("raw", Compression::Raw),
        ("zstd", Compression::Zstd { level: 1 }),
    ] {
        let path = folder.path().join(format!("{name}.tet"));
        write_grid(&path, 20, compression);
        let server = HttpServer::of(folder.path());
        for partitions in [1, 4] {
            let ctx = with_partitions(partitions);
            for query in [
                "SELECT avg(value), count(*), min(value), max(value) FROM '{}'",
                "SELECT time, sum(value) AS s FROM '{}' GROUP BY time ORDER BY time",
                "SELECT * FROM '{}' WHERE time = 3 AND y = 5 ORDER BY x",
                "SELECT count(*) FROM '{}' WHERE value > 2000",
                "SELECT time, y, x FROM '{}' WHERE value > 4290 ORDER BY 1, 2, 3",
                "SELECT count(DISTINCT time), max(y) FROM '{}'",
                "SELECT sum(a.value - b.value) FROM '{}' a JOIN '{}' b ON a.time = b.time AND a.y = b.y AND a.x = b.x WHERE a.time < 5",
                "SELECT time, lag(value, 1) OVER (PARTITION BY y, x ORDER BY time) AS l FROM '{}' WHERE y = 1 AND x = 2 ORDER BY 1",
                "SELECT value FROM '{}#t' ORDER BY value DESC LIMIT 3",
            ] {
                let local = query.replace("{}", path.to_str().unwrap());
                let remote = query.replace("{}", &server.url(&format!("{name}.tet")));
                assert_eq!(
                    rows(&ctx, &remote).await,
                    rows(&ctx, &local).await,
                    "{query}"
                );
            }
        }
    }
}

/// A plan has the URL and the identity of the file, but no store and no secrets.
#[cfg(feature = "proto")]
#[tokio::test]
async fn plans_run_in_another_process() {
    use datafusion::physical_plan::collect;
    use datafusion_proto::bytes::{
        physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
    };
    use tet_sql::ArrayPlanCodec;

    let folder = tempfile::tempdir().unwrap();
    write_grid(&folder.path().join("a.tet"), 20, Compression::Raw);
    let server = HttpServer::of(folder.path());
    let ctx = session();
    let codec = ArrayPlanCodec::new();
    for (query, url) in [
        (
            "SELECT time, sum(value) AS s FROM '{}' GROUP BY time",
            server.url("a.tet"),
        ),
        (
            "SELECT * FROM '{}' WHERE time = 7 AND y < 3",
            server.url("a.tet"),
        ),
    ] {
        let query = query.replace("{}", &url);
        let plan = ctx
            .sql(&query)
            .await
            .unwrap()
            .create_physical_plan()
            .await
            .unwrap();
        let bytes = physical_plan_to_bytes_with_extension_codec(plan, &codec).unwrap();
        let worker = session();
        let decode =
            || physical_plan_from_bytes_with_extension_codec(&bytes, &worker.task_ctx(), &codec);
        let batches = collect(decode().unwrap(), worker.task_ctx()).await.unwrap();
        assert_eq!(texts(&batches), rows(&ctx, &query).await);
        let content = server.content("a.tet").unwrap();
        server.put("a.tet", [content.as_slice(), b"more"].concat());
        let message = decode().unwrap_err().to_string();
        assert!(
            message.contains("replaced or changed") || message.contains("magic"),
            "{message}"
        );
        server.put("a.tet", content);
    }
}

/// The thread of requests is not one of the session's, so nothing waits for itself.
#[test]
fn a_runtime_with_one_thread() {
    let folder = tempfile::tempdir().unwrap();
    write_grid(&folder.path().join("a.tet"), 4, Compression::Raw);
    let server = HttpServer::of(folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let count = runtime.block_on(async {
        let query = format!("SELECT count(value) FROM '{}'", server.url("a.tet"));
        rows(&session(), &query).await
    });
    assert_eq!(count, ["16384"]);
}
