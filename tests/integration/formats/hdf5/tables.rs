//! Files as tables: values, dimensions, coordinates, groups, conversions.

use std::path::Path;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::prelude::SessionContext;
use serde_json::Value;
use tet_sql::format::array::{DatasetSpec, Dtype};
use tet_sql::format::tet::verify::{VerifyOptions, verify_arrays};
use tet_sql::format::zarr::{ZarrVersion, ZarrWriteOptions, ZarrWriter};
use tet_sql::provider::adapters::arrays::ArrayContainer;
use tet_sql::provider::convert::{ConvertOptions, ConvertProgress, convert};
use tet_sql::provider::source::container::TableRole;
use tet_sql::{ArrayOptions, ArraySchema, Unpack};

use super::stored::path;
use crate::support::encoded::Encoded;
use crate::support::sql::{error, open, rows, session};

/// Returns the numbers of a query's only column, null as `None`.
async fn numbers(ctx: &SessionContext, sql: &str) -> Vec<Option<f64>> {
    let frame = ctx.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let batches = frame.collect().await;
    let mut found = Vec::new();
    for batch in batches.unwrap_or_else(|e| panic!("{sql}: {e}")) {
        let column = arrow::compute::cast(batch.column(0), &DataType::Float64).unwrap();
        found.extend(column.as_primitive::<Float64Type>().iter());
    }
    found
}

/// Returns the values of a table in the order of its dimensions, all of which ascend.
async fn values(ctx: &SessionContext, table: &str) -> Vec<Option<f64>> {
    let all = ctx.sql(&format!("SELECT * FROM {table}")).await.unwrap();
    let columns: Vec<_> = all.schema().fields().iter().collect();
    let (value, dimensions) = columns.split_last().unwrap();
    let order: Vec<_> = dimensions
        .iter()
        .map(|one| format!("\"{}\"", one.name()))
        .collect();
    let sql = format!(
        "SELECT {} FROM {table} ORDER BY {}",
        value.name(),
        order.join(", ")
    );
    numbers(ctx, &sql).await
}

/// Returns the values of variables of `netcdf.nc` as xarray decodes them.
fn decoded() -> Vec<(String, Vec<Option<f64>>)> {
    let text = std::fs::read_to_string(path("decoded.json")).unwrap();
    let decoded: Value = serde_json::from_str(&text).unwrap();
    let variables = decoded.as_object().unwrap().iter();
    let values = |values: &Value| {
        values
            .as_array()
            .unwrap()
            .iter()
            .map(Value::as_f64)
            .collect()
    };
    variables
        .map(|(name, list)| (name.clone(), values(list)))
        .collect()
}

#[tokio::test]
async fn values_match_xarray() {
    let ctx = open(&path("netcdf.nc"), ArrayOptions::new()).await;
    for (name, expected) in decoded() {
        assert_eq!(values(&ctx, &name).await, expected, "{name}");
        let there: Vec<f64> = expected.iter().copied().flatten().collect();
        let middle = there.iter().sum::<f64>() / there.len() as f64;
        for array_aggregates in [true, false] {
            let set = format!("SET tet.array_aggregates = {array_aggregates}");
            ctx.sql(&set).await.unwrap();
            let sql = format!("SELECT count(value) FROM {name}");
            assert_eq!(
                numbers(&ctx, &sql).await,
                [Some(there.len() as f64)],
                "{name}"
            );
            let sql = format!("SELECT max(value) FROM {name}");
            let max = there.iter().copied().fold(f64::MIN, f64::max);
            assert_eq!(numbers(&ctx, &sql).await, [Some(max)], "{name}");
            let sql = format!("SELECT avg(value) FROM {name}");
            let found = numbers(&ctx, &sql).await[0].unwrap();
            assert!(
                (found - middle).abs() < 1e-9 * middle.abs(),
                "{name}: {found}, {middle}"
            );
        }
    }
}

