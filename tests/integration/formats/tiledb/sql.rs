//! Queries on arrays of the collection, compared with the rows that TileDB-Py reads.

use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type, UInt64Type};
use chrono::{Months, NaiveDate};
use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};
use tet_sql::format::io::storage::Access;
use tet_sql::format::tiledb::{CellValues, Datatype, EncryptionKey, OpenOptions, TileDbArray};

use super::arrays::LATE;
use super::{KEY, arrays, expected, sql_tables};
use crate::support::sql::{error, rows, session};

/// Returns the rows of a query as one batch.
async fn batch(ctx: &SessionContext, sql: &str) -> RecordBatch {
    let frame = ctx.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let schema = std::sync::Arc::new(frame.schema().as_arrow().clone());
    let batches = frame
        .collect()
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    concat_batches(&schema, &batches).unwrap()
}

/// Creates the table `t` over an array, as of the window of time of a dump. `more` are options.
async fn create(
    ctx: &SessionContext,
    folder: &Path,
    name: &str,
    description: &Value,
    dump: &Value,
    more: &str,
) {
    let start = dump["timestamp"][0].as_u64().unwrap_or(0);
    let end = dump["timestamp"][1].as_u64().unwrap_or(LATE);
    let mut options = format!("timestamp '{end}', timestamp_start '{start}'{more}");
    if description["key"].is_string() {
        let file = folder.join("key");
        std::fs::write(&file, KEY).unwrap();
        options = format!("{options}, key_file '{}'", file.display());
    }
    if description["window"] == true {
        options = format!("{options}, extent 'written'");
    }
    sql_tables::create(ctx, &arrays().join(name), &options).await;
}

/// The stored type of a column.
struct Stored {
    datatype: Datatype,
    cell_values: CellValues,
    /// The fill value of a dense attribute that is not nullable, which stands for null.
    fill: Option<Vec<u8>>,
}

/// Returns the stored types of all columns of an array.
fn stored(name: &str, description: &Value, dump: &Value) -> Vec<(String, Stored)> {
    let options = OpenOptions {
        timestamp_start: dump["timestamp"][0].as_u64().unwrap_or(0),
        timestamp_end: Some(dump["timestamp"][1].as_u64().unwrap_or(LATE)),
        key: description["key"]
            .as_str()
            .and_then(|key| EncryptionKey::new(key.as_bytes())),
    };
    let array = TileDbArray::open(arrays().join(name), &options, Access::Mmap).unwrap();
    let schema = array.schema();
    let dimensions = schema.dimensions.iter().map(|dimension| {
        let stored = Stored {
            datatype: dimension.datatype,
            cell_values: dimension.cell_values,
            fill: None,
        };
        (dimension.name.clone(), stored)
    });
    let attributes = schema
        .attributes
        .iter()
        .enumerate()
        .map(|(index, attribute)| {
            let name = match attribute.name.as_str() {
                "" => "__attr",
                name => name,
            };
            let enumeration = array.enumeration(index).unwrap();
            let is_filled = !schema.is_sparse && !attribute.is_nullable && enumeration.is_none();
            let stored = match &enumeration {
                Some(enumeration) => Stored {
                    datatype: enumeration.datatype,
                    cell_values: enumeration.cell_values,
                    fill: None,
                },
                None => Stored {
                    datatype: attribute.datatype,
                    cell_values: attribute.cell_values,
                    fill: (is_filled && attribute.datatype != Datatype::Bool)
                        .then(|| attribute.fill.clone()),
                },
            };
            (name.to_string(), stored)
        });
    dimensions.chain(attributes).collect()
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x{digits}")
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0);
    &bytes[..end.map_or(0, |end| end + 1)]
}

