//! A bounded pool of open files, shared by the whole process.
//!
//! When the pool is full, it closes the [`PooledFile`] that was used least recently. The next use
//! of that file reopens it.

use std::fs::{File, Metadata};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use lru::LruCache;
use memmap2::Mmap;

use crate::error::{Error, Result};

/// Maximum number of files the pool keeps open. Many systems limit a process to 1024 descriptors,
/// including connections and spill files.
const MAX_OPEN_FILES: usize = 256;
/// The capacity below which [`Pool::shrink`] does not go.
const MIN_OPEN_FILES: usize = 16;

/// The process-wide pool.
pub(crate) static SHARED: LazyLock<Pool> = LazyLock::new(|| Pool::new(MAX_OPEN_FILES));

/// An open file and its memory map, which is created on first use. An `Arc` of either stays valid
/// after the pool has released the file.
#[derive(Debug)]
pub(crate) struct Handle {
    pub file: File,
    pub map: OnceLock<Arc<Mmap>>,
}

/// Limits the number of open files. Files are closed only after the lock is released, so that other
/// threads can proceed.
#[derive(Debug)]
pub(crate) struct Pool(Mutex<LruCache<u64, Arc<Handle>>>);

impl Pool {
    /// Returns a pool that keeps at most `capacity` files open, but at least one.
    pub fn new(capacity: usize) -> Self {
        let capacity = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(LruCache::new(capacity)))
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<u64, Arc<Handle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a newly opened file, and closes another one if the pool is full. Returns the handle of
    /// another thread if that thread was faster.
    fn add(&self, id: u64, file: File) -> Arc<Handle> {
        let map = OnceLock::new();
        let handle = Arc::new(Handle { file, map });
        let mut open = self.lock();
        if let Some(other) = open.get(&id) {
            return Arc::clone(other);
        }
        let closed = open.push(id, Arc::clone(&handle));
        drop(open);
        drop(closed);
        handle
    }

    /// Closes all files and lowers the capacity, because the process ran out of file descriptors.
    fn shrink(&self) {
        let mut open = self.lock();
        let fewer = (open.len() / 2).max(MIN_OPEN_FILES).min(open.cap().get());
        let fewer = NonZeroUsize::new(fewer).unwrap_or(NonZeroUsize::MIN);
        let closed = std::mem::replace(&mut *open, LruCache::new(fewer));
        drop(open);
        drop(closed);
    }

    #[cfg(test)]
    fn open_files(&self) -> usize {
        self.lock().len()
    }
}

/// A fingerprint that tells whether a path still leads to the same, unchanged file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
    pub length: u64,
    modified: Option<SystemTime>,
}

impl Identity {
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            #[cfg(unix)]
            device_and_inode: {
                use std::os::unix::fs::MetadataExt;
                (metadata.dev(), metadata.ino())
            },
            length: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }

    /// Returns `true` if both identify the same file or directory, even if it was changed. Always
    /// returns `true` on platforms without inode numbers.
    #[cfg(feature = "zarr")]
    pub fn is_same_file(&self, other: &Self) -> bool {
        #[cfg(unix)]
        return self.device_and_inode == other.device_and_inode;
        #[cfg(not(unix))]
        return true;
    }
}

/// A file that the pool may close between uses and that is reopened on demand.
#[derive(Debug)]
pub(crate) struct PooledFile {
    path: PathBuf,
    /// The absolute path, which stays valid if the process changes its working directory.
    absolute: PathBuf,
    identity: Identity,
    /// The key of the file in the pool.
    id: u64,
    pool: &'static Pool,
}

impl PooledFile {
    /// Opens `path`, which must be a regular file.
    pub fn open(path: &Path, pool: &'static Pool) -> Result<Self> {
        let absolute = std::path::absolute(path).map_err(Error::io(path, "open"))?;
        // Check the file type first: opening a named pipe would wait for its other end.
        let metadata = absolute.metadata().map_err(Error::io(path, "open"))?;
        if metadata.is_dir() {
            return Err(Error::invalid(path, "is a directory, expected a file"));
        }
        if !metadata.is_file() {
            return Err(Error::invalid(path, "is not a regular file"));
        }
        let file = open(&absolute, pool).map_err(Error::io(path, "open"))?;
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let identity = Identity::of(&file.metadata().map_err(Error::io(path, "open"))?);
        pool.add(id, file);
        Ok(Self {
            path: path.to_path_buf(),
            absolute,
            identity,
            id,
            pool,
        })
    }

    /// The path as given to [`Self::open`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length in bytes when the file was first opened.
    pub fn length(&self) -> u64 {
        self.identity.length
    }

    /// The time of the last change when the file was first opened.
    pub fn modified(&self) -> Option<SystemTime> {
        self.identity.modified
    }

    /// Returns the open file, reopening it if the pool has closed it.
    ///
    /// # Errors
    /// Fails if the file cannot be reopened, or was replaced or changed since it was first opened.
    pub fn handle(&self) -> Result<Arc<Handle>> {
        if let Some(handle) = self.pool.lock().get(&self.id) {
            return Ok(Arc::clone(handle));
        }
        let action = "open again";
        let file = open(&self.absolute, self.pool).map_err(Error::io(&self.path, action))?;
        let metadata = file.metadata().map_err(Error::io(&self.path, action))?;
        if Identity::of(&metadata) != self.identity {
            return Err(Error::invalid(
                &self.path,
                "the file was replaced or changed since it was opened",
            ));
        }
        Ok(self.pool.add(self.id, file))
    }
}

