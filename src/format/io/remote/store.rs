//! Requests to one store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt};
use tokio::sync::Semaphore;

use crate::format::io::cache::CacheDirectory;
use crate::format::io::remote::object::blocks::BlockCache;
use crate::format::io::remote::part::Part;
use crate::format::io::remote::version::Version;

/// The maximum number of requests that a store has in flight, over all queries of a session.
const MAX_REQUESTS: usize = 64;

/// An object store, with a limit on the number of requests in flight.
#[derive(Clone)]
pub struct RemoteStore {
    store: Arc<dyn ObjectStore>,
    permits: Arc<Semaphore>,
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The store's own output may have credentials.
        f.debug_struct("RemoteStore").finish_non_exhaustive()
    }
}

/// A part of an object.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub bytes: Bytes,
    /// The version of the object that the bytes are from.
    pub version: Version,
    /// The number of requests that this took; 0 if the bytes were kept.
    pub requests: u64,
    /// The number of bytes that the request fetched.
    pub bytes_fetched: u64,
}

impl Answer {
    /// Creates the answer for bytes that are in memory, of an object of this size.
    pub fn of_memory(bytes: Bytes, size: u64) -> Self {
        Self {
            bytes,
            version: Version {
                size,
                etag: None,
                modified: None,
            },
            requests: 0,
            bytes_fetched: 0,
        }
    }
}

/// The condition of a request, which the server checks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Condition<'a> {
    None,
    /// The object still has this version.
    Same(&'a Version),
    /// The object has another version. If it has not, the request fails with
    /// [`object_store::Error::NotModified`].
    Other(&'a Version),
}

/// The names in a directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entries {
    pub directories: Vec<String>,
    pub objects: Vec<String>,
}

/// The reason why a request gave no bytes.
#[derive(Debug)]
pub(crate) enum Refusal {
    Store(object_store::Error),
    /// The object has another version than the one that was opened.
    Changed,
    /// The object has this many bytes, more than the caller accepts.
    TooLarge(u64),
}

impl RemoteStore {
    /// Creates the store of requests to `store`.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self {
            store,
            permits: Arc::new(Semaphore::new(MAX_REQUESTS)),
        }
    }

    /// Returns the store itself.
    pub(crate) fn inner(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Gets a part of an object, if it has at most `most` bytes.
    pub(super) async fn get(
        &self,
        path: &ObjectPath,
        part: Part,
        condition: Condition<'_>,
        most: u64,
    ) -> Result<Answer, Refusal> {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await.ok();
        let mut options = GetOptions {
            range: part.range(),
            ..GetOptions::default()
        };
        match condition {
            Condition::None => {}
            // Servers compare strong tags only.
            Condition::Same(version) => options.if_match = version.strong_tag(),
            Condition::Other(version) => match version.strong_tag() {
                Some(etag) => options.if_none_match = Some(etag),
                None => options.if_modified_since = version.modified,
            },
        }
        let result = self.store.get_opts(path, options).await;
        let result = result.map_err(Refusal::Store)?;
        let length = result.range.end.saturating_sub(result.range.start);
        if length > most {
            return Err(Refusal::TooLarge(length));
        }
        let version = Version::of(&result.meta);
        let bytes = result.bytes().await.map_err(Refusal::Store)?;
        if bytes.len() as u64 != length {
            let message = format!("the answer has {} bytes, expected {length}", bytes.len());
            return Err(Refusal::Store(object_store::Error::Generic {
                store: "remote",
                source: message.into(),
            }));
        }
        // Servers may ignore the condition.
        if let Condition::Same(pinned) = condition
            && !version.is(pinned)
        {
            return Err(Refusal::Changed);
        }
        Ok(Answer {
            bytes,
            version,
            requests: 1,
            bytes_fetched: length,
        })
    }

    /// Returns the size of an object.
    pub(super) async fn size(&self, path: &ObjectPath) -> Result<u64, object_store::Error> {
        let _permit = self.permits.acquire().await.ok();
        Ok(self.store.head(path).await?.size)
    }

    /// Returns the names of the directories and of the objects right below a directory.
    pub(super) async fn entries(&self, path: &ObjectPath) -> Result<Entries, object_store::Error> {
        let _permit = self.permits.acquire().await.ok();
        let listed = self.store.list_with_delimiter(Some(path)).await?;
        let name = |path: &ObjectPath| path.filename().map(str::to_string);
        let objects = listed.objects.iter().map(|object| &object.location);
        Ok(Entries {
            directories: listed.common_prefixes.iter().filter_map(name).collect(),
            objects: objects.filter_map(name).collect(),
        })
    }
}

/// A store, a path in it, and the URL that messages show.
#[derive(Debug, Clone)]
pub struct RemotePlace {
    pub(crate) store: RemoteStore,
    pub(crate) location: ObjectPath,
    /// The URL without secrets.
    shown: PathBuf,
    /// The cache of the session, if it has one.
    pub(super) cache: Option<BlockCache>,
    /// `true` if a reference names the place, so that a missing object is an error.
    pub(super) is_referenced: bool,
}

impl RemotePlace {
    /// Creates a place. `shown` is its URL without secrets.
    pub fn new(store: RemoteStore, location: ObjectPath, shown: impl Into<PathBuf>) -> Self {
        Self {
            store,
            location,
            shown: shown.into(),
            cache: None,
            is_referenced: false,
        }
    }

    /// Returns the place as one that a reference names.
    pub(super) fn referenced(self) -> Self {
        Self {
            is_referenced: true,
            ..self
        }
    }

    /// Returns the place with a cache directory for what is fetched from there. The objects of `memory://`
    /// are not kept, because those of another process have the same names and tags.
    pub(crate) fn with_cache(mut self, directory: Option<Arc<CacheDirectory>>) -> Self {
        let is_memory = self.shown.to_string_lossy().starts_with("memory:");
        self.cache = directory.filter(|_| !is_memory).map(BlockCache::new);
        self
    }

    /// Returns the URL, without secrets.
    pub fn path(&self) -> &Path {
        &self.shown
    }

    /// Returns the place of the directory that this place is in, and the name of this place in it; `None` at
    /// the root of the store.
    pub(in crate::format::io) fn parent(&self) -> Option<(Self, String)> {
        let shown = self.shown.to_string_lossy();
        let (above, _) = shown.trim_end_matches('/').rsplit_once('/')?;
        let location = self.location.as_ref();
        let (location, name) = match location.rsplit_once('/') {
            // The parts of a location are already encoded.
            Some((location, name)) => (ObjectPath::parse(location).ok()?, name),
            None => (ObjectPath::default(), location),
        };
        let parent = Self {
            store: self.store.clone(),
            location,
            shown: above.into(),
            cache: self.cache.clone(),
            is_referenced: false,
        };
        (!name.is_empty()).then(|| (parent, name.to_string()))
    }

    /// Returns the place of a key below this place, such as `t2m/c/0/1`.
    pub(in crate::format::io) fn join(&self, key: &str) -> Self {
        let mut location = self.location.clone();
        for part in key.split('/').filter(|part| !part.is_empty()) {
            // `join` would encode the name, and the store would encode the result again.
            location = match ObjectPath::parse(format!("{location}/{part}")) {
                Ok(location) => location,
                Err(_) => location.join(part),
            };
        }
        let shown = self.shown.to_string_lossy();
        Self {
            store: self.store.clone(),
            location,
            shown: format!("{}/{key}", shown.trim_end_matches('/')).into(),
            cache: self.cache.clone(),
            is_referenced: false,
        }
    }
}