#[tokio::test]
async fn dimensions_have_coordinates() {
    let ctx = open(&path("netcdf.nc"), ArrayOptions::new()).await;
    let sql = "SELECT time, lat, lon FROM wind WHERE time > '2000-01-01T20:00:00' AND lat = 20 AND lon < 3";
    assert_eq!(
        rows(&ctx, sql).await,
        [
            "2000-01-02T00:00:00 20.0 1.0",
            "2000-01-02T00:00:00 20.0 2.0"
        ]
    );
    // In a group, a dimension of the group and one of the root group.
    let sql = "SELECT depth, lat FROM \"ocean/salt\" LIMIT 2";
    assert_eq!(rows(&ctx, sql).await, ["5.0 10.0", "5.0 20.0"]);
    // Strings of characters, strings of variable length, and an enumeration.
    assert_eq!(
        rows(&ctx, "SELECT value FROM station").await,
        ["Oslo", "Paris"]
    );
    let sql = "SELECT lat, value FROM region WHERE value <> 'middle'";
    assert_eq!(rows(&ctx, sql).await, ["10.0 south", "30.0 north"]);
    assert_eq!(rows(&ctx, "SELECT value FROM sky").await, ["0", "1", "0"]);
    let ctx = open(&path("phony.h5"), ArrayOptions::new()).await;
    let sql = "SELECT count(*), max(phony_dim_3), max(phony_dim_4) FROM a";
    assert_eq!(rows(&ctx, sql).await, ["12 3 2"]);
}

#[tokio::test]
async fn a_slice_reads_only_its_chunks() {
    let ctx = open(&path("netcdf.nc"), ArrayOptions::new()).await;
    for (filter, chunks) in [
        ("time < '2000-01-01T06:00:00'", "chunks=4 of 12"),
        ("lat = 30 AND lon = 4", "chunks=3 of 12"),
    ] {
        for what in ["avg(value)", "*"] {
            let sql = format!("EXPLAIN SELECT {what} FROM packed WHERE {filter}");
            let plan = rows(&ctx, &sql).await.join("\n");
            assert!(plan.contains(chunks), "{sql}: {plan}");
        }
    }
}

#[test]
fn bounds_and_coordinates_have_a_role_of_their_own() {
    let schema = ArraySchema::open("s", path("netcdf.nc"), ArrayOptions::new()).unwrap();
    let role = |role: TableRole| -> Vec<&str> {
        let tables = schema.container().tables().iter();
        let tables = tables.filter(|table| table.role == role);
        tables.map(|table| table.name.as_str()).collect()
    };
    assert_eq!(
        role(TableRole::Coordinates),
        ["time", "time_bnds", "lat", "lon", "station", "ocean/depth"]
    );
    assert!(role(TableRole::Data).contains(&"packed"));
    let attributes = schema.container().attributes();
    assert!(attributes.contains(&("title".to_string(), "NetCDF-4 conventions".to_string())));
}

#[tokio::test]
async fn files_are_opened_by_path_and_by_statement() {
    let ctx = session();
    let file = path("netcdf.nc").display().to_string();
    let sql = format!("SELECT count(*) FROM '{file}#packed'");
    assert_eq!(rows(&ctx, &sql).await, ["60"]);
    for format in ["NETCDF", "HDF5"] {
        let create = format!(
            "CREATE EXTERNAL TABLE {format} STORED AS {format} LOCATION '{file}' OPTIONS (dataset 'wind', dims 'x')"
        );
        ctx.sql(&create).await.unwrap();
        assert_eq!(
            rows(&ctx, &format!("SELECT count(lat) FROM {format}")).await,
            ["60"]
        );
    }
    // Content decides, not the name. A user block comes before the superblock.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("data.bin");
    std::fs::copy(path("groups_latest.h5"), &copy).unwrap();
    let sql = format!("SELECT max(value) FROM '{}#deep/deeper/x'", copy.display());
    assert_eq!(rows(&ctx, &sql).await.len(), 1);
    let broken = folder.path().join("broken.h5");
    std::fs::write(&broken, b"no superblock").unwrap();
    let message = error(&ctx, &format!("SELECT * FROM '{}'", broken.display())).await;
    assert!(message.contains("superblock is unreadable"), "{message}");
}

