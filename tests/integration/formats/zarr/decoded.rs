//! Decoding of packed, unsigned and missing values, against xarray.

use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};
use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, convert};
use tet_sql::{ArrayOptions, ArraySchema, Unpack};

use super::stores::{document, unpacked};
use crate::support::sql::{error, open, rows, session};

/// Returns the numbers of a query's only column, null as `None`.
async fn numbers(ctx: &SessionContext, sql: &str) -> Vec<Option<f64>> {
    let frame = ctx.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let batches = frame.collect().await;
    let batches = batches.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let mut found = Vec::new();
    for batch in batches {
        let column = arrow::compute::cast(batch.column(0), &DataType::Float64).unwrap();
        found.extend(column.as_primitive::<Float64Type>().iter());
    }
    found
}

/// Returns the values of a table in the order of its dimensions, all of which ascend.
async fn values(ctx: &SessionContext, table: &str) -> Vec<Option<f64>> {
    let all = ctx.sql(&format!("SELECT * FROM {table}")).await.unwrap();
    let columns: Vec<_> = all.schema().fields().iter().collect();
    let order: Vec<_> = columns[..columns.len() - 1]
        .iter()
        .map(|dimension| format!("\"{}\"", dimension.name()))
        .collect();
    let value = columns[columns.len() - 1].name();
    let sql = format!("SELECT {value} FROM {table} ORDER BY {}", order.join(", "));
    numbers(ctx, &sql).await
}

fn expected_values(store: &str, name: &str) -> Vec<Option<f64>> {
    let values = document("decoded.json")[store][name].clone();
    let number = |value: &Value| Some(value.as_str()?.parse().unwrap());
    values.as_array().unwrap().iter().map(number).collect()
}

#[tokio::test]
async fn values_match_xarray() {
    let decoded = document("decoded.json");
    let mut count = 0;
    for (store, arrays) in decoded.as_object().unwrap() {
        let (_folder, path) = unpacked(store);
        let ctx = open(&path, ArrayOptions::new()).await;
        for name in arrays.as_object().unwrap().keys() {
            let expected = expected_values(store, name);
            let found = values(&ctx, &format!("\"{name}\"")).await;
            assert_eq!(found, expected, "{store}: {name}");
            // Aggregates run on chunks, and without `array_aggregates` on rows.
            let there: Vec<f64> = expected.iter().copied().flatten().collect();
            let middle = there.iter().sum::<f64>() / there.len() as f64;
            let above = there.iter().filter(|value| **value > middle).count();
            for array_aggregates in [true, false] {
                let set = format!("SET tet.array_aggregates = {array_aggregates}");
                ctx.sql(&set).await.unwrap();
                let one = async |what: &str| -> f64 {
                    let sql = format!("SELECT {what} FROM \"{name}\"");
                    numbers(&ctx, &sql).await[0].unwrap()
                };
                assert_eq!(one("count(value)").await, there.len() as f64);
                assert_eq!(
                    one("min(value)").await,
                    there.iter().copied().fold(f64::INFINITY, f64::min)
                );
                assert_eq!(
                    one("max(value)").await,
                    there.iter().copied().fold(f64::NEG_INFINITY, f64::max)
                );
                assert!((one("avg(value)").await - middle).abs() <= 1e-9 * middle.abs());
                let filter = format!("count(*) FILTER (WHERE value > {middle:?})");
                assert_eq!(one(&filter).await, above as f64, "{store}: {name}");
            }
            let sql = format!("SELECT value FROM \"{name}\" WHERE value > {middle:?}");
            assert_eq!(numbers(&ctx, &sql).await.len(), above, "{store}: {name}");
            count += 1;
        }
    }
    assert!(count >= 42, "{count}");
}

#[tokio::test]
async fn packed_coordinates_are_unpacked() {
    for store in ["packed_v2.zarr", "packed_v3.zarr"] {
        let (_folder, path) = unpacked(store);
        let ctx = open(&path, ArrayOptions::new()).await;
        let lat = numbers(&ctx, "SELECT DISTINCT lat FROM t2m ORDER BY lat").await;
        assert_eq!(lat, expected_values(store, "lat"), "{store}");
        let found = rows(&ctx, "SELECT count(*) FROM t2m WHERE lat = 12.5").await;
        assert_eq!(found, ["15"]);
    }
}

