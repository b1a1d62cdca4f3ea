//! Paths and contents of the test data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::{ColumnType, ColumnValues, PageReader, Scalar, TatamiFile};

/// Returns the path of a file in the test data.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/tatami")
        .join(name)
}

/// Reads a JSON document.
pub fn document(name: &str) -> Value {
    let text = std::fs::read_to_string(path(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Reads one JSON value per line.
pub fn lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path(name)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the names, without the extension, of all valid files of the corpus that are not variants of
/// another.
pub fn names() -> Vec<String> {
    let index = document("INDEX.json");
    let files = index["files"].as_array().unwrap();
    let names = files
        .iter()
        .filter(|file| file["kind"] == "ok" && file.get("base").is_none());
    let names = names.map(|file| file["name"].as_str().unwrap().to_string());
    names.collect()
}

/// An open file, with the decoded values of all row groups and columns.
pub struct Table {
    pub file: Arc<TatamiFile>,
    pub groups: Vec<Vec<ColumnValues>>,
}

impl Table {
    pub fn open(name: &str) -> Self {
        let path = path(&format!("{name}.tatami"));
        Self::read(&path, Access::Mmap).unwrap()
    }

    pub fn read(path: &Path, access: Access) -> Result<Self, tet_sql::Error> {
        let file = Arc::new(TatamiFile::open(path, access)?);
        let mut reader = PageReader::new(&file);
        let mut groups = Vec::new();
        for group in 0..file.row_groups().len() {
            let mut columns = Vec::new();
            for column in 0..file.schema().fields.len() {
                let mut values = reader.buffers(column)?;
                for page in 0..file.pages(group, column)?.len() {
                    reader.read(group, column, page, None, &mut values)?;
                }
                columns.push(values);
            }
            groups.push(columns);
        }
        Ok(Self { file, groups })
    }

    /// Returns a row in the notation of the `*.rows.jsonl` files.
    pub fn row(&self, group: usize, row: usize) -> Value {
        self.groups[group]
            .iter()
            .map(|values| cell(values, row))
            .collect()
    }

    pub fn rows(&self) -> impl Iterator<Item = Value> + '_ {
        let groups = self.file.row_groups().iter().enumerate();
        groups.flat_map(move |(group, stored)| {
            (0..stored.rows as usize).map(move |row| self.row(group, row))
        })
    }
}

/// Returns a value in the notation of the `*.rows.jsonl` files.
pub fn cell(values: &ColumnValues, row: usize) -> Value {
    let column_type = values.column_type();
    let Some(bytes) = values.scalar(row) else {
        return Value::Null;
    };
    match Scalar::parse(column_type, &bytes).unwrap() {
        Scalar::Bool(value) => json!(value),
        Scalar::Int(value) => json!(value),
        Scalar::Uint(value) => json!(value),
        Scalar::Float32(value) => json!(format!("f32:{:08x}", value.to_bits())),
        Scalar::Float64(value) => json!(format!("f64:{:016x}", value.to_bits())),
        Scalar::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if column_type == ColumnType::String => json!(text),
            _ => json!({ "b64": base64(bytes) }),
        },
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            text.push(match digit <= chunk.len() {
                true => ALPHABET[(word >> (18 - 6 * digit) & 63) as usize] as char,
                false => '=',
            });
        }
    }
    text
}

/// Decodes standard base64.
pub fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for chunk in text.trim_end_matches('=').as_bytes().chunks(4) {
        let word = chunk
            .iter()
            .fold(0u32, |word, byte| word << 6 | u32::from(digit(*byte)));
        let word = (word << (6 * (4 - chunk.len()))).to_be_bytes();
        bytes.extend_from_slice(&word[1..chunk.len()]);
    }
    bytes
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A generator of pseudorandom numbers with a fixed seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end.max(1)
    }
}
