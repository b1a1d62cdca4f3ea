//! Every array with every expected answer.

use std::sync::Arc;

use serde_json::Value;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tiledb::{EncryptionKey, OpenOptions, TileDbArray};

use super::{arrays, expected, rows};

/// A time after all writes, which keeps tests independent of the clock.
pub const LATE: u64 = 4_102_444_800_000;

fn options(description: &Value, timestamp: &Value) -> OpenOptions {
    OpenOptions {
        timestamp_start: timestamp[0].as_u64().unwrap_or(0),
        timestamp_end: Some(timestamp[1].as_u64().unwrap_or(LATE)),
        key: description["key"]
            .as_str()
            .map(|key| EncryptionKey::new(key.as_bytes()).unwrap()),
    }
}

/// Compares an array with one dump; returns the difference.
fn compare(name: &str, description: &Value, dump: &Value, access: Access) -> Result<usize, String> {
    let path = arrays().join(name);
    let options = options(description, &dump["timestamp"]);
    let array = TileDbArray::open(&path, &options, access).map_err(|error| error.to_string())?;
    if dump["timestamp"].is_null() && description["fragments"].is_u64() {
        let found = Some(array.fragments().len() as u64);
        if description["fragments"].as_u64() != found {
            return Err(format!(
                "{found:?} fragments instead of {}",
                description["fragments"]
            ));
        }
    }
    let footers = array.sparse_cells();
    if footers.is_some_and(|cells| Some(cells) != dump["rows"].as_u64()) {
        return Err(format!("{footers:?} cells in footers"));
    }
    let is_written_only = description["window"] == true;
    let table = rows::read(&Arc::new(array), is_written_only).map_err(|error| error.to_string())?;
    let columns = dump["columns"].as_object().unwrap();
    let mut found: Vec<String> = Vec::new();
    let order: Vec<usize> = columns
        .keys()
        .map(|column| table.columns.iter().position(|name| name == column))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("columns {:?} instead of {columns:?}", table.columns))?;
    for row in &table.rows {
        let row: Vec<&Value> = order.iter().map(|column| &row[*column]).collect();
        found.push(serde_json::to_string(&row).unwrap());
    }
    let count = dump["rows"].as_u64().unwrap() as usize;
    let mut wanted = Vec::new();
    for row in 0..count {
        let row: Vec<&Value> = columns.values().map(|column| &column[row]).collect();
        wanted.push(serde_json::to_string(&row).unwrap());
    }
    found.sort();
    wanted.sort();
    if table.columns.len() != columns.len() {
        return Err(format!("columns {:?}", table.columns));
    }
    if found == wanted {
        return Ok(found.len());
    }
    let first = found.iter().zip(&wanted).find(|(a, b)| a != b);
    Err(format!(
        "{} rows instead of {}; first difference {first:?}",
        found.len(),
        wanted.len()
    ))
}

#[test]
fn every_array_has_the_expected_rows() {
    let (mut failures, mut dumps, mut rows) = (Vec::new(), 0, 0);
    for (name, description) in &expected() {
        if !arrays().join(name).is_dir() {
            failures.push(format!("{name}: missing"));
        }
        for dump in description["dumps"].as_array().unwrap() {
            for access in [Access::Mmap, Access::Pread] {
                dumps += 1;
                match compare(name, description, dump, access) {
                    Ok(count) => rows += count,
                    Err(error) => {
                        failures.push(format!("{name} at {}: {error}", dump["timestamp"]))
                    }
                }
            }
        }
    }
    println!("{dumps} dumps with {rows} rows");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(rows > 0, "{dumps} dumps with {rows} rows");
}