/// Dates of this calendar are not timestamps, so the coordinates are text. February has 30 days.
#[tokio::test]
async fn times_of_other_calendars_are_text() {
    for store in ["packed_v2.zarr", "packed_v3.zarr"] {
        let (_folder, path) = unpacked(store);
        let schema = ArraySchema::open("s", &path, ArrayOptions::new()).unwrap();
        assert_eq!(schema.warnings(), [] as [&str; 0]);
        let ctx = open(&path, ArrayOptions::new()).await;
        let found = rows(&ctx, "SELECT time, value FROM plain").await;
        assert_eq!(
            found,
            [
                "2001-02-28T00:00:00 0.0",
                "2001-02-29T00:00:00 1.0",
                "2001-02-30T00:00:00 2.0",
                "2001-03-01T00:00:00 3.0",
                "2001-03-02T00:00:00 4.0"
            ]
        );
        let sql = "SELECT month(time) AS month, count(*) FROM t2m GROUP BY month ORDER BY month";
        assert_eq!(rows(&ctx, sql).await, ["2 36", "3 24"]);
    }
}

#[tokio::test]
async fn unpack_setting_and_option() {
    let (_folder, path) = unpacked("packed_v3.zarr");
    let quoted = format!("SELECT min(value) FROM '{}#t2m'", path.display());
    let (packed, unpacked) = (["-2315"], ["250.0"]);
    let near = |found: &[String]| match found {
        [one] => one.parse::<f64>().map(|one| format!("{one:.1}")).unwrap(),
        other => panic!("{other:?}"),
    };
    let ctx = session();
    assert_eq!(near(&rows(&ctx, &quoted).await), unpacked[0]);
    for (setting, is_packed) in [("never", true), ("ALWAYS", false), ("false", true)] {
        let set = format!("SET tet.unpack = '{setting}'");
        ctx.sql(&set).await.unwrap();
        let found = rows(&ctx, &quoted).await;
        match is_packed {
            true => assert_eq!(found, packed, "{setting}"),
            false => assert_eq!(near(&found), unpacked[0], "{setting}"),
        }
    }
    let message = error(&ctx, "SET tet.unpack = 'perhaps'").await;
    assert!(
        message.contains("tet.unpack is 'perhaps', expected auto, always or never"),
        "{message}"
    );
    // A registered table follows the session setting at the time of registration. Its own option
    // takes precedence.
    let create = |name: &str, unpack: &str| {
        format!(
            "CREATE EXTERNAL TABLE {name} STORED AS ZARR LOCATION '{}' OPTIONS (dataset 't2m'{unpack})",
            path.display()
        )
    };
    ctx.sql(&create("a", "")).await.unwrap();
    ctx.sql(&create("b", ", unpack 'auto'")).await.unwrap();
    assert_eq!(rows(&ctx, "SELECT min(value) FROM a").await, packed);
    let found = rows(&ctx, "SELECT min(value) FROM b").await;
    assert_eq!(near(&found), unpacked[0]);
    for (unpack, expected) in [
        (Unpack::Never, "Int16"),
        (Unpack::Auto, "Float64"),
        (Unpack::Always, "Float64"),
    ] {
        let ctx = open(&path, ArrayOptions::new().with_unpack(unpack)).await;
        let sql = "SELECT arrow_typeof(value) FROM t2m LIMIT 1";
        assert_eq!(rows(&ctx, sql).await, [expected], "{unpack}");
    }
}

async fn converted(input: &Path, output: &Path, unpack: Unpack) -> Vec<String> {
    let mut options = ConvertOptions {
        unpack,
        ..ConvertOptions::default()
    };
    if output.extension().unwrap() == "npy" || output.extension().unwrap() == "parquet" {
        options.dataset = Some("t2m".to_string());
    }
    let progress = ConvertProgress::default();
    let converted = convert(input, output, &options, &progress).await.unwrap();
    converted.warnings
}

/// A converted file reads as the same values as its source, also in formats where packing
/// attributes are not applied.
#[tokio::test]
async fn conversions_keep_decoded_values() {
    let (folder, path) = unpacked("packed_v3.zarr");
    let expected = expected_values("packed_v3.zarr", "t2m");
    for name in ["auto.tet", "auto.zarr", "auto.npy", "auto.parquet"] {
        let output = folder.path().join(name);
        converted(&path, &output, Unpack::Auto).await;
        let dataset = match name {
            "auto.tet" | "auto.zarr" => "#t2m",
            _ => "",
        };
        let table = format!("'{}{dataset}'", output.display());
        assert_eq!(values(&session(), &table).await, expected, "{name}");
    }
    // A conversion from Zarr to Zarr keeps the values packed, and the packing attributes with them.
    let ctx = open(
        &folder.path().join("auto.zarr"),
        ArrayOptions::new().with_unpack(Unpack::Never),
    )
    .await;
    let sql = "SELECT arrow_typeof(value) FROM t2m LIMIT 1";
    assert_eq!(rows(&ctx, sql).await, ["Int16"]);
    let (tet, never) = (
        folder.path().join("auto.tet"),
        folder.path().join("never.tet"),
    );
    let ctx = open(&tet, ArrayOptions::new().with_unpack(Unpack::Always)).await;
    assert_eq!(values(&ctx, "t2m").await, expected, "no attribute is left");
    assert_eq!(rows(&ctx, "SELECT max(lat) FROM t2m").await, ["17.5"]);
    converted(&path, &never, Unpack::Never).await;
    let ctx = open(&never, ArrayOptions::new()).await;
    assert_eq!(
        rows(&ctx, "SELECT arrow_typeof(value) FROM t2m LIMIT 1").await,
        ["Int16"]
    );
    let ctx = open(&never, ArrayOptions::new().with_unpack(Unpack::Always)).await;
    assert_eq!(values(&ctx, "t2m").await, expected);
    let always = folder.path().join("always.zarr");
    converted(&never, &always, Unpack::Always).await;
    let ctx = open(&always, ArrayOptions::new().with_unpack(Unpack::Never)).await;
    assert_eq!(values(&ctx, "t2m").await, expected);
}