impl Drop for PooledFile {
    fn drop(&mut self) {
        let closed = self.pool.lock().pop(&self.id);
        drop(closed);
    }
}

/// Opens a regular file. If the process is out of file descriptors, closes the files of the pool
/// and tries again.
///
/// Any other file type is an `InvalidInput` error: opening a named pipe would wait for its other
/// end.
pub(crate) fn open(path: &Path, pool: &Pool) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        let message = "not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    match File::open(path) {
        Err(error) if is_out_of_handles(&error) => {
            pool.shrink();
            File::open(path)
        }
        result => result,
    }
}

fn is_out_of_handles(error: &io::Error) -> bool {
    // EMFILE is 24 on Linux, macOS and the BSDs.
    cfg!(unix) && error.raw_os_error() == Some(24)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const CONTENT: &[u8] = b"some bytes";

    fn pool(capacity: usize) -> &'static Pool {
        Box::leak(Box::new(Pool::new(capacity)))
    }

    fn files(folder: &Path, count: usize, pool: &'static Pool) -> Vec<PooledFile> {
        (0..count)
            .map(|number| {
                let path = folder.join(number.to_string());
                fs::write(&path, CONTENT).unwrap();
                PooledFile::open(&path, pool).unwrap()
            })
            .collect()
    }

    fn is_open(file: &PooledFile) -> bool {
        file.pool.lock().contains(&file.id)
    }

    #[test]
    fn files_above_the_capacity_are_closed_and_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(3);
        let files = files(folder.path(), 10, pool);
        for _ in 0..3 {
            for file in &files {
                let handle = file.handle().unwrap();
                assert_eq!(handle.file.metadata().unwrap().len(), CONTENT.len() as u64);
                assert_eq!(pool.open_files(), 3);
                assert_eq!(files.iter().filter(|file| is_open(file)).count(), 3);
            }
        }
        drop(files);
        assert_eq!(pool.open_files(), 0);
    }

    #[test]
    fn a_file_in_use_stays_open() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path(), 20, pool(4));
        files[0].handle().unwrap();
        for file in &files[1..] {
            file.handle().unwrap();
            assert!(is_open(&files[0]));
            files[0].handle().unwrap();
        }
    }

    #[test]
    fn a_held_handle_outlives_its_place_in_the_pool() {
        use std::io::Read;
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(1);
        let files = files(folder.path(), 1, pool);
        let handle = files[0].handle().unwrap();
        pool.shrink();
        assert!(!is_open(&files[0]));
        let mut text = Vec::new();
        (&handle.file).read_to_end(&mut text).unwrap();
        assert_eq!(text, CONTENT);
    }

    #[test]
    fn changes_to_closed_files_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(8);
        let files = files(folder.path(), 5, pool);
        let [same, shortened, replaced, rewritten, removed] = files.as_slice() else {
            panic!("five files");
        };
        fs::write(shortened.path(), b"some").unwrap();
        let other = folder.path().join("other");
        fs::write(&other, CONTENT).unwrap();
        fs::rename(&other, replaced.path()).unwrap();
        let file = File::options().write(true).open(rewritten.path()).unwrap();
        let late = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
        file.set_modified(late).unwrap();
        fs::remove_file(removed.path()).unwrap();
        // Open files are not checked for changes.
        assert!(files.iter().all(|file| file.handle().is_ok()));
        pool.shrink();
        same.handle().unwrap();
        for file in [shortened, replaced, rewritten] {
            let message = file.handle().unwrap_err().to_string();
            assert!(message.ends_with("replaced or changed since it was opened"));
            assert!(message.starts_with(&file.path().display().to_string()));
        }
        let message = removed.handle().unwrap_err().to_string();
        assert!(message.contains("cannot open again"), "{message}");
        // Every use checks again: a new file at the same path is not the one that was opened.
        fs::write(removed.path(), CONTENT).unwrap();
        removed.handle().unwrap_err();
        assert_eq!(pool.open_files(), 1);
    }

    #[test]
    fn a_process_that_may_open_few_files_keeps_fewer() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(100);
        let files = files(folder.path(), 60, pool);
        for expected in [30, 16, 16] {
            pool.shrink();
            assert_eq!(pool.open_files(), 0);
            assert!(files.iter().all(|file| file.handle().is_ok()));
            assert_eq!(pool.open_files(), expected);
        }
    }

    #[test]
    fn many_threads_share_few_handles() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(2);
        let files = files(folder.path(), 7, pool);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let files = &files;
                scope.spawn(move || {
                    for step in 0..500 {
                        let file = &files[(thread + step * (thread + 1)) % files.len()];
                        let handle = file.handle().unwrap();
                        assert_eq!(handle.file.metadata().unwrap().len(), file.length());
                    }
                });
            }
        });
        assert!(pool.open_files() <= 2);
        let open = files.iter().filter(|file| is_open(file)).count();
        assert_eq!(open, pool.open_files());
    }

    #[test]
    fn relative_paths_stay_as_given_and_are_opened_again_from_anywhere() {
        let pool = pool(1);
        let file = PooledFile::open(Path::new("Cargo.toml"), pool).unwrap();
        assert_eq!(file.path(), Path::new("Cargo.toml"));
        assert!(file.absolute.is_absolute());
        pool.shrink();
        file.handle().unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn directories_and_devices_are_refused() {
        for (path, expected) in [("/", "is a directory"), ("/dev/null", "not a regular file")] {
            let error = PooledFile::open(Path::new(path), &SHARED).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
