//! Counts the fragments that this process adds to arrays, so that open tables notice new rows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of fragments added to each array, by the path of its directory without links.
static ADDITIONS: Mutex<Option<HashMap<PathBuf, u64>>> = Mutex::new(None);

/// Notes that a fragment was added to an array.
pub(in crate::provider) fn add(path: &Path) {
    let mut additions = lock();
    let counts = additions.get_or_insert_default();
    *counts.entry(key(path)).or_default() += 1;
}

/// Returns the number of fragments that this process has added to an array.
pub(super) fn count(path: &Path) -> u64 {
    match lock().as_ref() {
        // The path is resolved only if fragments were added to some array.
        Some(counts) => counts.get(&key(path)).copied().unwrap_or(0),
        None => 0,
    }
}

fn key(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn lock() -> MutexGuard<'static, Option<HashMap<PathBuf, u64>>> {
    // Counts are valid after any panic.
    ADDITIONS.lock().unwrap_or_else(PoisonError::into_inner)
}