#[tokio::test]
async fn conversions_keep_nulls() {
    for store in ["missing_v2.zarr", "missing_v3.zarr"] {
        let (folder, path) = unpacked(store);
        for name in ["a.tet", "a.zarr"] {
            let output = folder.path().join(name);
            converted(&path, &output, Unpack::Auto).await;
            let ctx = open(&output, ArrayOptions::new()).await;
            for array in document("decoded.json")[store].as_object().unwrap().keys() {
                let found = values(&ctx, &format!("\"{array}\"")).await;
                assert_eq!(
                    found,
                    expected_values(store, array),
                    "{store}, {name}: {array}"
                );
            }
        }
    }
}

/// COPY writes the values of the query, without attributes that would unpack them again.
#[tokio::test]
async fn copies_are_not_unpacked_twice() {
    let (folder, path) = unpacked("packed_v2.zarr");
    let expected = expected_values("packed_v2.zarr", "t2m");
    for name in ["copy.zarr", "copy.tet"] {
        let output = folder.path().join(name);
        let ctx = open(&path, ArrayOptions::new()).await;
        let copy = format!("COPY (SELECT * FROM t2m) TO '{}'", output.display());
        ctx.sql(&copy).await.unwrap().collect().await.unwrap();
        for unpack in [Unpack::Auto, Unpack::Always] {
            let ctx = open(&output, ArrayOptions::new().with_unpack(unpack)).await;
            let found = values(&ctx, "t2m").await;
            assert_eq!(found, expected, "{name}, {unpack}");
            assert_eq!(
                rows(&ctx, "SELECT max(lat), max(lon) FROM t2m").await,
                ["17.5 0.2"]
            );
        }
    }
}

