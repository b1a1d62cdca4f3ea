//! Queries on `.tatami` files, compared with the rows and predicates of the corpus.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Float32Array, Float64Array, PrimitiveArray,
    RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Int64Type, Schema, UInt64Type};
use datafusion::prelude::SessionContext;
use serde_json::Value;
use tet_sql::{ArrayOptions, ArraySessionExt};

use super::data::{from_base64, names, path};
use crate::support::sql::{error, rows, session};

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tatami")
}

/// Returns the names, without the extension, of the valid files that have a `*.rows.jsonl` file.
pub fn readable() -> Vec<String> {
    let names = names().into_iter();
    names
        .filter(|name| path(&format!("{name}.rows.jsonl")).exists())
        .collect()
}

pub async fn batch(ctx: &SessionContext, sql: &str) -> RecordBatch {
    let frame = ctx.sql(sql).await.unwrap();
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await.unwrap();
    concat_batches(&schema, &batches).unwrap()
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.clone().into_bytes()),
        Value::Object(object) => Some(from_base64(object["b64"].as_str().unwrap())),
        _ => None,
    }
}

fn float_bits(value: &Value) -> Option<u64> {
    let text = value.as_str()?;
    Some(u64::from_str_radix(&text[4..], 16).unwrap())
}

/// Returns the rows of a `*.rows.jsonl` file as a batch.
/// All NaN are the same, as in SQL.
fn expected(name: &str, schema: &Schema) -> RecordBatch {
    let text = std::fs::read_to_string(path(&format!("{name}.rows.jsonl"))).unwrap();
    let lines: Vec<Vec<Value>> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let columns = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(number, field)| -> ArrayRef {
            let values = lines.iter().map(|row| &row[number]);
            match field.data_type() {
                DataType::Boolean => Arc::new(values.map(Value::as_bool).collect::<BooleanArray>()),
                DataType::Float32 => {
                    let values = values.map(|value| {
                        Some(f32::from_bits(float_bits(value)? as u32))
                            .map(|f| if f.is_nan() { f32::NAN } else { f })
                    });
                    Arc::new(values.collect::<Float32Array>())
                }
                DataType::Float64 => {
                    let values = values.map(|value| {
                        Some(f64::from_bits(float_bits(value)?))
                            .map(|f| if f.is_nan() { f64::NAN } else { f })
                    });
                    Arc::new(values.collect::<Float64Array>())
                }
                DataType::Utf8View => {
                    let values =
                        values.map(|value| bytes(value).map(|b| String::from_utf8(b).unwrap()));
                    Arc::new(values.collect::<StringViewArray>())
                }
                DataType::BinaryView => Arc::new(values.map(bytes).collect::<BinaryViewArray>()),
                DataType::Timestamp(..) => Arc::new(
                    values
                        .map(Value::as_i64)
                        .collect::<TimestampMicrosecondArray>(),
                ),
                data_type if data_type.is_unsigned_integer() => {
                    let array: PrimitiveArray<UInt64Type> = values.map(Value::as_u64).collect();
                    cast(&array, data_type).unwrap()
                }
                data_type => {
                    let array: PrimitiveArray<Int64Type> = values.map(Value::as_i64).collect();
                    cast(&array, data_type).unwrap()
                }
            }
        });
    RecordBatch::try_new(Arc::new(schema.clone()), columns.collect()).unwrap()
}

#[tokio::test]
async fn rows_are_those_that_were_written() {
    let names = readable();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        let ctx = session();
        let path = path(&format!("{name}.tatami"));
        let path = path.display();
        // Some texts of this file are not valid UTF-8.
        let options = match name.as_str() {
            "strings_special" => "OPTIONS (text 'binary')",
            _ => "",
        };
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS TATAMI LOCATION '{path}' {options}");
        rows(&ctx, &sql).await;
        let found = batch(&ctx, "SELECT * FROM t").await;
        let expected = expected(&name, &found.schema());
        assert_eq!(found.num_rows(), expected.num_rows(), "{name}");
        for (number, field) in found.schema().fields().iter().enumerate() {
            assert_eq!(
                found.column(number),
                expected.column(number),
                "{name}, {field}"
            );
        }
        let count = rows(&ctx, "SELECT count(*) FROM t").await;
        assert_eq!(count, [format!("{}", expected.num_rows())], "{name}");
    }
}