#[tokio::test]
async fn cells_outside_of_the_valid_range_are_null_on_request() {
    let ctx = session();
    let file = path("netcdf.nc").display().to_string();
    for (option, expected) in [
        ("", ["-1", "50", "101"]),
        (", valid_range 'ignore'", ["-1", "50", "101"]),
        (", valid_range 'mask'", ["NULL", "50", "NULL"]),
    ] {
        let create = format!(
            "CREATE OR REPLACE EXTERNAL TABLE t STORED AS NETCDF LOCATION '{file}' OPTIONS (dataset 'valid'{option})"
        );
        ctx.sql(&create).await.unwrap();
        assert_eq!(rows(&ctx, "SELECT value FROM t").await, expected);
        let count = expected.iter().filter(|value| **value != "NULL").count();
        let found = rows(&ctx, "SELECT count(value) FROM t").await;
        assert_eq!(found, [count.to_string()]);
    }
    let create = format!(
        "CREATE EXTERNAL TABLE u STORED AS NETCDF LOCATION '{file}' OPTIONS (dataset 'valid', valid_range 'yes')"
    );
    let message = error(&ctx, &create).await;
    assert!(
        message.contains("option valid_range is 'yes', expected ignore or mask"),
        "{message}"
    );
}

/// Two files along time, with coordinates of their own.
#[tokio::test]
async fn several_files_are_one_table() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.nc", "b.nc"] {
        std::fs::copy(path("netcdf.nc"), folder.path().join(name)).unwrap();
    }
    let ctx = session();
    let sql = format!(
        "SELECT count(*), count(DISTINCT lat) FROM '{}/*.nc#wind'",
        folder.path().display()
    );
    assert_eq!(rows(&ctx, &sql).await, ["120 3"]);
}

#[tokio::test]
async fn plans_are_decoded_in_another_session() {
    let ctx = session();
    Encoded::add_to(&ctx, &[]);
    let file = path("netcdf.nc").display().to_string();
    let sql = format!("SELECT lat, avg(value) FROM '{file}#packed' GROUP BY lat ORDER BY lat");
    assert_eq!(rows(&ctx, &sql).await.len(), 3);
    let sql = format!("SELECT * FROM '{file}#wind' WHERE value > 20 LIMIT 3");
    assert_eq!(rows(&ctx, &sql).await.len(), 3);
}

async fn converted(input: &Path, output: &Path) -> Vec<String> {
    let options = ConvertOptions {
        unpack: Unpack::Auto,
        ..ConvertOptions::default()
    };
    let progress = ConvertProgress::default();
    convert(input, output, &options, &progress)
        .await
        .unwrap()
        .warnings
}

#[tokio::test]
async fn conversions_keep_values_and_attributes() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.tet", "a.zarr"] {
        let output = folder.path().join(name);
        let warnings = converted(&path("netcdf.nc"), &output).await;
        let title =
            "the attributes title of the file and its groups are left out, because a .tet file";
        match name {
            "a.tet" => assert!(
                warnings.len() == 1 && warnings[0].contains(title),
                "{warnings:?}"
            ),
            _ => assert_eq!(warnings, [] as [&str; 0]),
        }
        let ctx = open(&output, ArrayOptions::new()).await;
        for (variable, expected) in decoded() {
            assert_eq!(
                values(&ctx, &variable).await,
                expected,
                "{name}: {variable}"
            );
        }
        let sql = "SELECT min(time), max(time), count(DISTINCT lat) FROM wind";
        let times = ["2000-01-01T00:00:00 2000-01-02T00:00:00 3"];
        assert_eq!(rows(&ctx, sql).await, times, "{name}");
        let schema = ArraySchema::open("s", &output, ArrayOptions::new()).unwrap();
        let arrays = schema.container().downcast_ref::<ArrayContainer>().unwrap();
        let file = arrays.file();
        let attributes =
            |dataset: &str| &file.metadata(file.dataset(dataset).unwrap()).unwrap().attrs;
        assert_eq!(attributes("time")["units"], "hours since 2000-01-01");
        assert_eq!(attributes("time")["bounds"], "time_bnds");
        assert_eq!(attributes("sky")["flag_meanings"], "clear cloudy");
    }
}

