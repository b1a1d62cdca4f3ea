//! `COPY ... TO 'file.tet'`: rows become arrays, the file reads back as the same table, and
//! `tetration` agrees.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{OpenOptions, TetFile};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};
use tetration::catalog::embed_indexes_in_tet;

use crate::formats::reference::{Reference, verify};
use crate::support::sql::{error, open, rows, session};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn tet_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "tet") {
            found.push(path);
        } else if path.is_dir() {
            tet_files(&path, found);
        }
    }
}

/// Runs COPY, and returns the rows of its answer. `tetration` verifies the file if it is a `.tet`
/// file.
async fn copy(ctx: &SessionContext, query: &str, path: &Path, options: &str) -> Vec<String> {
    let format = path.extension().unwrap().to_str().unwrap();
    let sql = format!(
        "COPY {query} TO '{}' STORED AS {format} {options}",
        path.display()
    );
    let answer = rows(ctx, &sql).await;
    if format == "tet" {
        let report = verify(path);
        assert!(report.ok, "{sql}: {report:?}");
    }
    answer
}

async fn schema(ctx: &SessionContext, table: &str) -> SchemaRef {
    let frame = ctx.sql(&format!("SELECT * FROM {table}")).await.unwrap();
    Arc::new(frame.schema().as_arrow().clone())
}

fn types(schema: &SchemaRef) -> Vec<(String, DataType)> {
    let fields = schema.fields().iter();
    let types = fields.map(|field| (field.name().clone(), field.data_type().clone()));
    types.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_the_corpus_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    tet_files(&data(), &mut files);
    let mut copied = 0;
    for file in files {
        let ctx = session();
        let Ok(schema_of_file) = ctx
            .register_array_file_as("f", &file, ArrayOptions::new())
            .await
        else {
            continue;
        };
        use datafusion::catalog::SchemaProvider;
        let names = schema_of_file.table_names().into_iter();
        for table in names.filter(|name| !name.is_empty()) {
            let table = format!("f.\"{table}\"");
            let count = rows(&ctx, &format!("SELECT count(*) FROM {table}")).await;
            let count: u64 = count[0].parse().unwrap();
            if count == 0 || count > 100_000 {
                continue;
            }
            let frame = ctx.sql(&format!("SELECT * FROM {table}")).await.unwrap();
            // Skips files that are broken on purpose.
            if frame.collect().await.is_err() {
                continue;
            }
            let formats: &[&str] = match cfg!(feature = "zarr") {
                true => &["tet", "zarr"],
                false => &["tet"],
            };
            let format = formats[copied / 2 % formats.len()];
            let target = folder.path().join(format!("copy.{format}"));
            let codec = ["raw", "zstd"][copied % 2];
            let options = format!("OPTIONS (axis_order 'appearance', codec '{codec}')");
            let answer = copy(&ctx, &table, &target, &options).await;
            let name = format!("{} {table}", file.display());
            assert_eq!(answer, [count.to_string()], "{name}");
            let back = open(&target, ArrayOptions::new()).await;
            let datasets = rows(&back, "SHOW TABLES").await;
            let (before, columns) = (
                schema(&ctx, &table).await,
                types(&schema(&ctx, &table).await),
            );
            // The copy is a table of one dataset, or a wide table with the same columns in the
            // order of the file.
            let sorted_types = |schema: &SchemaRef| {
                let mut types = types(schema);
                types.sort_by(|one, other| one.0.cmp(&other.0));
                types
            };
            let mut found = None;
            for row in &datasets {
                let mut parts = row.split(' ');
                let (schema_name, table_name) = (parts.nth(1), parts.next());
                if schema_name != Some("f") {
                    continue;
                }
                let candidate = format!("f.\"{}\"", table_name.unwrap());
                if sorted_types(&schema(&back, &candidate).await) == sorted_types(&before) {
                    found = Some(candidate);
                }
            }
            let found = found.unwrap_or_else(|| panic!("{name}: {before:?}, {datasets:?}"));
            let names = columns.iter().map(|(name, _)| format!("\"{name}\""));
            let names = names.collect::<Vec<_>>().join(", ");
            let sorted = |rows: Vec<String>| {
                let mut rows = rows;
                rows.sort();
                rows
            };
            let ours = sorted(rows(&back, &format!("SELECT {names} FROM {found}")).await);
            let theirs = sorted(rows(&ctx, &format!("SELECT {names} FROM {table}")).await);
            assert_eq!(ours, theirs, "{name}");
            copied += 1;
        }
    }
    assert!(copied > 20, "{copied}");
}

/// Creates a session with little memory and with temporary files.
fn small_session(bytes: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0);
    let config = SessionConfig::new()
        .with_information_schema(true)
        .with_target_partitions(2);
    let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc().unwrap());
    enable_arrays(ctx, ArrayOptions::new())
}

