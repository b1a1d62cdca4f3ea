//! [`CacheDirectory`]: keeps bytes that are slow to obtain in a directory, for later processes.

use std::collections::HashMap;
use std::fs::DirEntry;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tempfile::{Builder, NamedTempFile};

use crate::format::io::handles;
use crate::format::io::unfinished::Unfinished;

/// The first bytes of an entry, with the version of its layout.
const MAGIC: &[u8; 8] = b"TETCACH1";
/// The number of bytes before the key: the magic bytes, the checksum, and the length of the key.
const HEADER_BYTES: usize = 8 + 32 + 4;
/// Names of entries end like this.
const ENTRY_SUFFIX: &str = ".entry";
/// Names of files under construction end like this.
const UNFINISHED_SUFFIX: &str = ".tmp";
/// A file under construction of this age was left by a process that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);
/// The time of an entry's last use is recorded with this accuracy.
const USE_ACCURACY: Duration = Duration::from_secs(60);
/// The directory is listed again once a process has written its maximum size, divided by this number.
const LISTING_DIVISOR: u64 = 16;
/// The number of bytes that an entry takes on a disk at least: a block of common file systems.
const MIN_ENTRY_BYTES: u64 = 4096;
/// The directories that this process uses.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Arc<CacheDirectory>>>> = LazyLock::new(Mutex::default);

/// A directory of checksummed entries by key, which any number of processes may use at the same time.
///
/// ```text
/// entry: magic | SHA-256 of all that follows | length of the key | key | bytes
/// ```
///
/// An entry is written to a file of its own, which is then renamed, so that readers find whole entries. An
/// entry that is damaged, or has the key of another one, is not found, and the next [`Self::put`] replaces
/// it. The entries that were not used for the longest time are deleted if the directory grows beyond its
/// maximum size.
///
/// A cache never fails: whatever goes wrong with the directory, the caller obtains the bytes as it
/// would without a cache.
#[derive(Debug)]
pub(crate) struct CacheDirectory {
    path: PathBuf,
    max_bytes: AtomicU64,
    /// The bytes that this process has written since it started to list the directory; `None` before it did.
    written: Mutex<Option<u64>>,
    counts: Counts,
}

/// The number of calls since the process has started, by their results.
#[derive(Debug, Default)]
struct Counts {
    found: AtomicU64,
    missing: AtomicU64,
    stored: AtomicU64,
}

