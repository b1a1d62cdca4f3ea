//! TileDB arrays and groups that TileDB-Py wrote, with the rows that TileDB-Py reads from them; and
//! arrays that this crate writes.

mod arrays;
mod contents;
mod exercise;
mod mutations;
mod random;
pub mod refusals;
pub mod rows;
mod sql;
mod sql_labels;
mod sql_nulls;
mod sql_tables;
mod writing;

use std::path::PathBuf;

use serde_json::Value;
use tet_sql::format::tiledb::EncryptionKey;

/// The key of encrypted arrays.
pub const KEY: &[u8] = b"0123456789abcdeF0123456789abcdeF";

/// Returns the directory of the arrays and of the expected answers: of this repository, or of another
/// collection that the environment names.
fn data() -> PathBuf {
    match std::env::var_os("TILEDB_COLLECTION") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiledb")),
    }
}

/// Returns the directory of the arrays.
pub fn arrays() -> PathBuf {
    data().join("arrays")
}

/// Returns the expected answers by array.
pub fn expected() -> serde_json::Map<String, Value> {
    let stored = std::fs::read(data().join("expected.json.zst")).unwrap();
    let json = zstd::stream::decode_all(stored.as_slice()).unwrap();
    match serde_json::from_slice(&json).unwrap() {
        Value::Object(arrays) => arrays,
        other => panic!("{other}"),
    }
}

/// Returns the key of [`KEY`].
pub fn key() -> EncryptionKey {
    EncryptionKey::new(KEY).unwrap()
}
