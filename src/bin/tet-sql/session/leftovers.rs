//! Removes the temporary directories of processes that were killed.
//!
//! Each temporary directory contains a file that its process keeps locked. The operating system
//! releases the lock however the process ends, so a directory whose file can be locked is no longer
//! in use. Process IDs would not do: they are reused, and containers that share a directory do not
//! see each other's processes.

use std::fs::{File, Metadata, TryLockError};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The prefix of the names of temporary directories.
pub const PREFIX: &str = "tet-sql-";

/// The name of the locked file in a temporary directory.
const LOCK: &str = "in-use";

/// The locks that this process holds until it ends.
static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Marks a new directory as in use by this process. A directory that cannot be marked, because its
/// file system has no locks, is never treated as a leftover.
pub fn mark(folder: &Path) {
    let unlocked = folder.join("new");
    let Ok(file) = File::create(&unlocked) else {
        return;
    };
    // Rename the file after locking it, so that other processes never see it unlocked.
    if file.try_lock().is_ok() && std::fs::rename(&unlocked, folder.join(LOCK)).is_ok() {
        HELD.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(file);
    } else {
        let _ = std::fs::remove_file(&unlocked);
    }
}

/// Removes the leftovers beside a directory that have the same owner.
pub fn remove_beside(folder: &Path) {
    let (Some(parent), Ok(ours)) = (folder.parent(), folder.symlink_metadata()) else {
        return;
    };
    let Ok(entries) = parent.read_dir() else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = |found: &Metadata| found.is_dir() && same_owner(found, &ours);
        if name.to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|found| is_ours(&found))
        {
            remove_if_left(&entry.path());
        }
    }
}

/// Removes a directory if the process that created it has ended.
fn remove_if_left(folder: &Path) {
    let Ok(lock) = File::open(folder.join(LOCK)) else {
        return;
    };
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return,
    }
    // Remove the lock file last, so that the next process can resume an interrupted removal.
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        if entry.file_name() == LOCK {
            continue;
        }
        let path = entry.path();
        let _ = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
    }
    let _ = std::fs::remove_dir_all(folder);
}

#[cfg(unix)]
fn same_owner(left: &Metadata, right: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    left.uid() == right.uid()
}

/// Returns `true`: on Windows, every user has a separate temporary directory.
#[cfg(not(unix))]
fn same_owner(_left: &Metadata, _right: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unlocked_directories_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = parent.path().join(name);
            std::fs::create_dir_all(path.join("datafusion-x")).unwrap();
            std::fs::write(path.join("datafusion-x/spilled"), "rows").unwrap();
            path
        };
        let (ours, held, left) = (
            folder("tet-sql-a"),
            folder("tet-sql-b"),
            folder("tet-sql-c"),
        );
        let (unmarked, other) = (folder("tet-sql-d"), folder("other"));
        mark(&ours);
        mark(&held);
        std::fs::write(left.join(LOCK), "").unwrap();
        std::fs::write(other.join(LOCK), "").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&other, parent.path().join("tet-sql-e")).unwrap();
        remove_beside(&ours);
        assert!(!left.exists());
        for kept in [ours, held, unmarked, other] {
            assert!(kept.join("datafusion-x/spilled").exists(), "{kept:?}");
        }
    }
}