/// Returns a value of a query in the form of the expected answers.
fn found(array: &ArrayRef, row: usize, stored: &Stored) -> Value {
    // Only this value is cast.
    let (array, row) = (&array.slice(row, 1), 0);
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Dictionary(..) => {
            let data_type = array.as_any_dictionary().values().data_type();
            let values = cast(array, data_type).unwrap();
            found(&values, row, stored)
        }
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Float32 => match array.as_primitive::<Float32Type>().value(row) {
            value if value.is_nan() => json!("nan"),
            value => json!(format!("{:08x}", value.to_bits())),
        },
        DataType::Float64 => match array.as_primitive::<Float64Type>().value(row) {
            value if value.is_nan() => json!("nan"),
            value => json!(format!("{:016x}", value.to_bits())),
        },
        DataType::Utf8 => {
            let text = array.as_string::<i32>().value(row);
            json!(text.trim_end_matches('\0'))
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().value(row);
            let is_char = stored.datatype == Datatype::Char && stored.cell_values.is_variable();
            json!(hex(if is_char { trimmed(bytes) } else { bytes }))
        }
        DataType::List(_) | DataType::FixedSizeList(..) => {
            let list = match array.data_type() {
                DataType::List(_) => array.as_list::<i32>().value(row),
                _ => array.as_fixed_size_list().value(row),
            };
            (0..list.len())
                .map(|item| found(&list, item, stored))
                .collect()
        }
        DataType::Date32 => {
            let days = cast(&cast(array, &DataType::Int32).unwrap(), &DataType::Int64).unwrap();
            json!(days.as_primitive::<Int64Type>().value(row))
        }
        DataType::UInt64 => json!(array.as_primitive::<UInt64Type>().value(row)),
        _ => {
            let numbers = cast(array, &DataType::Int64).unwrap();
            json!(numbers.as_primitive::<Int64Type>().value(row))
        }
    }
}

/// Returns an expected value as the table shows it: times in the unit of the SQL type, and a time that
/// is missing as null.
fn shown(value: &Value, stored: &Stored) -> Value {
    let datatype = stored.datatype;
    if let Value::Array(items) = value {
        return items.iter().map(|item| shown(item, stored)).collect();
    }
    let ticks = match value.as_i64() {
        Some(ticks) if datatype.is_datetime() || datatype.is_time() => ticks,
        _ => return value.clone(),
    };
    if ticks == i64::MIN {
        return Value::Null;
    }
    let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
    let after = |months: i64| {
        let step = Months::new(months.unsigned_abs() as u32);
        let date = match months < 0 {
            true => epoch.checked_sub_months(step),
            false => epoch.checked_add_months(step),
        };
        (date.unwrap() - epoch).num_days()
    };
    json!(match datatype {
        Datatype::DatetimeYear => after(12 * ticks),
        Datatype::DatetimeMonth => after(ticks),
        Datatype::DatetimeWeek => 7 * ticks,
        Datatype::DatetimeHour | Datatype::TimeHour => 3600 * ticks,
        Datatype::DatetimeMinute | Datatype::TimeMinute => 60 * ticks,
        _ => ticks,
    })
}

/// Returns the value that a fill value has in the expected answers.
fn fill_value(stored: &Stored) -> Option<Value> {
    let fill = stored.fill.as_ref()?;
    let scalar = |bytes: &[u8]| super::rows::scalar(stored.datatype, bytes);
    Some(match stored.datatype {
        Datatype::StringAscii | Datatype::StringUtf8 => {
            json!(String::from_utf8_lossy(trimmed(fill)))
        }
        Datatype::Char if stored.cell_values.is_variable() => json!(hex(trimmed(fill))),
        Datatype::Char | Datatype::Blob | Datatype::GeometryWkb | Datatype::GeometryWkt => {
            json!(hex(fill))
        }
        _ if stored.cell_values == CellValues::Fixed(1) => scalar(fill),
        _ => fill
            .chunks_exact(stored.datatype.size())
            .map(scalar)
            .collect(),
    })
}