/// The attributes of the file and of its groups, in both versions of Zarr.
#[tokio::test]
async fn conversions_keep_attributes_of_groups() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("a.zarr");
    let warnings = converted(&path("netcdf.nc"), &output).await;
    assert_eq!(warnings, [] as [&str; 0]);
    let document = |path: &Path| -> Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let root = document(&output.join("zarr.json"));
    assert_eq!(root["attributes"]["title"], "NetCDF-4 conventions");
    let input = path("links_latest.h5");
    let output = folder.path().join("b.zarr");
    let warnings = converted(&input, &output).await;
    let lost = "the attributes without_arrays/note of the file and its groups are left out";
    assert!(
        warnings.iter().any(|warning| warning.contains(lost)),
        "{warnings:?}"
    );
    let group = document(&output.join("group/zarr.json"));
    assert_eq!(group["attributes"]["title"], "The group");
    let schema = ArraySchema::open("s", &input, ArrayOptions::new()).unwrap();
    let arrays = schema.container().downcast_ref::<ArrayContainer>().unwrap();
    let expected = arrays.file().group_attributes().unwrap();
    assert!(!expected.is_empty());
    let listed = schema.container().attributes();
    for (group, attributes) in expected {
        for (key, value) in attributes {
            let entry = (format!("{group}/{key}"), value.clone());
            assert!(listed.contains(&entry), "{entry:?}");
        }
    }
    for version in [ZarrVersion::V2, ZarrVersion::V3] {
        let output = folder.path().join(format!("{version:?}.zarr"));
        let spec = DatasetSpec::new("deep/deeper/x", Dtype::U8, &[1], &[1]);
        let options = ZarrWriteOptions { version };
        let mut writer = ZarrWriter::create(&output, vec![spec], options).unwrap();
        let mut attributes = expected.clone();
        attributes.insert(String::new(), [("a".into(), "1".into())].into());
        attributes.insert("deep/deeper".into(), [("b".into(), "two".into())].into());
        attributes.insert("empty".into(), [("c".into(), "3".into())].into());
        writer.set_group_attributes(attributes);
        writer.write_dataset(0, &[7]).unwrap();
        writer.finish().unwrap();
        let (group, consolidated) = match version {
            ZarrVersion::V2 => {
                let consolidated = document(&output.join(".zmetadata"));
                let metadata = consolidated["metadata"].clone();
                assert_eq!(metadata[".zattrs"]["a"], "1");
                (
                    document(&output.join("deep/deeper/.zattrs")),
                    metadata["deep/deeper/.zattrs"].clone(),
                )
            }
            ZarrVersion::V3 => {
                let root = document(&output.join("zarr.json"));
                assert_eq!(root["attributes"]["a"], "1");
                let metadata = &root["consolidated_metadata"]["metadata"];
                (
                    document(&output.join("deep/deeper/zarr.json"))["attributes"].clone(),
                    metadata["deep/deeper"]["attributes"].clone(),
                )
            }
        };
        assert_eq!(group["b"], "two");
        assert_eq!(consolidated, group);
        assert!(!output.join("empty").exists());
    }
}

/// A deep check decodes every chunk, and finds a changed byte by its checksum.
#[test]
fn checks_decode_every_chunk() {
    let options = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    let check = |path: &Path| {
        let schema = ArraySchema::open("s", path, ArrayOptions::new()).unwrap();
        let arrays = schema.container().downcast_ref::<ArrayContainer>().unwrap();
        verify_arrays(arrays.file(), options, &|_, _| {})
    };
    for name in [
        "netcdf.nc",
        "layouts_latest.h5",
        "layouts_earliest.h5",
        "groups_latest.h5",
    ] {
        let report = check(&path(name));
        assert!(report.ok, "{name}: {:?}", report.findings);
        assert!(report.chunks > 10, "{name}");
    }
    let mut bytes = std::fs::read(path("filters.h5")).unwrap();
    // Cells of the dataset "fletcher32" follow one another without compression.
    let schema = ArraySchema::open("s", path("filters.h5"), ArrayOptions::new()).unwrap();
    let arrays = schema.container().downcast_ref::<ArrayContainer>().unwrap();
    let file = arrays.file();
    let mut reader =
        tet_sql::format::array::ChunkReader::new(Arc::clone(file), tet_sql::Access::Pread);
    reader
        .open(file.dataset("fletcher32").unwrap(), &[0, 0])
        .unwrap();
    while !reader.advance().unwrap() {}
    let cells = reader.cells(0..16 * 10 * 4).unwrap().to_vec();
    let place = bytes
        .windows(cells.len())
        .position(|window| window == cells);
    bytes[place.unwrap()] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("changed.h5");
    std::fs::write(&copy, bytes).unwrap();
    let report = check(&copy);
    assert!(!report.ok);
    let found = report.findings.iter().any(|finding| {
        finding.message.contains("checksum") && finding.dataset.as_deref() == Some("fletcher32")
    });
    assert!(found, "{:?}", report.findings);
}