#[tokio::test]
async fn predicates_have_the_listed_answers() {
    for name in ["bloom", "sorted_int_dups", "sorted_str", "zones"] {
        let ctx = session();
        let file = path(&format!("{name}.tatami"));
        ctx.register_array_file_as("f", &file, ArrayOptions::new())
            .await
            .unwrap();
        let list = std::fs::read(path(&format!("{name}.preds.json"))).unwrap();
        let list: Vec<Value> = serde_json::from_slice(&list).unwrap();
        assert!(!list.is_empty());
        for case in list {
            let predicate = case["where"].as_str().unwrap();
            let predicate = match predicate.strip_prefix("ts >= ") {
                Some(micros) => format!("ts >= to_timestamp_micros({micros})"),
                None => predicate.to_string(),
            };
            let sql = format!("SELECT count(*) FROM f.{name} WHERE {predicate}");
            let expected = case["rows"].to_string();
            assert_eq!(rows(&ctx, &sql).await, [expected], "{name}: {predicate}");
            let plan = rows(&ctx, &format!("EXPLAIN {sql}")).await.join("\n");
            if predicate.starts_with("x >") || predicate.starts_with("x =") {
                // Zones do not tell whether a float column has NaN, which is greater than all
                // numbers, so the upper bound is not used.
                continue;
            }
            // Without a scan, statistics have answered the query.
            let chunks = plan.split("chunks=").nth(1).unwrap_or("0 of 1");
            let mut numbers = chunks
                .split([' ', ','])
                .filter_map(|word| word.parse::<u64>().ok());
            let (read, all) = (numbers.next().unwrap(), numbers.next().unwrap());
            let number = |key: &str| case[key].as_u64().unwrap();
            assert!(
                read * number("groups_total") <= number("groups_scanned") * all,
                "{name}: {predicate} reads {read} of {all}\n{plan}"
            );
        }
    }
}

#[tokio::test]
async fn explain_names_what_prunes() {
    let ctx = session();
    for (name, predicate, expected) in [
        ("zones", "id < 250", "pruned_by_zone_map="),
        (
            "bloom",
            "url = 'https://example.org/628db3e1/0'",
            "pruned_by_bloom=",
        ),
        ("sorted_int_dups", "k = -500", "pruned_by_page_index="),
    ] {
        let path = path(&format!("{name}.tatami"));
        let sql = format!(
            "EXPLAIN SELECT * FROM '{}' WHERE {predicate}",
            path.display()
        );
        let plan = rows(&ctx, &sql).await.join("\n");
        assert!(plan.contains(expected), "{plan}");
    }
}

/// Zones do not show NaN, which is greater than all numbers, as everywhere in DataFusion.
#[tokio::test]
async fn zones_do_not_hide_nan() {
    let ctx = session();
    let path = folder().join("floats_special.tatami");
    ctx.register_array_file_as("f", &path, ArrayOptions::new())
        .await
        .unwrap();
    let all = batch(&ctx, "SELECT * FROM f.floats_special").await;
    ctx.register_batch("memory", all.clone()).unwrap();
    for field in all
        .schema()
        .fields()
        .iter()
        .filter(|field| field.data_type().is_floating())
    {
        for operator in ["<", "<=", "=", "<>", ">=", ">"] {
            for value in ["100", "5", "-5", "0.0", "-0.0", "'NaN'"] {
                let of = |table: &str| {
                    let column = field.name();
                    format!("SELECT count(*) FROM {table} WHERE {column} {operator} {value}")
                };
                let found = rows(&ctx, &of("f.floats_special")).await;
                assert_eq!(found, rows(&ctx, &of("memory")).await, "{}", of("f"));
            }
        }
    }
}

