//! Arrays that must be refused, with the reason in the message.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tet_sql::Error;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tiledb::{EncryptionKey, OpenOptions, TileDbArray, TileDbGroup};

use super::arrays::LATE;
use super::{arrays, key, rows};

pub fn options(key: Option<EncryptionKey>) -> OpenOptions {
    OpenOptions {
        timestamp_end: Some(LATE),
        key,
        ..OpenOptions::default()
    }
}

fn read(path: &Path, key: Option<EncryptionKey>) -> Result<usize, Error> {
    let array = TileDbArray::open(path, &options(key), Access::Mmap)?;
    Ok(rows::read(&Arc::new(array), false)?.rows.len())
}

fn refusal(name: &str, key: Option<EncryptionKey>) -> String {
    read(&arrays().join(name), key).unwrap_err().to_string()
}

/// Copies a directory, as the tests change the copy.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => std::fs::write(&to, std::fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}

/// Returns all files below a directory, in order.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

fn assert_contains(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn changed_bytes_are_refused() {
    assert_contains(
        &refusal("corrupt_md5", None),
        &["a0.tdb, field \"a\", tile ", "MD5 checksum is different"],
    );
    assert_contains(
        &refusal("corrupt_sha256", None),
        &["a0.tdb", "SHA-256 checksum is different"],
    );
    assert_contains(
        &refusal("corrupt_aes_tag", Some(key())),
        &["encrypted part is not authentic, expected encrypted with this key"],
    );
    assert_contains(
        &refusal("corrupt_truncated", None),
        &["a0.tdb", "file length is ", "expected bytes from "],
    );
}

#[test]
fn keys_are_checked_and_hidden() {
    let wrong = EncryptionKey::new(&[b'F'; 32]).unwrap();
    assert_contains(
        &refusal("encrypted_wrong_key", Some(wrong.clone())),
        &["__schema", "encrypted part is not authentic"],
    );
    let missing = "encryption key is missing, expected a key of 32 bytes";
    assert_contains(&refusal("encrypted_dense", None), &["__schema", missing]);
    assert!(EncryptionKey::new(b"short").is_none());
    let shown = format!("{:?} {:?}", key(), options(Some(wrong)));
    assert!(
        !shown.contains("012345") && !shown.contains("70"),
        "{shown}"
    );
}

#[test]
fn other_directories_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let message = read(folder.path(), None).unwrap_err().to_string();
    assert_contains(
        &message,
        &["path is no TileDB array, expected a directory with __schema"],
    );
    let message = TileDbGroup::open(folder.path(), &options(None)).unwrap_err();
    assert_contains(&message.to_string(), &["path is no TileDB group"]);
    std::fs::write(folder.path().join("__array_schema.tdb"), b"").unwrap();
    assert!(TileDbArray::recognises(folder.path()));
    let message = read(folder.path(), None).unwrap_err().to_string();
    assert_contains(
        &message,
        &["format version is less than 10, expected 10 to 23"],
    );
}

#[test]
fn old_fragments_and_lost_fragments_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    copy(&arrays().join("dense_1d"), folder.path());
    let commits = folder.path().join("__commits");
    for (name, parts) in [
        (
            "__5_5_0123456789abcdef0123456789abcdef_9.wrt",
            &["fragment name is", "a format version of at least 10"][..],
        ),
        (
            "__5_5_0123456789abcdef0123456789abcdef_22.wrt",
            &["__fragments", "cannot open"],
        ),
        ("__0123456789abcdef_5.wrt", &["fragment name is"]),
    ] {
        let path = commits.join(name);
        std::fs::write(&path, b"").unwrap();
        let message = read(folder.path(), None).unwrap_err().to_string();
        assert_contains(&message, parts);
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(read(folder.path(), None).unwrap(), 23);
}

/// Wraps bytes in a generic tile without filters.
pub fn generic(payload: &[u8]) -> Vec<u8> {
    let mut tile = 22u32.to_le_bytes().to_vec();
    tile.extend((8 + 12 + payload.len() as u64).to_le_bytes());
    tile.extend((payload.len() as u64).to_le_bytes());
    tile.push(4);
    tile.extend(1u64.to_le_bytes());
    tile.push(0);
    tile.extend(8u32.to_le_bytes());
    tile.extend(65536u32.to_le_bytes());
    tile.extend(0u32.to_le_bytes());
    tile.extend(1u64.to_le_bytes());
    for length in [payload.len() as u32, payload.len() as u32, 0] {
        tile.extend(length.to_le_bytes());
    }
    tile.extend(payload);
    tile
}

/// Returns the payload of a generic tile that is compressed with zlib, and the length of the tile.
pub fn payload(tile: &[u8]) -> (Vec<u8>, usize) {
    use std::io::Read;
    let u32_at = |at: usize| u32::from_le_bytes(tile[at..at + 4].try_into().unwrap()) as usize;
    let (pipeline, persisted) = (u32_at(30), u32_at(4));
    let mut at = 34 + pipeline + 8;
    let mut payload = Vec::new();
    for _ in 0..u32_at(34 + pipeline) {
        let (filtered, metadata) = (u32_at(at + 4), u32_at(at + 8));
        let data = &tile[at + 12 + metadata..at + 12 + metadata + filtered];
        let mut stream = flate2::read::ZlibDecoder::new(data);
        stream.read_to_end(&mut payload).unwrap();
        at += 12 + metadata + filtered;
    }
    (payload, 34 + pipeline + persisted)
}

/// Replaces the schema of a copy of an array.
fn with_schema(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Result<usize, Error> {
    let folder = tempfile::tempdir().unwrap();
    copy(&arrays().join(name), folder.path());
    let schema = files(&folder.path().join("__schema")).remove(0);
    let (mut bytes, _) = payload(&std::fs::read(&schema).unwrap());
    change(&mut bytes);
    std::fs::write(&schema, generic(&bytes)).unwrap();
    read(folder.path(), None)
}

/// Returns the position of a filter with its option length.
fn filter(bytes: &[u8], id: u8, options: u32) -> usize {
    let mut pattern = vec![id];
    pattern.extend(options.to_le_bytes());
    let position = bytes.windows(5).rposition(|window| window == pattern);
    position.unwrap()
}

#[test]
fn unsupported_versions_and_filters_are_named() {
    assert_eq!(with_schema("filter_byteshuffle", |_| {}).unwrap(), 300);
    for version in [9u32, 24, 22 | 1 << 31] {
        let changed = with_schema("filter_byteshuffle", |bytes| {
            bytes[..4].copy_from_slice(&version.to_le_bytes());
        });
        let expected = format!("schema version is {version}, expected 10 to 23");
        assert_contains(&changed.unwrap_err().to_string(), &["__schema", &expected]);
    }
    let message = with_schema("filter_byteshuffle", |bytes| {
        let position = filter(bytes, 9, 0);
        bytes[position] = 18;
    });
    let found = "filter is webp on INT32 as number 1";
    let expected = "expected a filter that can be decoded";
    assert_contains(
        &message.unwrap_err().to_string(),
        &["field \"a\"", found, expected],
    );
    let message = with_schema("filter_byteshuffle", |bytes| {
        let position = filter(bytes, 9, 0);
        bytes[position] = 17;
    });
    let message = message.unwrap_err().to_string();
    assert_contains(&message, &["filter id is 17, expected 0 to 16, 18 or 19"]);
}
