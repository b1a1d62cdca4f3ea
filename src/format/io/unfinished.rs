//! Tracks files under construction, so that a process told to terminate can delete them first.

use std::collections::BTreeSet;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Once, PoisonError, RwLock, RwLockWriteGuard};

use tempfile::NamedTempFile;

/// The paths of all files and directories under construction. [`remove_unfinished`] never releases
/// its lock, which blocks every writer that would add another path.
static ALL: RwLock<BTreeSet<PathBuf>> = RwLock::new(BTreeSet::new());

fn lock() -> RwLockWriteGuard<'static, BTreeSet<PathBuf>> {
    ALL.write().unwrap_or_else(PoisonError::into_inner)
}

/// Deletes all files and directories that this process has under construction, and blocks their
/// writers for good. Call this only just before the process exits.
pub fn remove_unfinished() {
    static ONCE: Once = Once::new();
    // The lock is never released, so that a second call, as by the thread that handles signals, would
    // deadlock.
    ONCE.call_once(|| {
        let all = lock();
        for path in all.iter() {
            // The path may have been renamed or deleted already.
            let _ = match path.is_dir() {
                true => std::fs::remove_dir_all(path),
                false => std::fs::remove_file(path),
            };
        }
        std::mem::forget(all);
    });
}

/// Returns `true` if the process should survive the closing of its terminal, because it was started
/// with SIGHUP ignored, as `nohup` does. Detected on Linux only.
pub fn ignores_sighup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit stands for signal 1, SIGHUP.
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}

/// Returns a guard that delays [`remove_unfinished`], so that files are not deleted between two
/// steps that belong together. Creating or dropping an [`Unfinished`] while holding the guard
/// deadlocks.
#[cfg(any(feature = "tiledb", feature = "zarr"))]
pub(crate) fn hold_removal() -> impl Drop {
    ALL.read().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file or directory that is deleted when dropped, or when the process is told to
/// terminate.
#[derive(Debug)]
pub(crate) struct Unfinished<T> {
    // Declared first: fields drop in order, so the file is deleted before its entry is removed.
    temporary: T,
    _entry: Entry,
}

#[derive(Debug)]
struct Entry(PathBuf);

impl Drop for Entry {
    fn drop(&mut self) {
        lock().remove(&self.0);
    }
}

impl<T> Unfinished<T> {
    /// Creates a temporary file or directory with `make` and registers its `path`.
    pub fn create(
        make: impl FnOnce() -> io::Result<T>,
        path: impl FnOnce(&T) -> &Path,
    ) -> io::Result<Self> {
        // Hold the lock while creating the file, so that no file exists unregistered.
        let mut all = lock();
        let temporary = make()?;
        let path = path(&temporary).to_path_buf();
        all.insert(path.clone());
        Ok(Self {
            temporary,
            _entry: Entry(path),
        })
    }
}

impl Unfinished<NamedTempFile> {
    /// Renames the file to `target`, replacing any existing file.
    pub fn persist(self, target: &Path) -> io::Result<()> {
        let persisted = self.temporary.persist(target);
        persisted.map(|_| ()).map_err(|error| error.error)
    }

    /// Renames the file to `target` unless `target` exists. On failure, returns the file with the
    /// error.
    pub fn persist_noclobber(self, target: &Path) -> Result<(), (io::Error, Self)> {
        let entry = self._entry;
        match self.temporary.persist_noclobber(target) {
            Ok(_) => Ok(()),
            Err(error) => Err((
                error.error,
                Self {
                    temporary: error.file,
                    _entry: entry,
                },
            )),
        }
    }
}

#[cfg(any(feature = "tiledb", feature = "zarr"))]
impl Unfinished<tempfile::TempDir> {
    /// Stops tracking the directory without deleting anything. Call this after renaming the
    /// directory.
    pub fn keep(self) {
        let _ = self.temporary.keep();
    }
}

impl<T> Deref for Unfinished<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.temporary
    }
}

impl<T> DerefMut for Unfinished<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.temporary
    }
}

impl<T: Write> Write for Unfinished<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.temporary.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.flush()
    }
}

impl<T: Seek> Seek for Unfinished<T> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.temporary.seek(position)
    }
}
