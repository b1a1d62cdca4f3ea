//! Parts of objects that are kept in the cache directory of a session.
//!
//! ```text
//! key: the URL without secrets, and the part      entry: length of the version | version | bytes
//! ```
//!
//! A kept part is used only if the object still has its version. The version is known for parts of an open
//! file, which take no request. For any other object, the request asks for bytes only if the version is
//! another one (`If-None-Match`).

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use object_store::Error as StoreError;
use tokio::sync::Semaphore;

use crate::format::io::cache::CacheDirectory;
use crate::format::io::remote::part::Part;
use crate::format::io::remote::store::{Answer, Condition, Refusal, RemotePlace};
use crate::format::io::remote::version::Version;

/// The first bytes of the keys, with the version of the entries.
const KIND: &str = "remote-block 1";
/// The number of entries that are read or written at the same time.
const FILES_AT_A_TIME: usize = 16;

/// A cache directory for parts of objects.
#[derive(Debug, Clone)]
pub struct BlockCache(Arc<CacheDirectory>);

impl BlockCache {
    pub fn new(directory: Arc<CacheDirectory>) -> Self {
        Self(directory)
    }

    fn key(url: &Path, part: Part) -> Vec<u8> {
        format!("{KIND}\0{part}\0{}", url.display()).into_bytes()
    }

    /// Returns a part of the object at a URL, and the version that it is from.
    fn get(&self, url: &Path, part: Part) -> Option<(Version, Bytes)> {
        let entry = Bytes::from(self.0.get(&Self::key(url, part))?);
        let (length, rest) = entry.split_first_chunk::<4>()?;
        let version = rest.get(..u32::from_le_bytes(*length) as usize)?;
        let start = length.len() + version.len();
        let version = serde_json::from_slice(version).ok()?;
        Some((version, entry.slice(start..)))
    }

    /// Keeps a part of the object at a URL, unless its version may not tell that the bytes have changed.
    fn put(&self, url: &Path, part: Part, version: &Version, bytes: &[u8]) {
        if !version.is_reliable() {
            return;
        }
        let Ok(version) = serde_json::to_vec(version) else {
            return;
        };
        let length = (version.len() as u32).to_le_bytes();
        let entry = [length.as_slice(), &version, bytes].concat();
        self.0.put(&Self::key(url, part), &entry);
    }
}

impl RemotePlace {
    /// Gets a part of the object, or takes it from the cache. If a version is given, the object must
    /// still have it. Must run on the thread of requests.
    pub(in crate::format::io::remote) async fn get(
        &self,
        part: Part,
        pinned: Option<&Version>,
        most: u64,
    ) -> Result<Answer, Refusal> {
        let kept = self.kept(part).await;
        let kept = kept.filter(|(_, bytes)| bytes.len() as u64 <= most);
        let condition = match (&kept, pinned) {
            (Some((version, bytes)), Some(pinned)) if version == pinned => {
                return Ok(Answer {
                    version: version.clone(),
                    ..Answer::of_memory(bytes.clone(), version.size)
                });
            }
            (_, Some(pinned)) => Condition::Same(pinned),
            (Some((version, _)), None) => Condition::Other(version),
            (None, None) => Condition::None,
        };
        match (
            self.store.get(&self.location, part, condition, most).await,
            kept,
        ) {
            (Err(Refusal::Store(StoreError::NotModified { .. })), Some((version, bytes))) => {
                Ok(Answer {
                    requests: 1,
                    ..Answer {
                        version: version.clone(),
                        ..Answer::of_memory(bytes, version.size)
                    }
                })
            }
            (answer, _) => {
                let answer = answer?;
                let (version, bytes) = (&answer.version, &answer.bytes);
                self.keep(vec![(part, bytes.clone())], version).await;
                Ok(answer)
            }
        }
    }

    /// Returns a part of the object that was kept, and its version.
    pub(in crate::format::io::remote) async fn kept(&self, part: Part) -> Option<(Version, Bytes)> {
        let cache = self.cache.clone()?;
        let url = self.path().to_path_buf();
        on_disk(move || cache.get(&url, part)).await.flatten()
    }

    /// Keeps parts of the object, if there is a cache.
    pub(in crate::format::io::remote) async fn keep(
        &self,
        parts: Vec<(Part, Bytes)>,
        version: &Version,
    ) {
        let Some(cache) = self.cache.clone() else {
            return;
        };
        let (url, version) = (self.path().to_path_buf(), version.clone());
        on_disk(move || {
            for (part, bytes) in parts {
                cache.put(&url, part, &version, &bytes);
            }
        })
        .await;
    }
}

/// Runs a function that reads or writes files, which would keep the thread of requests waiting, on
/// another thread. Returns `None` if it panicked.
async fn on_disk<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    static PERMITS: Semaphore = Semaphore::const_new(FILES_AT_A_TIME);
    // The semaphore is never closed.
    let _permit = PERMITS.acquire().await.ok();
    tokio::task::spawn_blocking(function).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_kept_with_their_version() {
        let directory = tempfile::tempdir().unwrap();
        let cache = BlockCache::new(CacheDirectory::at(directory.path(), 1 << 20));
        let url = Path::new("https://host/a");
        let version = |etag: &str| Version {
            size: 10,
            etag: Some(etag.to_string()),
            modified: None,
        };
        cache.put(url, Part::Range(2, 5), &version("\"1\""), b"abc");
        cache.put(url, Part::Last(0), &version("\"1\""), b"");
        cache.put(url, Part::Whole, &version("W/\"1\""), b"weak");
        let get = |part| cache.get(url, part);
        let (found, bytes) = get(Part::Range(2, 5)).unwrap();
        assert_eq!((found, &bytes[..]), (version("\"1\""), b"abc".as_slice()));
        assert_eq!(get(Part::Last(0)).unwrap().1, "");
        assert_eq!(get(Part::Whole), None);
        assert_eq!(get(Part::Range(2, 6)), None);
        assert_eq!(cache.get(Path::new("https://host/b"), Part::Last(0)), None);
        // An entry of the same key that is too short for its version.
        cache
            .0
            .put(&BlockCache::key(url, Part::Last(0)), &[9, 0, 0, 0]);
        assert_eq!(get(Part::Last(0)), None);
    }
}
