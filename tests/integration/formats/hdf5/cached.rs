//! The setting `tet.cache_dir`. Files whose chunk indexes are destroyed can only be read with the chunk
//! tables of the cache.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use datafusion::prelude::SessionContext;
use tet_sql::{ArrayOptions, ArraySessionExt};

use super::stored::path;
use crate::support::sql::{error, rows, session};

/// The signatures of chunk indexes: trees of both versions with their types, and arrays.
const INDEXES: [&[u8]; 5] = [b"TREE\x01", b"FAHD", b"EAHD", b"BTHD\0\x0a", b"BTHD\0\x0b"];

/// The numbers of bytes at the start and at the end of a file that identify it.
const FIRST: usize = 4 << 10;
const LAST: usize = 64 << 10;

/// Changes a file, which keeps its length and the time of its last change.
fn change(path: &Path, changed: impl FnOnce(&mut [u8])) {
    let time = path.metadata().unwrap().modified().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    changed(&mut bytes);
    std::fs::write(path, bytes).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

/// Overwrites the chunk indexes between the bytes that identify a file.
fn destroy_indexes(bytes: &mut [u8]) {
    let mut found = 0;
    for start in FIRST..bytes.len() - LAST {
        if INDEXES
            .iter()
            .any(|index| bytes[start..].starts_with(index))
        {
            bytes[start..start + 4].copy_from_slice(b"XXXX");
            found += 1;
        }
    }
    assert!(found > 0);
}

/// Copies a file, with a time of its last change of an hour ago, and some bytes at the end that belong to
/// no object.
fn copied(name: &str, directory: &Path) -> PathBuf {
    let copy = directory.join(name);
    let bytes = [std::fs::read(path(name)).unwrap(), vec![0; LAST]].concat();
    std::fs::write(&copy, bytes).unwrap();
    let file = File::options().write(true).open(&copy).unwrap();
    let time = SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(time).unwrap();
    copy
}

async fn session_with_cache(cache: &Path) -> SessionContext {
    let ctx = session();
    let set = format!("SET tet.cache_dir = '{}'", cache.display());
    ctx.sql(&set).await.unwrap();
    ctx
}

fn entries(cache: &Path) -> Vec<PathBuf> {
    let directories = cache.read_dir().into_iter().flatten();
    let files = directories.flat_map(|directory| directory.unwrap().path().read_dir().unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

#[tokio::test]
async fn chunk_indexes_are_not_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    for (name, dataset) in [
        ("filters.h5", "fletcher32"),
        ("netcdf.nc", "packed"),
        ("layouts_latest.h5", "below_its_maximum"),
        ("layouts_latest.h5", "unlimited"),
        ("layouts_latest.h5", "unlimited_twice"),
    ] {
        let file = copied(name, directory.path());
        let sql = format!("SELECT * FROM '{}#{dataset}' LIMIT 1000", file.display());
        let expected = rows(&session(), &sql).await;
        assert_eq!(entries(&cache).len(), 0, "{name}");
        assert_eq!(
            rows(&session_with_cache(&cache).await, &sql).await,
            expected
        );
        assert!(!entries(&cache).is_empty(), "{name}");
        change(&file, destroy_indexes);
        let ctx = session_with_cache(&cache).await;
        assert_eq!(rows(&ctx, &sql).await, expected, "{name}");
        let message = error(&session(), &sql).await;
        assert!(message.contains("chunk index"), "{name}: {message}");
        // A damaged entry is ignored: the index is read, which fails here.
        for entry in entries(&cache) {
            let mut bytes = std::fs::read(&entry).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(&entry, bytes).unwrap();
        }
        error(&session_with_cache(&cache).await, &sql).await;
        std::fs::remove_dir_all(&cache).unwrap();
    }
}

#[tokio::test]
async fn entries_of_changed_files_are_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    let file = copied("netcdf.nc", directory.path());
    let sql = format!("SELECT avg(value) FROM '{}#packed'", file.display());
    let ctx = session_with_cache(&cache).await;
    let expected = rows(&ctx, &sql).await;
    let before = entries(&cache).len();
    assert!(before > 0);
    // The same file with another time.
    let time = SystemTime::now() - Duration::from_secs(1800);
    let handle = File::options().write(true).open(&file).unwrap();
    handle.set_modified(time).unwrap();
    assert_eq!(rows(&ctx, &sql).await, expected);
    assert_eq!(entries(&cache).len(), 2 * before);
    // The same length and time, with other bytes.
    change(&file, |bytes| *bytes.last_mut().unwrap() = 1);
    let ctx = session_with_cache(&cache).await;
    assert_eq!(rows(&ctx, &sql).await, expected);
    assert_eq!(entries(&cache).len(), 3 * before);
    // A file that was changed just now may change again within the accuracy of the time.
    handle.set_modified(SystemTime::now()).unwrap();
    assert_eq!(rows(&ctx, &sql).await, expected);
    assert_eq!(entries(&cache).len(), 3 * before);
    // The directory is bounded.
    ctx.sql("SET tet.cache_size = 0").await.unwrap();
    handle.set_modified(time - Duration::from_secs(1)).unwrap();
    assert_eq!(rows(&ctx, &sql).await, expected);
    assert_eq!(entries(&cache).len(), 3 * before);
    let message = error(&ctx, "SET tet.cache_size = 'much'").await;
    assert!(
        message.contains("tet.cache_size") || message.contains("much"),
        "{message}"
    );
}

#[tokio::test]
async fn tables_of_a_file_that_changes_while_it_is_read_are_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    let file = copied("netcdf.nc", directory.path());
    let ctx = session_with_cache(&cache).await;
    ctx.register_array_file_as("f", &file, ArrayOptions::new())
        .await
        .unwrap();
    let time = SystemTime::now() - Duration::from_secs(60);
    let handle = File::options().write(true).open(&file).unwrap();
    handle.set_modified(time).unwrap();
    rows(&ctx, "SELECT avg(value) FROM f.packed").await;
    assert_eq!(entries(&cache), [] as [PathBuf; 0]);
}