/// Compares the table `t` with a dump. If `has_nulls`, fill values and NaN are null.
fn compare(
    found_rows: &RecordBatch,
    types: &[(String, Stored)],
    dump: &Value,
    has_nulls: bool,
) -> Result<(), String> {
    let names: Vec<_> = types.iter().map(|(name, _)| name.as_str()).collect();
    let schema = found_rows.schema();
    let columns: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    // Labels of dimensions are the last columns.
    if !columns.starts_with(&names) {
        return Err(format!("columns {columns:?} instead of {names:?}"));
    }
    let row_texts = |value: &dyn Fn(usize, usize) -> Value, count: usize| {
        let mut texts: Vec<String> = (0..count)
            .map(|row| {
                let row: Vec<Value> = (0..types.len()).map(|column| value(row, column)).collect();
                serde_json::to_string(&row).unwrap()
            })
            .collect();
        texts.sort();
        texts
    };
    let fills: Vec<_> = types.iter().map(|(_, stored)| fill_value(stored)).collect();
    // In the expected answers, a text that was never written is an empty text, and a missing integer is
    // the fill value.
    let is_value = |stored: &Stored| {
        let is_byte = matches!(stored.datatype, Datatype::Int8 | Datatype::Uint8);
        let is_byte = is_byte && stored.cell_values == CellValues::Fixed(1);
        stored.fill.is_some() && (is_byte || stored.cell_values.is_variable())
    };
    let found = row_texts(
        &|row, column| {
            let stored = &types[column].1;
            match found(found_rows.column(column), row, stored) {
                Value::Null if is_value(stored) => fills[column].clone().unwrap(),
                value => value,
            }
        },
        found_rows.num_rows(),
    );
    let wanted = row_texts(
        &|row, column| {
            let (name, stored) = &types[column];
            let value = &dump["columns"][name.as_str()][row];
            let is_attribute = column >= dump["dimensions"].as_u64().unwrap() as usize;
            let is_single = stored.cell_values == CellValues::Fixed(1);
            let is_nan = is_single && is_attribute && *value == json!("nan");
            let is_fill = fills[column].as_ref() == Some(value) && !is_value(stored);
            match has_nulls && (is_nan || is_fill) {
                true => Value::Null,
                false => shown(value, stored),
            }
        },
        dump["rows"].as_u64().unwrap() as usize,
    );
    if found == wanted {
        return Ok(());
    }
    let first = found.iter().zip(&wanted).find(|(a, b)| a != b);
    let counts = (found.len(), wanted.len());
    Err(format!(
        "{counts:?} rows found and expected; first difference {first:?}"
    ))
}