fn command(name: &str, arguments: &[&str]) -> String {
    let path = match name {
        "tet" => env!("CARGO_BIN_EXE_tet"),
        _ => env!("CARGO_BIN_EXE_tet-sql"),
    };
    let mut command = std::process::Command::new(path);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// `--unpack` sets the session default, which applies to `.open` and quoted paths. `SET` overrides
/// it.
#[test]
fn unpack_flag_of_the_commands() {
    let (folder, path) = unpacked("packed_v3.zarr");
    let path = path.to_str().unwrap();
    let ask = |arguments: &[&str]| {
        let usual = ["--no-init", "-q", "--format", "csv"];
        command("tet-sql", &[&usual[..], arguments].concat())
    };
    let file = "SELECT round(min(value), 2) AS v FROM t2m";
    let quoted = format!("SELECT round(min(value), 2) AS v FROM '{path}#t2m'");
    assert_eq!(ask(&[path, "-c", file]), "v\n250.0\n");
    assert_eq!(ask(&["-c", &quoted]), "v\n250.0\n");
    assert_eq!(ask(&["--unpack", "never", path, "-c", file]), "v\n-2315\n");
    assert_eq!(ask(&["--unpack", "never", "-c", &quoted]), "v\n-2315\n");
    let open = format!(".open '{path}' as x");
    let opened = file.replace("t2m", "x.t2m");
    for (set, expected) in [("never", "v\n-2315\n"), ("auto", "v\n250.0\n")] {
        let set = format!("SET tet.unpack = '{set}'");
        let found = ask(&["--unpack", "always", "-c", &set, "-c", &open, "-c", &opened]);
        assert_eq!(found, expected);
    }
    let tet = folder.path().join("packed.tet");
    let tet = tet.to_str().unwrap();
    command("tet", &["convert", "--unpack", "never", path, tet]);
    assert_eq!(ask(&[tet, "-c", file]), "v\n-2315\n");
    assert_eq!(ask(&["--unpack", "always", tet, "-c", file]), "v\n250.0\n");
}

#[tokio::test]
async fn codecs_are_named() {
    let (_folder, path) = unpacked("layouts_v3.zarr");
    let ctx = open(&path, ArrayOptions::new()).await;
    let sql = "SELECT array_to_string(codecs, '; ') FROM tet_datasets() \
               WHERE table_name IN ('blosc', 'gzip', 'raw', 'zstd') ORDER BY table_name";
    let expected = ["bytes, blosc", "bytes, gzip", "bytes", "bytes, zstd"];
    assert_eq!(rows(&ctx, sql).await, expected);
    let sql = "SELECT DISTINCT codec FROM tet_chunks('zstd')";
    assert_eq!(rows(&ctx, sql).await, ["bytes, zstd"]);
}

/// Rounded values are stored as they are, so the filters that rounded them have nothing to undo.
#[tokio::test]
async fn rounding_filters_leave_values() {
    let folder = tempfile::tempdir().unwrap();
    let v2 = |filters: Value| {
        let array = json!({"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<f4", "order": "C",
                           "compressor": null, "fill_value": null, "filters": filters});
        (".zarray", "0", array)
    };
    let v3 = |codecs: Value| {
        let array = json!({"zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "float32",
                           "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
                           "chunk_key_encoding": {"name": "default"}, "fill_value": 0.0, "codecs": codecs});
        ("zarr.json", "c/0", array)
    };
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let arrays = [
        v2(json!([{"id": "bitround", "keepbits": 8}])),
        v2(json!([{"id": "quantize", "digits": 1, "dtype": "<f4", "astype": "<f4"}])),
        v3(json!([{"name": "bitround", "configuration": {"keepbits": 8}}, bytes])),
        v3(
            json!([{"name": "numcodecs.quantize", "configuration": {"digits": 1, "dtype": "<f4"}}, bytes]),
        ),
    ];
    for (number, (document, chunk, array)) in arrays.iter().enumerate() {
        let path = folder.path().join(format!("{number}.zarr"));
        std::fs::create_dir_all(path.join(chunk).parent().unwrap()).unwrap();
        std::fs::write(path.join(document), array.to_string()).unwrap();
        let cells = [1.5f32, 2.0, -0.25].map(f32::to_le_bytes);
        std::fs::write(path.join(chunk), cells.concat()).unwrap();
        let sql = format!("SELECT value FROM '{}'", path.display());
        let found = rows(&session(), &sql).await;
        assert_eq!(found, ["1.5", "2.0", "-0.25"], "{array}");
    }
}

#[tokio::test]
async fn filters_may_store_another_byte_order() {
    let folder = tempfile::tempdir().unwrap();
    for (name, dtype, stored, chunk) in [
        ("a", ">f4", "<i2", &[10u8, 0, 25, 0, 120, 0][..]),
        ("b", "<f8", ">i2", &[0, 10, 0, 25, 0, 120]),
        ("c", "<f4", "|u1", &[10, 25, 120]),
    ] {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        let filter = json!({"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": dtype, "astype": stored});
        let document = json!({"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": dtype, "compressor": null,
            "fill_value": null, "order": "C", "filters": [filter]});
        std::fs::write(path.join(".zarray"), document.to_string()).unwrap();
        std::fs::write(path.join("0"), chunk).unwrap();
        let ctx = open(&path, ArrayOptions::new()).await;
        assert_eq!(
            values(&ctx, name).await,
            [1.0, 2.5, 12.0].map(Some),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_single_cell_may_state_an_order() {
    let folder = tempfile::tempdir().unwrap();
    let document = json!({"zarr_format": 2, "shape": [], "chunks": [], "dtype": "<u8", "compressor": null,
        "fill_value": null, "order": "F", "filters": null});
    std::fs::write(folder.path().join(".zarray"), document.to_string()).unwrap();
    std::fs::write(folder.path().join("0"), 42u64.to_le_bytes()).unwrap();
    let path = folder.path();
    let ctx = session();
    let sql = format!("SELECT value FROM '{}/'", path.display());
    assert_eq!(numbers(&ctx, &sql).await, [Some(42.0)]);
}

#[tokio::test]
async fn texts_without_cells_are_texts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    std::fs::create_dir(&path).unwrap();
    let document = json!({"zarr_format": 3, "node_type": "array", "shape": [0], "data_type": "string",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, "fill_value": "",
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "vlen-utf8"}], "attributes": {}});
    std::fs::write(path.join("zarr.json"), document.to_string()).unwrap();
    let ctx = open(&path, ArrayOptions::new()).await;
    let sql = "SELECT count(*) FROM t WHERE value LIKE 'a%'";
    assert_eq!(rows(&ctx, sql).await, ["0"]);
}