/// Returns a query for a grid of 40 times, 30 latitudes and 50 longitudes with some cells missing,
/// in the given order.
fn grid(order: &str) -> String {
    format!(
        "(SELECT to_timestamp_seconds(1700000000 + t * 60) AS time, CAST(y AS DOUBLE) / 2 AS lat, x AS lon, \
         CAST(t * 1500 + y * 50 + x AS FLOAT) AS v, CAST((t * y * x) % 200 AS TINYINT UNSIGNED) AS n \
         FROM (SELECT t.value AS t, y.value AS y, x.value AS x FROM generate_series(0, 39) t, generate_series(0, 29) y, \
         generate_series(5, 54) x) WHERE (t + y + x) % 7 <> 0 {order})"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn unordered_and_incomplete_rows() {
    let folder = tempfile::tempdir().unwrap();
    let in_order = "ORDER BY time, lat, lon";
    let shuffled = "ORDER BY (t * 7919 + y * 104729 + x * 1299709) % 60013";
    let truth = rows(
        &session(),
        &format!("SELECT * FROM {} q ORDER BY 1, 2, 3", grid("")),
    )
    .await;
    for (name, order) in [("in_order", in_order), ("shuffled", shuffled)] {
        let path = folder.path().join(format!("{name}.parquet"));
        let sql = format!("COPY {} TO '{}'", grid(order), path.display());
        rows(&session(), &sql).await;
    }
    let (in_order, shuffled) = ("in_order", "shuffled");
    for (memory, order, chunk) in [
        (1 << 30, in_order, ""),
        (1 << 30, shuffled, ", chunk '7,8,9'"),
        (2 << 20, shuffled, ", chunk '1,3,4'"),
        (2 << 20, in_order, ", chunk '40,4,4', zone_maps true"),
        (
            2 << 20,
            shuffled,
            ", chunk '40,30,1', zone_maps true, codec 'zstd', level 5",
        ),
    ] {
        let ctx = small_session(memory);
        let path = folder.path().join("grid.tet");
        let options = format!("OPTIONS (dims 'time,lat,lon'{chunk})");
        let query = format!(
            "(SELECT * FROM '{}/{order}.parquet')",
            folder.path().display()
        );
        let answer = copy(&ctx, &query, &path, &options).await;
        assert_eq!(answer, [truth.len().to_string()]);
        let back = open(&path, ArrayOptions::new()).await;
        let found = rows(
            &back,
            "SELECT time, lat, lon, v, n FROM time_lat_lon WHERE v IS NOT NULL ORDER BY 1, 2, 3",
        );
        assert_eq!(found.await, truth, "{options}");
        let all = rows(
            &back,
            "SELECT count(*), count(v), count(n), min(n), max(n) FROM time_lat_lon",
        )
        .await;
        let expected = format!("60000 {0} {0} 0 199", truth.len());
        assert_eq!(all, [expected]);
        // The 30 latitudes are stored as labels, so they have no dataset of their own.
        let file = TetFile::open(&path, OpenOptions::default()).unwrap();
        let metadata = file.metadata(file.dataset("n").unwrap()).unwrap();
        assert_eq!(metadata.attrs["_FillValue"], "255");
        assert_eq!(metadata.coords["lat"].labels[..2], ["0.0", "0.5"]);
        assert!(file.dataset("lat").is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn axis_types_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("axes.tet");
    let ctx = session();
    for (expression, expected) in [
        ("value", "Int64"),
        ("value * 3", "Int64"),
        ("CAST(value AS INT)", "Int32"),
        ("CAST(value AS SMALLINT UNSIGNED)", "UInt16"),
        ("CAST(value AS DOUBLE) / 4", "Float64"),
        ("to_timestamp_seconds(value * 3600)", "Timestamp(µs)"),
        ("to_timestamp_micros(value * 1000001)", "Timestamp(µs)"),
        ("CAST('2024-01-01' AS DATE) + CAST(value AS INT)", "Date32"),
        ("concat('s', value)", "Utf8"),
        ("CAST(value AS VARCHAR)", "Utf8"),
    ] {
        for count in [5, 64, 70, 900] {
            let query = format!(
                "(SELECT {expression} AS x, CAST(value AS DOUBLE) AS v FROM generate_series(1, {count}))"
            );
            copy(&ctx, &query, &path, "OPTIONS (dims 'x')").await;
            let back = open(&path, ArrayOptions::new()).await;
            let found = rows(
                &back,
                "SELECT x, arrow_typeof(x), value FROM v ORDER BY value",
            )
            .await;
            let truth = format!("SELECT x, '{expected}', v FROM {query} q ORDER BY v");
            assert_eq!(found, rows(&ctx, &truth).await, "{expression}, {count}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_names_and_zone_maps() {
    let folder = tempfile::tempdir().unwrap();
    let weather = data().join("weather_small.tet");
    let ctx = open(&weather, ArrayOptions::new()).await;
    let path = folder.path().join("daily.tet");
    let query = "(SELECT date_trunc('day', time) AS day, lat, lon, avg(value) AS t2m, max(value) AS tmax FROM temperature \
                 GROUP BY 1, 2, 3)";
    let options = "OPTIONS (zone_maps true, 'attribute.units' 'K', 'attribute.tmax.long_name' 'daily maximum')";
    copy(&ctx, query, &path, options).await;
    let file = TetFile::open(&path, OpenOptions::default()).unwrap();
    let attributes = |name: &str| {
        let metadata = file.metadata(file.dataset(name).unwrap()).unwrap();
        let attributes = metadata
            .attrs
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        attributes.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(attributes("t2m"), "long_name=air temperature units=K");
    assert_eq!(attributes("tmax"), "long_name=daily maximum units=K");
    // The zone maps equal those that `tetration` makes.
    let copy_of = folder.path().join("indexed.tet");
    std::fs::copy(&path, &copy_of).unwrap();
    embed_indexes_in_tet(&copy_of, 0).unwrap();
    let zone_maps = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let start = text.find("{\n  \"version\": 1").unwrap();
        let end = start + text[start..].find("\n}\n").unwrap();
        text[start..end].to_string()
    };
    assert_eq!(zone_maps(&path), zone_maps(&copy_of));
    // `tetration` gives the same sums, of all cells and of those whose zone maps do not rule them
    // out.
    let reference = Reference::open(&path);
    let ours = rows(
        &ctx,
        &format!("SELECT sum(tmax), sum(tmax) FILTER (WHERE tmax > 20) FROM {query} q"),
    )
    .await;
    let ours: Vec<f64> = ours[0].split(' ').map(|sum| sum.parse().unwrap()).collect();
    for (json, ours) in [
        (r#"{"dataset":"tmax","sum":[]}"#, ours[0]),
        (r#"{"dataset":"tmax","sum":[],"filter":{"gt":20}}"#, ours[1]),
    ] {
        let theirs = reference.query(json).operation_sum.unwrap();
        assert!((theirs - ours).abs() < 1e-3, "{json}: {theirs} {ours}");
    }
    let back = open(&path, ArrayOptions::new()).await;
    let truth = rows(&ctx, &format!("SELECT * FROM {query} q ORDER BY 1, 2, 3")).await;
    let found = rows(
        &back,
        "SELECT day, lat, lon, t2m, tmax FROM day_lat_lon ORDER BY 1, 2, 3",
    )
    .await;
    assert_eq!(found, truth);
    // A single column called `value` takes the name and the attributes of its dataset.
    let path = folder.path().join("copy.tet");
    copy(
        &ctx,
        "(SELECT time, lat, lon, value FROM humidity WHERE lat > 0)",
        &path,
        "",
    )
    .await;
    let back = open(&path, ArrayOptions::new()).await;
    let before = schema(&ctx, "humidity").await;
    let after = schema(&back, "humidity").await;
    assert_eq!(before.field(3), after.field(3));
    copy(&ctx, "temperature", &path, "OPTIONS (dataset 't')").await;
    let back = open(&path, ArrayOptions::new()).await;
    assert_eq!(rows(&back, "SELECT count(*) FROM t").await, ["9600"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_form_no_array_are_refused_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no.tet");
    let ctx = session();
    for (query, options, expected) in [
        (
            "SELECT * FROM (VALUES (1, 2, 0.5), (1, 3, 0.5), (1, 2, 0.7)) AS t(a, b, v)",
            "",
            "two rows have the same cell a = 1, b = 2",
        ),
        (
            "SELECT 1 AS a, 2.5 AS v WHERE 1 > 2",
            "",
            "the query returned no rows",
        ),
        (
            "SELECT NULL::INT AS a, 2.5 AS v",
            "",
            "dimension a is NULL in a row",
        ),
        (
            "SELECT 'NaN'::DOUBLE AS a, 2.5 AS v",
            "OPTIONS (dims 'a')",
            "dimension a is NaN",
        ),
        (
            "SELECT 1 AS a, 2 AS v",
            "",
            "all are dimensions, and none has values",
        ),
        ("SELECT 1.5 AS a, 2.5 AS v", "", "none is a dimension"),
        (
            "SELECT 1 AS a, 2.5 AS v",
            "OPTIONS (dims 'b')",
            "option dims names \"b\", expected columns of a, v",
        ),
        (
            "SELECT 1 AS a, 2.5 AS v",
            "OPTIONS (chunks '1')",
            "unknown option chunks",
        ),
        (
            "SELECT 1 AS a, 2.5 AS v",
            "OPTIONS (chunk '1,1')",
            "option chunk has 2 extents",
        ),
        (
            "SELECT 1 AS a, 2.5 AS v, 3.5 AS w",
            "OPTIONS (dataset 'd')",
            "option dataset requires a single value column, found 2",
        ),
        ("SELECT 1 AS a, [2.5] AS v", "", "column v has type List"),
        (
            "SELECT true AS a, 2.5 AS v",
            "OPTIONS (dims 'a')",
            "dimension a has type Boolean",
        ),
        (
            "SELECT value AS a, value AS b, value AS c, 0.5 AS v FROM generate_series(1, 3000)",
            "",
            "3000 rows would make an array of [3000, 3000, 3000] cells over a, b, c",
        ),
        (
            "SELECT value AS a, CAST(value AS TINYINT UNSIGNED) AS v FROM generate_series(0, 255) \
             UNION ALL SELECT 256, NULL",
            "OPTIONS (dims 'a')",
            "so no fill value is free",
        ),
        (
            "SELECT 1 AS a, 1 AS v",
            "OPTIONS (dims 'a', fill_value '1')",
            "v has the value 1, which is its fill value",
        ),
        (
            "SELECT * FROM (VALUES (1, -1.5), (2, 0.0), (3, 1.5)) AS t(a, v)",
            "OPTIONS (fill_value '0')",
            "v has the value 0, which is its fill value",
        ),
        (
            "SELECT 1 AS a, 2.5 AS v",
            "OPTIONS ('attribute.w.units' 'K')",
            "option attribute.w.units names no dataset; there are v",
        ),
        (
            "SELECT 1 AS a, 2.5 AS v",
            "OPTIONS (dataset 'a')",
            "dataset \"a\" has the name of a dimension",
        ),
        (
            "SELECT to_timestamp_nanos(1001) AS a, 2.5 AS v",
            "",
            "has a coordinate that Timestamp(µs) cannot hold",
        ),
        (
            "SELECT to_timestamp_micros(-9223372036854775807) AS a, 2.5 AS v",
            "",
            "expected one within the years -262143 to 262142",
        ),
        (
            "SELECT value AS a, concat('a text that is long ', value) AS v FROM generate_series(1, 10000)",
            "OPTIONS (dims 'a')",
            "v has more or longer texts than fit the 48 attributes",
        ),
    ] {
        let sql = format!(
            "COPY ({query}) TO '{}' STORED AS TET {options}",
            path.display()
        );
        let error = error(&ctx, &sql).await;
        assert!(error.contains(expected), "{query}: {error}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_equal_to_the_fill_value_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let ctx = open(&data().join("weather_small.tet"), ArrayOptions::new()).await;
    // The column carries its fill value -32768 along. The queries produce values equal to the fill
    // value, and values of the opposite sign.
    let query = "(SELECT time, station, CASE WHEN station = 'KSEA' THEN CAST(-32768 AS SMALLINT) ELSE value END AS value \
                 FROM pressure)";
    for query in [
        query,
        "(SELECT time, station, CAST(-value AS SMALLINT) AS value FROM pressure)",
    ] {
        copy(&ctx, query, &path, "OPTIONS (dims 'time,station')").await;
        let back = open(&path, ArrayOptions::new()).await;
        let name = rows(
            &back,
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'f'",
        )
        .await;
        let select = |from: &str| format!("SELECT * FROM {from} q ORDER BY 1, 2");
        let found = rows(&back, &select(&name[0])).await;
        assert_eq!(found, rows(&ctx, &select(query)).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attribute_options_reach_mixed_case_datasets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let query = "(SELECT value AS a, CAST(value AS DOUBLE) AS \"Tmax\", 2.5 AS t FROM generate_series(1, 3))";
    let options = "OPTIONS ('attribute.Tmax.units' 'K', 'attribute.t._FillValue' '-1', 'attribute.long_name' 'both')";
    copy(&session(), query, &path, options).await;
    let file = TetFile::open(&path, OpenOptions::default()).unwrap();
    let attributes = |name: &str| {
        let metadata = file.metadata(file.dataset(name).unwrap()).unwrap();
        format!("{:?}", metadata.attrs)
    };
    assert_eq!(attributes("Tmax"), r#"{"long_name": "both", "units": "K"}"#);
    assert_eq!(
        attributes("t"),
        r#"{"_FillValue": "-1", "long_name": "both"}"#
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn coordinates_are_counted_in_the_memory_pool() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let ctx = small_session(8 << 20);
    let query = "(SELECT value AS a, 0.5 AS v FROM generate_series(1, 1000000))";
    let sql = format!("COPY {query} TO '{}'", path.display());
    let error = error(&ctx, &sql).await;
    assert!(error.contains("axes of COPY"), "{error}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