#[tokio::test]
async fn every_array_has_the_expected_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (mut failures, mut dumps) = (Vec::new(), 0);
    let ctx = session();
    for (name, description) in &expected() {
        for (number, dump) in description["dumps"].as_array().unwrap().iter().enumerate() {
            let types = stored(name, description, dump);
            let mut dump = dump.clone();
            dump["dimensions"] = json!(description["dimensions"].as_array().unwrap().len());
            for (has_nulls, more) in [
                (false, ", nan_as_null 'false', fill_as_null 'false'"),
                (true, ""),
            ] {
                if has_nulls && number > 0 {
                    continue;
                }
                dumps += 1;
                create(&ctx, folder.path(), name, description, &dump, more).await;
                let all = batch(&ctx, "SELECT * FROM t").await;
                if let Err(difference) = compare(&all, &types, &dump, has_nulls) {
                    let time = &dump["timestamp"];
                    failures.push(format!("{name} at {time}, {has_nulls}: {difference}"));
                }
                let count = rows(&ctx, "SELECT count(*) FROM t").await;
                if count != [dump["rows"].to_string()] {
                    failures.push(format!("{name}: count(*) is {count:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(dumps > 400, "{dumps}");
}

/// Some values of a column, as SQL literals.
fn literals(column: &ArrayRef) -> Vec<String> {
    let step = (column.len() / 2).max(1);
    let values = (0..column.len()).step_by(step).skip(1).filter_map(|row| {
        let value = ScalarValue::try_from_array(column, row).unwrap();
        match value {
            value if value.is_null() => None,
            ScalarValue::Utf8(Some(text)) if text.contains('\0') => None,
            ScalarValue::Dictionary(_, value) => Some(format!("'{value}'")),
            ScalarValue::Utf8(Some(text)) => Some(format!("'{}'", text.replace('\'', "''"))),
            ScalarValue::Boolean(Some(value)) => Some(value.to_string()),
            value if value.data_type().is_numeric() => {
                Some(format!("arrow_cast('{value}', '{}')", value.data_type()))
            }
            value if value.data_type().is_temporal() => {
                let number = value.cast_to(&DataType::Int64);
                let number = number.or_else(|_| value.cast_to(&DataType::Int32)).ok()?;
                let stored = match value.data_type() {
                    DataType::Date32 => format!("CAST({number} AS INT)"),
                    _ => number.to_string(),
                };
                Some(format!("arrow_cast({stored}, '{}')", value.data_type()))
            }
            _ => None,
        }
    });
    values.collect()
}

/// Compares predicates on every column of every array, and aggregates of them, with the same over the
/// rows in memory.
#[tokio::test]
async fn predicates_and_aggregates_are_those_of_rows_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let ctx = session();
    let (mut compared, mut failures) = (0, Vec::new());
    for (name, description) in &expected() {
        let Some(dump) = description["dumps"].as_array().unwrap().first() else {
            continue;
        };
        // These arrays differ in the bytes of tiles only.
        if ["filter", "multichunk", "strings", "dense_default"]
            .iter()
            .any(|start| name.starts_with(start))
        {
            continue;
        }
        create(&ctx, folder.path(), name, description, dump, "").await;
        let all = batch(&ctx, "SELECT * FROM t").await;
        ctx.deregister_table("memory").unwrap();
        ctx.register_batch("memory", all.clone()).unwrap();
        let mut queries = Vec::new();
        for (number, field) in all.schema().fields().iter().enumerate() {
            let column = format!("\"{}\"", field.name());
            for literal in literals(all.column(number)) {
                for operator in ["<", "=", ">="] {
                    queries.push(format!(
                        "SELECT count(*), count({column}) FROM $ WHERE {column} {operator} {literal}"
                    ));
                }
                queries.push(format!(
                    "SELECT * FROM $ WHERE {column} IN ({literal}) OR {column} IS NULL"
                ));
            }
            queries.push(format!("SELECT count({column}) FROM $"));
            if !field.data_type().is_nested() {
                queries.push(format!("SELECT min({column}), max({column}) FROM $"));
            }
            let is_duration = matches!(field.data_type(), DataType::Duration(_));
            if field.data_type().is_integer() && !is_duration {
                queries.push(format!("SELECT sum({column}) FROM $"));
            }
        }
        for query in queries {
            let of = async |table: &str| {
                let sql = query.replace('$', table);
                match ctx.sql(&sql).await {
                    Ok(frame) => match frame.collect().await {
                        Ok(batches) => {
                            let mut rows = crate::support::sql::texts(&batches);
                            rows.sort();
                            rows.join("\n")
                        }
                        Err(error) => format!("error {}", error.strip_backtrace()),
                    },
                    Err(error) => format!("error {}", error.strip_backtrace()),
                }
            };
            let (found, wanted) = (of("t").await, of("memory").await);
            let are_errors = found.starts_with("error") && wanted.starts_with("error");
            compared += usize::from(!are_errors);
            if found != wanted && !are_errors {
                let cut = |text: String| text.chars().take(300).collect::<String>();
                failures.push(format!(
                    "{name}: {query}: {} and {}",
                    cut(found),
                    cut(wanted)
                ));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures[..failures.len().min(40)].join("\n")
    );
    assert!(compared > 1000, "{compared}");
}

#[tokio::test]
async fn arrays_that_cannot_be_read_are_errors_with_a_place() {
    let ctx = session();
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, KEY).unwrap();
    for (name, options, parts) in [
        ("corrupt_md5", String::new(), ["a0.tdb", "MD5 checksum"]),
        (
            "corrupt_truncated",
            String::new(),
            ["a0.tdb", "file length"],
        ),
        (
            "encrypted_dense",
            String::new(),
            ["encryption key", "missing"],
        ),
        (
            "corrupt_aes_tag",
            format!("OPTIONS (key_file '{}')", key.display()),
            ["a0.tdb", "not authentic"],
        ),
    ] {
        let path = arrays().join(name);
        let sql = format!(
            "CREATE EXTERNAL TABLE {name} STORED AS TILEDB LOCATION '{}' {options}",
            path.display()
        );
        let text = match ctx.sql(&sql).await {
            Err(error) => error.to_string(),
            Ok(_) => error(&ctx, &format!("SELECT * FROM {name}")).await,
        };
        for part in parts {
            assert!(text.contains(part), "{name}: {text}");
        }
        assert!(!text.contains("0123456789abcdeF"), "{text}");
    }
}
