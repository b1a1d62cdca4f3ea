//! A store that lists directories and logs its requests.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::prelude::SessionContext;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use url::Url;

use crate::remote::{put_directory, with_partitions};

/// A store in memory that logs its `get` requests.
#[derive(Debug, Default)]
pub struct LoggedStore {
    inner: InMemory,
    /// The paths of the requests since the last call of [`Self::take_log`].
    log: Mutex<Vec<String>>,
    delay: Mutex<Duration>,
    running: AtomicUsize,
    most_running: AtomicUsize,
}

impl LoggedStore {
    /// Creates a store of the files in a directory.
    pub async fn of(directory: &Path) -> Arc<Self> {
        let store = Self::default();
        put_directory(&store.inner, directory).await;
        Arc::new(store)
    }

    pub fn set_delay(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// The maximum number of requests at the same time since the last call.
    pub fn take_most_running(&self) -> usize {
        self.most_running.swap(0, Ordering::SeqCst)
    }

    /// Creates a session with this store as the bucket `b`.
    pub fn session(self: &Arc<Self>, partitions: usize) -> SessionContext {
        let ctx = with_partitions(partitions);
        let store: Arc<dyn ObjectStore> = Arc::<Self>::clone(self);
        ctx.register_object_store(&Url::parse("s3://b").unwrap(), store);
        ctx
    }
}

impl fmt::Display for LoggedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoggedStore")
    }
}

#[async_trait]
impl ObjectStore for LoggedStore {
    async fn put_opts(
        &self,
        location: &ObjectPath,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &ObjectPath,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &ObjectPath, options: GetOptions) -> Result<GetResult> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        self.log.lock().unwrap().push(location.to_string());
        let delay = *self.delay.lock().unwrap();
        tokio::time::sleep(delay).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<ObjectPath>>,
    ) -> BoxStream<'static, Result<ObjectPath>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &ObjectPath,
        to: &ObjectPath,
        options: CopyOptions,
    ) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