#[tokio::test]
async fn collections_and_patterns_are_one_table() {
    let ctx = session();
    let folder = folder().join("collection");
    let manifest = folder.join("tatami.manifest");
    let found = rows(
        &ctx,
        &format!("SELECT count(*) FROM '{}'", manifest.display()),
    )
    .await;
    // One of the four members was removed.
    assert_eq!(found, ["300"]);
    let pattern = folder.join("part-*.tatami");
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS TATAMI LOCATION '{}' OPTIONS (file_column 'true')",
        pattern.display()
    );
    rows(&ctx, &sql).await;
    let found = rows(&ctx, "SELECT count(*), count(DISTINCT file) FROM t").await;
    assert_eq!(found, ["400 4"]);
}

#[tokio::test]
async fn broken_pages_are_errors_with_a_place() {
    let ctx = session();
    let folder = folder();
    let mut bytes = std::fs::read(folder.join("groups_pages.tatami")).unwrap();
    // In the payload of the first page, after the headers of the file and of the page.
    bytes[64 + 32 + 3] ^= 1;
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("broken.tatami");
    std::fs::write(&path, bytes).unwrap();
    let text = error(&ctx, &format!("SELECT * FROM '{}'", path.display())).await;
    for part in ["broken.tatami", "row group 0", "page 0", "checksum"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn texts_that_are_not_utf8_are_errors_unless_an_option_says_otherwise() {
    let ctx = session();
    let path = folder().join("strings_special.tatami");
    let text = error(&ctx, &format!("SELECT * FROM '{}'", path.display())).await;
    assert!(text.contains("not valid UTF-8"), "{text}");
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS TATAMI LOCATION '{}' OPTIONS (text 'lossy')",
        path.display()
    );
    rows(&ctx, &sql).await;
    assert_eq!(rows(&ctx, "SELECT count(*) FROM t").await, ["12"]);
    assert_eq!(batch(&ctx, "SELECT * FROM t").await.num_rows(), 12);
}

#[tokio::test]
async fn filters_without_columns_are_applied() {
    let ctx = session();
    let path = folder().join("zones.tatami");
    let sql = format!("SELECT count(*) FROM '{}' WHERE 1 / 0 = 1", path.display());
    let text = error(&ctx, &sql).await;
    assert!(text.to_lowercase().contains("divide by zero"), "{text}");
}

#[tokio::test]
async fn a_column_is_nullable_if_it_is_in_any_file() {
    let ctx = session();
    let copies = tempfile::tempdir().unwrap();
    for (name, values) in [("a", "(1), (2)"), ("b", "(3), (NULL)")] {
        let path = copies.path().join(format!("{name}.tatami"));
        let sort = if name == "a" {
            "OPTIONS (sort_key 'n')"
        } else {
            ""
        };
        let sql = format!(
            "COPY (SELECT column1 AS n FROM (VALUES {values})) TO '{}' STORED AS TATAMI {sort}",
            path.display()
        );
        rows(&ctx, &sql).await;
    }
    let pattern = copies.path().join("*.tatami");
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS TATAMI LOCATION '{}'",
        pattern.display()
    );
    rows(&ctx, &sql).await;
    let found = rows(&ctx, "SELECT count(*) FROM t WHERE n IS NULL").await;
    assert_eq!(found, ["1"]);
    let found = rows(&ctx, "SELECT n FROM t WHERE n > 1 ORDER BY n").await;
    assert_eq!(found, ["2", "3"]);
}

#[tokio::test]
async fn nan_of_both_signs_is_greater_than_all_numbers() {
    let ctx = session();
    let copies = tempfile::tempdir().unwrap();
    let path = copies.path().join("nan.tatami");
    let sql = format!(
        "COPY (SELECT -CAST('NaN' AS DOUBLE) AS f UNION ALL SELECT 10.0) TO '{}' STORED AS TATAMI",
        path.display()
    );
    rows(&ctx, &sql).await;
    for (predicate, expected) in [("f < 5", "0"), ("f > 5", "2"), ("f > 100", "1")] {
        let sql = format!(
            "SELECT count(*) FROM '{}' WHERE {predicate}",
            path.display()
        );
        assert_eq!(rows(&ctx, &sql).await, [expected], "{predicate}");
    }
}
