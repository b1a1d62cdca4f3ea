//! What this process has under construction, so that one that is told to end can take it away before it does.

use std::collections::BTreeSet;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use tempfile::{NamedTempFile, TempDir};

/// Files and folders under construction. Locked for ever once the process is about to end, and with it all that would add
/// to them.
static ALL: RwLock<BTreeSet<PathBuf>> = RwLock::new(BTreeSet::new());

fn lock() -> RwLockWriteGuard<'static, BTreeSet<PathBuf>> {
    ALL.write().unwrap_or_else(PoisonError::into_inner)
}

/// Takes away all files and folders that writers of this process have under construction, and stops those writers for good:
/// for a process that was told to end, and does so next.
pub fn remove_unfinished() {
    let all = lock();
    for path in all.iter() {
        // It may have its name, or be gone, already.
        let _ = match path.is_dir() {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
    }
    std::mem::forget(all);
}

/// Whether this process is to go on when its terminal is closed: it was started with SIGHUP ignored, as `nohup` does. Asked
/// of Linux only.
pub fn ignores_hang_ups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is that of the first signal, which is this one.
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(feature = "zarr")]
/// Keeps [`remove_unfinished`] from coming between the steps of something.
pub(crate) fn hold() -> impl Drop {
    ALL.read().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file or folder that is removed when it is dropped, or when the process is told to end.
#[derive(Debug)]
pub(crate) struct Unfinished<T> {
    // Removed before it is forgotten.
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
    /// Makes it.
    pub fn create(
        make: impl FnOnce() -> io::Result<T>,
        path: impl FnOnce(&T) -> &Path,
    ) -> io::Result<Self> {
        // Never there without being known.
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
    /// Gives the file its name, in the place of whatever file has it.
    pub fn persist(self, target: &Path) -> io::Result<()> {
        let persisted = self.temporary.persist(target);
        persisted.map(|_| ()).map_err(|error| error.error)
    }

    /// Gives the file its name, if nothing has it.
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

impl Unfinished<TempDir> {
    /// Says that the folder has another name by now, under which nothing removes it.
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
