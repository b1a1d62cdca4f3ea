//! Every value of every file, by SQL.

use datafusion::prelude::SessionContext;
use serde_json::Value;
use tet_sql::format::array::ArrayFile;
use tet_sql::format::netcdf::NetcdfFile;
use tet_sql::{Access, ArrayOptions};

use super::path;
use crate::support::cells::ACCESS;
use crate::support::sql::{open, rows, session};

const FILES: [&str; 15] = [
    "calendars",
    "cf_2000",
    "cf_2001",
    "eight",
    "missing",
    "no_records",
    "one_record_byte",
    "one_record_double",
    "one_record_short",
    "scipy_1",
    "scipy_2",
    "stream",
    "types_cdf1",
    "types_cdf2",
    "types_cdf5",
];

/// Returns the expected variables of a file.
fn expected(name: &str) -> Value {
    let text = std::fs::read_to_string(path(&format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Compares a value in a result with the expected one. Packed values are equal up to the precision
/// of 32 bits, in which netCDF4-python may unpack them.
fn is_equal(found: &str, expected: &Value, is_packed: bool) -> bool {
    match expected {
        Value::Null => found == "NULL",
        // NaN is null by default.
        Value::String(text) if text == "nan" => found == "NULL",
        Value::String(text) => found == text,
        Value::Number(number) if number.is_f64() => {
            let (found, expected) = (found.parse::<f64>(), number.as_f64().unwrap());
            let allowed = if is_packed { 1e-4 } else { 0.0 };
            found.is_ok_and(|found| (found - expected).abs() <= allowed)
        }
        other => {
            let text = other.to_string();
            found == text
        }
    }
}

async fn check(ctx: &SessionContext, file: &str, name: &str, variable: &Value) {
    let dimensions = variable["dimensions"].as_array().unwrap().iter();
    let mut columns: Vec<_> = dimensions.map(|one| one.as_str().unwrap()).collect();
    columns.push("value");
    let table = format!("f.\"{name}\"");
    let frame = ctx.sql(&format!("SELECT * FROM {table}")).await.unwrap();
    let fields = frame.schema().fields().iter();
    let names: Vec<_> = fields.map(|field| field.name().as_str()).collect();
    assert_eq!(names, columns, "{file}, {name}");
    let attributes = &variable["attributes"];
    let is_packed = ["scale_factor", "add_offset"]
        .iter()
        .any(|key| !attributes[key].is_null());
    let is_float = is_packed || ["float", "double"].contains(&variable["type"].as_str().unwrap());
    let value = match is_float {
        true => "CAST(value AS DOUBLE)",
        false => "value",
    };
    let found = rows(ctx, &format!("SELECT {value} FROM {table}")).await;
    let expected = variable["values"].as_array().unwrap();
    assert_eq!(found.len(), expected.len(), "{file}, {name}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            is_equal(found, expected, is_packed),
            "{file}, {name}: {found}, expected {expected}"
        );
    }
    let filtered = rows(ctx, &format!("SELECT count(value) FROM {table}")).await;
    let is_null = |value: &&Value| value.is_null() || value.as_str() == Some("nan");
    let values = expected.len() - expected.iter().filter(is_null).count();
    assert_eq!(filtered, [values.to_string()], "{file}, {name}");
}

#[tokio::test]
async fn values_are_those_of_the_netcdf_library() {
    for file in FILES {
        let expected = expected(file);
        for access in ACCESS {
            let options = ArrayOptions::new()
                .with_access(access)
                .with_decode_times(false);
            let ctx = open(&path(&format!("{file}.nc")), options).await;
            for (name, variable) in expected["variables"].as_object().unwrap() {
                check(&ctx, file, name, variable).await;
            }
        }
    }
}

#[tokio::test]
async fn characters_are_strings_or_stand_alone() {
    let expected = expected("texts");
    let ctx = open(&path("texts.nc"), ArrayOptions::new()).await;
    for (name, variable) in expected["variables"].as_object().unwrap() {
        check(&ctx, "texts", name, variable).await;
    }
    let sql = "SELECT station, value FROM f.name WHERE value LIKE 'K%' OR value = ''";
    assert_eq!(rows(&ctx, sql).await, ["1 ", "2 Köln"]);
    let sql = "SELECT value, count(*) FROM f.flag GROUP BY value ORDER BY value";
    assert_eq!(rows(&ctx, sql).await, ["  1", "1 4", "2 2", "3 1", "4 1"]);
}

#[test]
fn files_and_variables_have_attributes() {
    let file = NetcdfFile::open(path("types_cdf5.nc"), Access::Pread).unwrap();
    let attributes: Vec<_> = file.group_attributes("").unwrap().iter().collect();
    let pairs = [
        ("half", "0.5"),
        ("numbers", "[1,-2,3]"),
        ("title", "all types"),
    ];
    let pairs = pairs.map(|(name, text)| (name.to_string(), text.to_string()));
    assert_eq!(
        attributes,
        pairs.each_ref().map(|(name, text)| (name, text))
    );
    let dataset = file.dataset("uint64_records").unwrap();
    let metadata = file.metadata(dataset).unwrap();
    assert_eq!(metadata.attrs["kind"], "1");
    assert_eq!(
        metadata.attrs["list"],
        "[0,6148914691236517205,18446744073709551608]"
    );
    let file = NetcdfFile::open(path("scipy_1.nc"), Access::Pread).unwrap();
    assert_eq!(file.group_attributes("").unwrap()["history"], "François");
}

#[tokio::test]
async fn numbers_stay_packed_on_request() {
    let sql = |options: &str| {
        format!(
            "CREATE EXTERNAL TABLE packed STORED AS NETCDF LOCATION '{}' OPTIONS (dataset 'packed'{options})",
            path("missing.nc").display()
        )
    };
    for (options, expected) in [
        (
            "",
            ["Float64", "-2.75", "-2.5", "NULL", "-2.0", "-3.25", "22.0"],
        ),
        (
            ", unpack 'false'",
            ["Int16", "1", "2", "NULL", "4", "-1", "100"],
        ),
    ] {
        let ctx = session();
        ctx.sql(&sql(options)).await.unwrap();
        let mut found = rows(&ctx, "SELECT arrow_typeof(value) FROM packed LIMIT 1").await;
        found.extend(rows(&ctx, "SELECT value FROM packed").await);
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn cells_outside_of_the_valid_range_are_null_on_request() {
    for name in ["valid", "valid_min"] {
        let ctx = session();
        let create = format!(
            "CREATE EXTERNAL TABLE v STORED AS NETCDF LOCATION '{}' OPTIONS (dataset '{name}', valid_range 'mask')",
            path("missing.nc").display()
        );
        ctx.sql(&create).await.unwrap();
        let found = rows(&ctx, "SELECT value FROM v").await;
        assert_eq!(found, ["1", "2", "NULL", "4", "NULL", "NULL"], "{name}");
    }
}
