//! Requests to one store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use tokio::sync::Semaphore;

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

/// The answer to a request.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub bytes: Bytes,
    /// The size of the whole object.
    pub size: u64,
    /// The entity tag, which changes with the content of the object.
    pub etag: Option<String>,
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

    /// Gets a range of an object, or the whole object if it has at most `most` bytes. With an
    /// `etag`, fails with [`object_store::Error::Precondition`] if the object has another one.
    pub(super) async fn get(
        &self,
        path: &ObjectPath,
        range: Option<GetRange>,
        etag: Option<&str>,
        most: u64,
    ) -> Result<Answer, Refusal> {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await.ok();
        let options = GetOptions {
            range,
            if_match: etag.map(str::to_string),
            ..GetOptions::default()
        };
        let result = self.store.get_opts(path, options).await;
        let result = result.map_err(Refusal::Store)?;
        let length = result.range.end.saturating_sub(result.range.start);
        if length > most {
            return Err(Refusal::TooLarge(length));
        }
        let (size, etag) = (result.meta.size, result.meta.e_tag.clone());
        let bytes = result.bytes().await.map_err(Refusal::Store)?;
        if bytes.len() as u64 != length {
            let message = format!("the answer has {} bytes, expected {length}", bytes.len());
            return Err(Refusal::Store(object_store::Error::Generic {
                store: "remote",
                source: message.into(),
            }));
        }
        Ok(Answer { bytes, size, etag })
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
}

impl RemotePlace {
    /// Creates a place. `shown` is its URL without secrets.
    pub fn new(store: RemoteStore, location: ObjectPath, shown: impl Into<PathBuf>) -> Self {
        Self {
            store,
            location,
            shown: shown.into(),
        }
    }

    /// Returns the URL, without secrets.
    pub fn path(&self) -> &Path {
        &self.shown
    }

    /// Returns the place of a key below this place, such as `t2m/c/0/1`.
    pub(super) fn join(&self, key: &str) -> Self {
        let mut location = self.location.clone();
        for part in key.split('/').filter(|part| !part.is_empty()) {
            location = location.join(part);
        }
        let shown = self.shown.to_string_lossy();
        Self {
            store: self.store.clone(),
            location,
            shown: format!("{}/{key}", shown.trim_end_matches('/')).into(),
        }
    }
}