impl CacheDirectory {
    /// Returns the cache in a directory, which is created on the first [`Self::put`]. All callers of a
    /// process share it, with the maximum size that was given last.
    pub fn at(path: &Path, max_bytes: u64) -> Arc<Self> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let cache = open.entry(path.clone()).or_insert_with(|| {
            Arc::new(Self {
                path,
                max_bytes: AtomicU64::new(max_bytes),
                written: Mutex::new(None),
                counts: Counts::default(),
            })
        });
        cache.max_bytes.store(max_bytes, Ordering::Relaxed);
        Arc::clone(cache)
    }

    /// Returns the bytes that were stored under a key; `None` if there are none, or the entry is damaged.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let found = self.read(key);
        let count = match found {
            Some(_) => &self.counts.found,
            None => &self.counts.missing,
        };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Stores bytes under a key, in place of those that were stored before. An entry larger than a
    /// sixteenth of the directory's maximum size is not stored.
    pub fn put(&self, key: &[u8], bytes: &[u8]) {
        let length = HEADER_BYTES + key.len() + bytes.len();
        let Some(key_length) = u32::try_from(key.len())
            .ok()
            .filter(|_| length as u64 <= self.max_entry_bytes())
        else {
            return;
        };
        let key_length = key_length.to_le_bytes();
        let checksum = checksum([&key_length, key, bytes]);
        let parts = [MAGIC.as_slice(), &checksum, &key_length, key, bytes];
        if self.write(&self.entry(key), &parts).is_ok() {
            self.counts.stored.fetch_add(1, Ordering::Relaxed);
            self.account(length as u64);
        }
    }

    /// The number of calls of [`Self::get`] that found an entry, that found none, and of entries that were
    /// stored, by this process.
    #[cfg(test)]
    pub fn counts(&self) -> [u64; 3] {
        let Counts {
            found,
            missing,
            stored,
        } = &self.counts;
        [found, missing, stored].map(|count| count.load(Ordering::Relaxed))
    }

    fn max_entry_bytes(&self) -> u64 {
        self.max_bytes.load(Ordering::Relaxed) / LISTING_DIVISOR
    }

    /// Returns the path of the entry of a key. The entries are in 256 directories, so that no directory grows long.
    fn entry(&self, key: &[u8]) -> PathBuf {
        let digits = Sha256::digest(key);
        let name: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
        let (first, rest) = name.split_at(2);
        self.path.join(first).join(format!("{rest}{ENTRY_SUFFIX}"))
    }

    fn read(&self, key: &[u8]) -> Option<Vec<u8>> {
        // A named pipe would wait for its other end, and is not opened.
        let mut file = handles::open(&self.entry(key), &handles::SHARED).ok()?;
        let metadata = file.metadata().ok()?;
        // A directory may have shrunk: entries of another process may be larger than this one's.
        let length = usize::try_from(metadata.len()).ok()?;
        let limit = self.max_bytes.load(Ordering::Relaxed);
        if length < HEADER_BYTES || metadata.len() > limit {
            return None;
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact(&mut header).ok()?;
        let (magic, rest) = header.split_at(MAGIC.len());
        let (expected, key_length) = rest.split_at(32);
        if magic != MAGIC || key_length != u32::try_from(key.len()).ok()?.to_le_bytes() {
            return None;
        }
        let mut stored_key = vec![0; key.len().min(length)];
        file.read_exact(&mut stored_key).ok()?;
        if stored_key != key {
            return None;
        }
        let mut bytes = vec![0; length.checked_sub(HEADER_BYTES + key.len())?];
        file.read_exact(&mut bytes).ok()?;
        if checksum([key_length, key, &bytes]) != expected {
            return None;
        }
        let age = metadata
            .modified()
            .ok()
            .and_then(|time| time.elapsed().ok());
        if age.is_none_or(|age| age > USE_ACCURACY) {
            // The order of deletion is a hint: a directory may be read-only.
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    fn write(&self, entry: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let directory = entry.parent().unwrap_or(&self.path);
        create_private(directory)?;
        let mut builder = Builder::new();
        builder.suffix(UNFINISHED_SUFFIX);
        // Private to the user, like all temporary files: the bytes may come from files that others may
        // not read. Not synced: the checksum reveals an entry that a crash has damaged.
        let mut file = Unfinished::create(|| builder.tempfile_in(directory), NamedTempFile::path)?;
        for part in parts {
            file.write_all(part)?;
        }
        file.persist(entry)
    }

    /// Counts bytes that were written, and now and then lists the directory.
    fn account(&self, bytes: u64) {
        let is_due = {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let sum = written.map(|sum| sum.saturating_add(on_disk(bytes)));
            let kept = sum.filter(|sum| *sum <= self.max_entry_bytes());
            *written = Some(kept.unwrap_or(0));
            kept.is_none()
        };
        // Listing takes time, in which other threads may write.
        if is_due {
            self.delete_unused();
        }
    }

    /// Deletes the entries that were not used for the longest time. What is left is smaller than the maximum
    /// size by two listings' writes, for this and one other process.
    fn delete_unused(&self) {
        let mut entries = Vec::new();
        for directory in listed(&self.path).filter(is_directory) {
            for file in listed(&directory.path()) {
                let (name, Ok(metadata)) = (file.file_name(), file.metadata()) else {
                    continue;
                };
                let name = name.to_string_lossy();
                let time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                if name.ends_with(ENTRY_SUFFIX) && metadata.is_file() {
                    entries.push((time, on_disk(metadata.len()), file.path()));
                } else if name.ends_with(UNFINISHED_SUFFIX)
                    && time.elapsed().is_ok_and(|age| age > ABANDONED)
                {
                    let _ = std::fs::remove_file(file.path());
                }
            }
        }
        let max_bytes = self.max_bytes.load(Ordering::Relaxed);
        let keep = max_bytes - 2 * (max_bytes / LISTING_DIVISOR);
        let mut total: u64 = entries.iter().map(|(_, length, _)| length).sum();
        entries.sort();
        for (_, length, path) in entries {
            if total <= keep {
                break;
            }
            // Another process may have deleted the entry.
            let _ = std::fs::remove_file(path);
            total -= length;
        }
    }
}

/// Returns the number of bytes of a disk that an entry of this length takes.
fn on_disk(length: u64) -> u64 {
    length.max(MIN_ENTRY_BYTES)
}

fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.into_iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

/// Creates a directory, and those above, for the user alone.
fn create_private(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn listed(directory: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    directory.read_dir().into_iter().flatten().flatten()
}

/// Returns `true` for a directory of entries, whose name is two digits. Other directories do not belong to
/// the cache.
fn is_directory(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    name.len() == 2
        && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit)
        && entry.file_type().is_ok_and(|kind| kind.is_dir())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn files(directory: &Path) -> Vec<PathBuf> {
        let directories = listed(directory).filter(is_directory);
        let files = directories.flat_map(|directory| listed(&directory.path()));
        files.map(|file| file.path()).collect()
    }

    fn size(directory: &Path) -> u64 {
        let files = files(directory);
        let lengths = files.iter().map(|path| path.metadata().unwrap().len());
        lengths.map(on_disk).sum()
    }

    #[test]
    fn entries_are_found_by_their_keys() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/cache");
        let cache = CacheDirectory::at(&path, 1 << 20);
        assert_eq!(cache.get(b"a"), None);
        cache.put(b"a", b"first");
        cache.put(b"b", b"");
        cache.put(b"a", b"second");
        cache.put(b"large", &[0; 1 << 17]);
        assert_eq!(cache.get(b"a").as_deref(), Some(b"second".as_slice()));
        assert_eq!(cache.get(b"b").as_deref(), Some(b"".as_slice()));
        assert_eq!(cache.get(b"large"), None);
        assert_eq!(cache.counts(), [2, 2, 3]);
        assert_eq!(files(&path).len(), 2);
        assert!(Arc::ptr_eq(&cache, &CacheDirectory::at(&path, 1 << 20)));
    }

    #[test]
    fn damaged_entries_are_not_found_and_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheDirectory::at(directory.path(), 1 << 20);
        cache.put(b"key", b"some bytes");
        let entry = &files(directory.path())[0];
        let whole = std::fs::read(entry).unwrap();
        for index in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[index] ^= 1;
            std::fs::write(entry, &damaged).unwrap();
            assert_eq!(cache.get(b"key"), None, "{index}");
            std::fs::write(entry, &whole[..index]).unwrap();
            assert_eq!(cache.get(b"key"), None, "{index}");
        }
        std::fs::write(entry, [whole.as_slice(), b"more"].concat()).unwrap();
        assert_eq!(cache.get(b"key"), None);
        cache.put(b"key", b"new");
        assert_eq!(cache.get(b"key").as_deref(), Some(b"new".as_slice()));
        // The entry of another key in the place of this one's.
        std::fs::rename(entry, cache.entry(b"other")).unwrap_or_else(|_| {
            create_private(cache.entry(b"other").parent().unwrap()).unwrap();
            std::fs::rename(entry, cache.entry(b"other")).unwrap();
        });
        assert_eq!(cache.get(b"other"), None);
    }

    #[test]
    fn a_directory_keeps_the_entries_that_were_used_last() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheDirectory::at(directory.path(), 256 << 10);
        let foreign = directory.path().join("notes.txt");
        std::fs::write(&foreign, "of the user").unwrap();
        let old = SystemTime::now() - Duration::from_secs(7200);
        for number in 0..200u32 {
            let key = number.to_le_bytes();
            cache.put(&key, &[1; 1000]);
            let file = File::options().write(true).open(cache.entry(&key));
            let seconds = u64::from(number);
            let time = old + Duration::from_secs(seconds);
            file.unwrap().set_modified(time).unwrap();
            // Reading makes an entry new.
            assert!(cache.get(&0u32.to_le_bytes()).is_some());
            assert!(size(directory.path()) <= 256 << 10);
        }
        assert!(cache.get(&199u32.to_le_bytes()).is_some());
        assert!(cache.get(&1u32.to_le_bytes()).is_none());
        assert!(size(directory.path()) > 160 << 10);
        assert!(foreign.exists());
    }

    /// With the size of an entry's block on the disk, not with its length.
    #[test]
    fn many_small_entries_are_deleted_too() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheDirectory::at(directory.path(), 128 << 10);
        for number in 0..200u32 {
            cache.put(&number.to_le_bytes(), b"");
        }
        assert!(files(directory.path()).len() <= 32);
    }

    /// Whatever other threads set the maximum size to meanwhile.
    #[test]
    fn the_maximum_size_may_change_while_entries_are_deleted() {
        let directory = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..2000 {
                    CacheDirectory::at(directory.path(), (round % 2) << 20);
                }
            });
            let cache = CacheDirectory::at(directory.path(), 1 << 20);
            for _ in 0..2000 {
                cache.delete_unused();
            }
        });
    }

    #[cfg(unix)]
    #[test]
    fn a_named_pipe_in_the_place_of_an_entry_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheDirectory::at(directory.path(), 1 << 20);
        let entry = cache.entry(b"key");
        create_private(entry.parent().unwrap()).unwrap();
        let status = std::process::Command::new("mkfifo").arg(&entry).status();
        assert!(status.unwrap().success());
        assert_eq!(cache.get(b"key"), None);
    }

    #[test]
    fn a_file_left_by_a_killed_process_is_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let within = directory.path().join("00");
        std::fs::create_dir(&within).unwrap();
        for (name, hours) in [("old.tmp", 2), ("new.tmp", 0)] {
            let file = File::create(within.join(name)).unwrap();
            let age = Duration::from_secs(3600 * hours);
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        CacheDirectory::at(directory.path(), 1 << 20).put(b"key", b"bytes");
        assert!(!within.join("old.tmp").exists());
        assert!(within.join("new.tmp").exists());
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "").unwrap();
        let cache = CacheDirectory::at(&path, 1 << 20);
        cache.put(b"key", b"bytes");
        assert_eq!(cache.get(b"key"), None);
    }

    #[test]
    fn many_writers_and_readers_share_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let cache = &CacheDirectory::at(directory.path(), 128 << 10);
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                scope.spawn(move || {
                    for round in 0..100u8 {
                        let key = [round % 10];
                        cache.put(&key, &[writer; 700]);
                        if let Some(bytes) = cache.get(&key) {
                            assert!(bytes.array_windows().all(|[a, b]| a == b));
                            assert_eq!(bytes.len(), 700);
                        }
                    }
                });
            }
        });
        assert_eq!(files(directory.path()).len(), 10);
    }
}
